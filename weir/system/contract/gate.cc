#include "weir/system/contract/gate.h"

#include <algorithm>
#include <utility>

namespace weir::system::contract {
namespace {

// Requests of the engine are whole. More than fit are more than any policy holds.
std::int64_t requests_micro(std::int64_t requests) {
  return requests > kCostMicroMax / kMicro ? kCostMicroMax : requests * kMicro;
}

std::int64_t units_micro(std::span<const engine::Cost> costs, std::int64_t otherwise) {
  for (const engine::Cost& cost : costs) {
    if (cost.unit == kProcessingUnitsUnit) return cost.amount;
  }
  return otherwise;
}

Costs costs_of(const engine::Request& request, std::int64_t cost) {
  return {requests_micro(cost), units_micro(request.costs, 0)};
}

}  // namespace

AccountGate::AccountGate(std::shared_ptr<Account> account) : account_(std::move(account)) {}

void AccountGate::lock() noexcept { account_->lock(); }
void AccountGate::unlock() noexcept { account_->unlock(); }

meter::Check AccountGate::check(const engine::Request& request, Instant now, std::int64_t cost) {
  Book& book = account_->locked_book();
  book.expire(now);
  if (!book.has_room()) return {Verdict::kDenied, kForever, cost};  // so that charge() cannot fail
  const Offer offer = book.offer(costs_of(request, cost), now);
  if (offer.never != Never::kNot) return {Verdict::kNever, kForever, cost};
  if (offer.start <= now) return {Verdict::kAllowed, now, 0};
  return {Verdict::kDenied, offer.start, std::max<std::int64_t>(1, cost - available(now))};
}

Instant AccountGate::fits_from(const engine::Request& request, Instant from,
                               std::int64_t cost) const {
  return account_->locked_book().offer(costs_of(request, cost), from).start;
}

void AccountGate::charge(const engine::Request& request, Instant now, std::int64_t cost) {
  charge_held(request, now, cost);
}

std::uint64_t AccountGate::charge_held(const engine::Request& request, Instant now,
                                       std::int64_t cost) {
  const Result<std::uint64_t> number = account_->locked_book().grant(
      costs_of(request, cost), now, now + account_->locked_options().hold);
  return number ? *number : 0;
}

void AccountGate::give_back(Instant, Instant, std::int64_t, bool) {}

void AccountGate::end(Instant now, const engine::HoldEnd& hold) {
  Book& book = account_->locked_book();
  const std::optional<Costs> reserved = book.reserved(hold.receipt);
  if (!reserved) return;
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
                         units_micro(hold.actual, reserved->processing_units_micro)};
      book.commit(hold.receipt, actual, now);
      return;
    }
  }
}

std::int64_t AccountGate::available(Instant now) {
  const Book& book = account_->locked_book();
  if (book.last_start() > now) return 0;  // those who have a later start come first
  const std::vector<Standing> rows = book.standing({0, 0}, now);
  std::int64_t least = capacity();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Policy& policy = book.policies()[i];
    if (policy.resource != Resource::kRequests) continue;
    least = std::min(least, left_micro(policy, rows[i].level_fs) / kMicro);
  }
  return std::max<std::int64_t>(0, least);
}

std::int64_t AccountGate::capacity() const {
  std::int64_t least = kCapacityMax;
  for (const Policy& policy : account_->locked_book().policies()) {
    if (policy.resource == Resource::kRequests) least = std::min(least, policy.capacity);
  }
  return least;
}

}  // namespace weir::system::contract
