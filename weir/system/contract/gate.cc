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

std::optional<Book::Place> AccountGate::place() const {
  const auto found = asking_ == 0 ? places_.end() : places_.find(asking_);
  if (found == places_.end()) return std::nullopt;
  return account_->locked().book.place(found->second);
}

void AccountGate::take_place(const engine::Request& request, Instant from, std::int64_t cost) {
  if (asking_ == 0) return;
  Book& book = account_->locked().book;
  const Instant latest = account_->locked().latest;
  if (has_place()) {
    book.start_place_from(places_.at(asking_), from, latest);
    return;
  }
  const Result<std::uint64_t> id = book.take_place(costs_of(request, cost), from, latest);
  if (id) places_[asking_] = *id;
}

void AccountGate::leave_place(std::uint64_t ticket) {
  const auto found = places_.find(ticket);
  if (found == places_.end()) return;
  account_->locked().book.leave_place(found->second, account_->locked().latest);
  places_.erase(found);
}

std::optional<std::uint64_t> AccountGate::take_over(Instant expires) {
  const auto found = asking_ == 0 ? places_.end() : places_.find(asking_);
  if (found == places_.end()) return std::nullopt;
  const std::optional<std::uint64_t> number =
      account_->locked().book.take_over(found->second, expires);
  places_.erase(found);
  return number;
}

meter::Check AccountGate::check(const engine::Request& request, Instant now, std::int64_t cost) {
  if (account_->locked().awaits_contract()) return {Verdict::kDenied, kForever, cost};
  Book& book = account_->locked().book;
  const Instant latest = account_->locked().advance(now);
  book.expire(latest);
  book.make_room(latest);
  book.settle_places(latest);
  const Costs costs = costs_of(request, cost);
  // New rules may weigh it in another way.
  if (has_place()) {
    book.change_place(places_.at(asking_), costs, latest);
    book.settle_place(places_.at(asking_), latest);
  }
  if (const auto waits = place()) {
    if (waits->start <= latest) return {Verdict::kAllowed, now, 0};
    return {Verdict::kDenied, waits->start, std::max<std::int64_t>(1, cost)};
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
  if (const auto waits = place()) return later_of(from, waits->start);
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
