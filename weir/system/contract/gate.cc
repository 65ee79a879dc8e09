// A request's costs go to the account's book, which offers the start; a start that has come is an
// allowed check. All of it uses the book under the account's lock.

#include "weir/system/contract/gate.h"

#include <algorithm>
#include <utility>

namespace weir::system::contract {
namespace {

// Requests of the engine are whole. More than fit are more than any policy holds.
std::int64_t requests_micro(std::int64_t requests) {
  return requests > kCostMicroMax / kMicro ? kCostMicroMax : requests * kMicro;
}

Costs costs_of(const engine::Request& request, std::int64_t cost) {
  return {requests_micro(cost), request.cost(kProcessingUnitsUnit).value_or(0)};
}

}  // namespace

AccountGate::AccountGate(std::shared_ptr<Account> account) : account_(std::move(account)) {}

void AccountGate::lock() noexcept { account_->lock(); }
void AccountGate::unlock() noexcept {
  asking_ = 0;
  account_->unlock();
}

const AccountGate::Place* AccountGate::place() const {
  const auto found = asking_ == 0 ? places_.end() : places_.find(asking_);
  return found == places_.end() ? nullptr : &found->second;
}

const AccountGate::Place* AccountGate::place(const Costs& costs, Instant now) {
  const auto found = asking_ == 0 ? places_.end() : places_.find(asking_);
  if (found == places_.end()) return nullptr;
  Book& book = account_->locked().book;
  Place& place = found->second;
  // It has expired meanwhile, or new rules weigh the request in another way.
  if (book.reserved(place.number) != costs) {
    leave_place(asking_);
    return nullptr;
  }
  if (place.start > now && place.easings != book.easings()) {
    place.start = book.move_up(place.number, now);
    place.easings = book.easings();
  }
  return &place;
}

void AccountGate::take_place(const engine::Request& request, Instant from, std::int64_t cost) {
  Book& book = account_->locked().book;
  const Instant latest = later_of(from, account_->locked().latest);
  if (const Place* had = place(); had != nullptr && had->start >= from) return;
  leave_place(asking_);
  const Costs costs = costs_of(request, cost);
  const Offer offer = book.offer(costs, latest);
  if (asking_ == 0 || offer.never != Never::kNot) return;
  const Result<std::uint64_t> number =
      book.grant(costs, offer.start, offer.start + account_->locked().options.hold);
  if (number) places_[asking_] = {*number, offer.start, book.easings()};
}

void AccountGate::leave_place(std::uint64_t ticket) {
  const auto found = places_.find(ticket);
  if (found == places_.end()) return;
  account_->locked().book.release(found->second.number, account_->locked().latest);
  places_.erase(found);
}

std::optional<std::uint64_t> AccountGate::take_over(Instant expires) {
  const Place* const taken = place();
  if (taken == nullptr) return std::nullopt;
  const std::uint64_t number = taken->number;
  account_->locked().book.set_expires(number, expires);
  places_.erase(asking_);
  return number;
}

meter::Check AccountGate::check(const engine::Request& request, Instant now, std::int64_t cost) {
  if (account_->locked().awaits_contract()) return {Verdict::kDenied, kForever, cost};
  Book& book = account_->locked().book;
  const Instant latest = account_->locked().advance(now);
  book.expire(latest);
  book.make_room(latest);
  const Costs costs = costs_of(request, cost);
  if (const Place* waits = place(costs, latest)) {
    // Not while the service has said that it refuses.
    const Instant start = later_of(waits->start, book.not_before());
    if (start <= latest) return {Verdict::kAllowed, now, 0};
    return {Verdict::kDenied, start, std::max<std::int64_t>(1, cost)};
  }
  if (!book.has_room()) return {Verdict::kDenied, kForever, cost};  // so that charge() cannot fail
  const Offer offer = book.offer(costs, latest);
  if (offer.never != Never::kNot) return {Verdict::kNever, kForever, cost};
  // The engine may have read its clock before a caller that came first.
  if (offer.start <= latest) return {Verdict::kAllowed, now, 0};
  return {Verdict::kDenied, offer.start, std::max<std::int64_t>(1, cost - available(request, now))};
}

Instant AccountGate::fits_from(const engine::Request& request, Instant from,
                               std::int64_t cost) const {
  if (account_->locked().awaits_contract()) return kForever;
  const Instant latest = later_of(from, account_->locked().latest);
  const Book& book = account_->locked().book;
  if (const Place* waits = place()) {
    return later_of(from, later_of(waits->start, book.not_before()));
  }
  const Instant start = book.offer(costs_of(request, cost), latest).start;
  return start <= latest ? from : start;
}

void AccountGate::charge(const engine::Request& request, Instant now, std::int64_t cost) {
  // Without a hold no caller can end it: it is final once its worker has started.
  Book& book = account_->locked().book;
  if (take_over(later_of(now, account_->locked().latest) + book.jitter())) return;
  static_cast<void>(book.grant(costs_of(request, cost), now, now + book.jitter()));  // has_room()
}

std::uint64_t AccountGate::charge_held(const engine::Request& request, Instant now,
                                       std::int64_t cost) {
  const Instant expires = now + account_->locked().options.hold;
  if (const auto taken = take_over(expires)) return *taken;
  const Result<std::uint64_t> number =
      account_->locked().book.grant(costs_of(request, cost), now, expires);
  return number ? *number : 0;
}

void AccountGate::end(Instant now, const engine::HoldEnd& hold) {
  Book& book = account_->locked().book;
  const std::optional<Costs> reserved = book.reserved(hold.receipt);
  if (!reserved) return;
  now = account_->locked().advance(now);
  switch (hold.how) {
    case engine::Ending::kCancelled:
      book.release(hold.receipt, now);
      return;
    case engine::Ending::kExpired:
      book.commit(hold.receipt, std::nullopt, now);
      return;
    case engine::Ending::kSettled: {
      // The amount is in requests: what was charged less it is what was used.
      const Wide used = Wide{reserved->requests_micro} - Wide{hold.back} * kMicro;
      const Wide most = kCostMicroMax;
      const Costs actual{saturate(std::clamp<Wide>(used, 0, most)),
                         engine::amount_in(hold.actual, kProcessingUnitsUnit)
                             .value_or(reserved->processing_units_micro)};
      book.commit(hold.receipt, actual, now);
      return;
    }
  }
}

std::int64_t AccountGate::available(const engine::Request& request, Instant now) {
  const Book& book = account_->locked().book;
  now = account_->locked().advance(now);
  if (book.first_start(now) > now) return 0;  // those who have a later start come first
  const std::vector<Standing> rows = book.standing({0, 0}, now);
  std::int64_t least = capacity(request);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Policy& policy = book.policies()[i];
    if (policy.resource != Resource::kRequests) continue;
    least = std::min(least, left_micro(policy, rows[i].level_fs) / kMicro);
  }
  return std::max<std::int64_t>(0, least);
}

std::int64_t AccountGate::capacity(const engine::Request&) const {
  std::int64_t least = kCapacityMax;
  for (const Policy& policy : account_->locked().book.policies()) {
    if (policy.resource == Resource::kRequests) least = std::min(least, policy.capacity);
  }
  return least;
}

}  // namespace weir::system::contract
