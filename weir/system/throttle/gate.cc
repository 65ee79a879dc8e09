// A request becomes a transaction, and the answer of the front end's buckets a check. check() only
// looks; charge() and refused() make the real decision, under the same lock and at the same
// instant.

#include "weir/system/throttle/gate.h"

#include <algorithm>
#include <utility>

#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

using engine::Request;

std::int32_t saturated(std::int64_t value) noexcept {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, kMax32));
}

// Of a request for so many of its operation.
Transaction transaction_of(const ThrottleSet& set, const Request& request,
                           std::int64_t cost) noexcept {
  Transaction transaction;
  transaction.operation = set.operations().find(request.attribute("operation").value_or(""));
  if (const auto payer = request.attribute("payer")) {
    transaction.payer = parse_whole<std::int64_t>(*payer);
  }
  transaction.high_volume = request.attribute("high_volume") == "true";
  transaction.gas = request.cost("gas").value_or(transaction.gas);
  transaction.bytes = request.cost("bytes").value_or(transaction.bytes);
  if (const auto nfts = request.cost("nfts")) transaction.nfts = saturated(*nfts);
  if (const auto creations = request.cost("creations")) {
    transaction.creations = saturated(*creations);
  }
  if (const auto associations = request.cost("associations")) {
    transaction.associations = saturated(*associations);
  }
  transaction.count = saturated(cost);
  // What a schedule holds, and when it expires, is not told here.
  transaction.scheduled = ScheduledTransaction{};
  return transaction;
}

meter::Check check_of(const ThrottleSet& set, const Transaction& transaction,
                      const Answered<Admission>& said, Instant now, std::int64_t cost) {
  if (said.ok() && said->allowed) return {Verdict::kAllowed, now, 0};
  const std::int64_t room = set.room_for(transaction, moment_of(now));
  const std::int64_t missing = std::max<std::int64_t>(1, cost - room);
  if (!said.ok()) return {Verdict::kDenied, kForever, missing};
  if (said->never) return {Verdict::kNever, kForever, missing};
  return {Verdict::kDenied, set.fits_from(transaction, now), missing};
}

}  // namespace

// Operations share buckets, and all of them gas: they are one queue.

meter::Check ThrottleGate::check(const Request& request, Instant now, std::int64_t cost) {
  if (cost < 1) return {Verdict::kAllowed, now, 0};
  const Transaction transaction = transaction_of(set(), request, cost);
  return check_of(set(), transaction, set().peek(transaction, moment_of(now)), now, cost);
}

Instant ThrottleGate::fits_from(const Request& request, Instant from, std::int64_t cost) const {
  return cost < 1 ? from : set().fits_from(transaction_of(set(), request, cost), from);
}

void ThrottleGate::charge(const Request& request, Instant now, std::int64_t cost) {
  if (cost > 0) (void)set().decide(transaction_of(set(), request, cost), moment_of(now));
}

// The decision that check() has only looked at: it refuses again, leaks, and moves clocks.
void ThrottleGate::refused(const Request& request, Instant now, std::int64_t cost) {
  charge(request, now, cost);
}

std::uint64_t ThrottleGate::charge_held(const Request& request, Instant now, std::int64_t cost) {
  if (cost < 1) return 0;
  Claims claims;
  const Answered<Admission> said =
      set().decide(transaction_of(set(), request, cost), moment_of(now), &claims);
  // check() goes the same way at this instant, under this lock. Should it have said something
  // else, the end of this hold gives nothing back.
  if (!said.ok() || !said->allowed) return 0;
  held_.emplace(++last_receipt_, std::move(claims));
  return last_receipt_;
}

void ThrottleGate::end(Instant, const engine::HoldEnd& hold) {
  const auto found = held_.find(hold.receipt);
  if (found == held_.end()) return;
  const Claims claims = std::move(found->second);
  held_.erase(found);
  if (hold.how == engine::Ending::kCancelled) {
    set().refund(claims);
    return;
  }
  if (hold.back > 0) {
    set().refund_operations(claims, std::min(hold.back, hold.charged), hold.charged);
  }
  if (const auto gas = engine::amount_in(hold.actual, "gas")) set().refund_gas(claims, *gas);
}

std::int64_t ThrottleGate::available(const Request& request, Instant now) {
  return set().room_for(transaction_of(set(), request, 1), moment_of(now));
}

std::int64_t ThrottleGate::capacity(const Request& request) const {
  return set().capacity_for(transaction_of(set(), request, 1));
}

}  // namespace weir::system::throttle
