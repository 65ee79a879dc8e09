#include "weir/system/throttle/gate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "weir/base/assert.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

using engine::Attribute;
using engine::Cost;
using engine::Request;

std::int32_t saturated(std::int64_t value) noexcept {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, kMax32));
}

void set_cost(const Cost& cost, Transaction& transaction) noexcept {
  if (cost.unit == "gas") transaction.gas = cost.amount;
  if (cost.unit == "bytes") transaction.bytes = cost.amount;
  if (cost.unit == "nfts") transaction.nfts = saturated(cost.amount);
  if (cost.unit == "creations") transaction.creations = saturated(cost.amount);
  if (cost.unit == "associations") transaction.associations = saturated(cost.amount);
}

// None: the request names no operation, or asks for none of it.
std::optional<Transaction> transaction_of(const ThrottleSet& set, const Request& request,
                                          std::int64_t cost) noexcept {
  Transaction transaction;
  bool has_operation = false;
  for (const Attribute& attribute : request.attributes) {
    if (attribute.name == "operation") {
      has_operation = true;
      transaction.operation = set.operations().find(attribute.value);
    } else if (attribute.name == "payer") {
      transaction.payer = parse_whole<std::int64_t>(attribute.value);
    } else if (attribute.name == "high_volume") {
      transaction.high_volume = attribute.value == "true";
    }
  }
  if (!has_operation || cost < 1) return std::nullopt;
  for (const Cost& given : request.costs) set_cost(given, transaction);
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
std::optional<std::uint64_t> ThrottleGate::queue_of(const Request& request) const {
  for (const Attribute& attribute : request.attributes) {
    if (attribute.name == "operation") return 0;
  }
  return std::nullopt;
}

meter::Check ThrottleGate::check(const Request& request, Instant now, std::int64_t cost) {
  const std::optional<Transaction> transaction = transaction_of(set(), request, cost);
  if (!transaction) return {Verdict::kAllowed, now, 0};
  return check_of(set(), *transaction, set().peek(*transaction, moment_of(now)), now, cost);
}

Instant ThrottleGate::fits_from(const Request& request, Instant from, std::int64_t cost) const {
  const std::optional<Transaction> transaction = transaction_of(set(), request, cost);
  return transaction ? set().fits_from(*transaction, from) : from;
}

void ThrottleGate::charge(const Request& request, Instant now, std::int64_t cost) {
  const std::optional<Transaction> transaction = transaction_of(set(), request, cost);
  if (transaction) (void)set().decide(*transaction, moment_of(now));
}

// The decision that check() has only looked at: it refuses again, leaks, and moves clocks.
void ThrottleGate::refused(const Request& request, Instant now, std::int64_t cost) {
  charge(request, now, cost);
}

std::uint64_t ThrottleGate::charge_held(const Request& request, Instant now, std::int64_t cost) {
  const std::optional<Transaction> transaction = transaction_of(set(), request, cost);
  if (!transaction) return 0;
  Claims claims;
  const Answered<Admission> said = set().decide(*transaction, moment_of(now), &claims);
  WEIR_ASSERT(said.ok() && said->allowed);
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
  for (const Cost& cost : hold.actual) {
    if (cost.unit == "gas") set().refund_gas(claims, cost.amount);
  }
}

// The engine gives back through end().
void ThrottleGate::give_back(Instant, Instant, std::int64_t, bool) {}

std::int64_t ThrottleGate::available(Instant) { return kTermMax; }

std::int64_t ThrottleGate::capacity() const { return kTermMax; }

std::int64_t ThrottleGate::available_to(const Request& request, Instant now) {
  const std::optional<Transaction> transaction = transaction_of(set(), request, 1);
  return transaction ? set().room_for(*transaction, moment_of(now)) : kTermMax;
}

std::int64_t ThrottleGate::capacity_for(const Request& request) const {
  const std::optional<Transaction> transaction = transaction_of(set(), request, 1);
  return transaction ? set().capacity_for(*transaction) : kTermMax;
}

}  // namespace weir::system::throttle
