// Admission: what a throttle set says to one transaction, and what refused it.
//
// Thread safety: plain values.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/time.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {

enum class Refuser : std::uint8_t {
  kNone,
  kGas,
  kBytes,
  kBucket,     // Admission::bucket
  kUnlisted,   // no bucket lists the operation: never
  kMalformed,  // a ScheduleCreate without a transaction, several that imply others: never
  kSchedule,   // too many transactions expire in that second
  kDuration,   // the work of contracts before it has not leaked yet
};

struct Admission {
  bool allowed = true;
  Refuser refuser = Refuser::kNone;
  std::uint32_t bucket = 0;  // of several, the one that keeps the claim waiting longest
  // When it would be granted if no other claim came; kForever: unknown, or never.
  Instant fits_at{};
  bool never = false;        // it is more than the bucket can ever hold
  std::int64_t missing = 0;  // units that the bucket lacked

  bool by_gas() const noexcept { return refuser == Refuser::kGas; }
  // The network has one word for both.
  bool by_contracts() const noexcept { return by_gas() || refuser == Refuser::kDuration; }
};

// The network's own word for a decision: `OK`, `BUSY`, `THROTTLED_AT_CONSENSUS`,
// `CONSENSUS_GAS_EXHAUSTED`.
constexpr std::string_view status_of(SetRole role, const Admission& admission) noexcept {
  if (admission.allowed) return "OK";
  if (role != SetRole::kConsensus) return "BUSY";
  return admission.by_contracts() ? "CONSENSUS_GAS_EXHAUSTED" : "THROTTLED_AT_CONSENSUS";
}

}  // namespace weir::system::throttle
