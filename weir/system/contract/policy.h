// Policy: so many units per period, refilled continuously; and its level.
//
// A policy holds at most `capacity` units and gains one every `refill_ns`, which is
// `nanosBetweenRefills` as the service gave it. A period of zero is a fixed quota:
// it gains nothing.
//
// A level is kept as the time its units take to refill, in femtoseconds (millionths
// of a nanosecond): a cost of c micro-units is worth c * refill_ns fs, and a
// nanosecond brings 10^6 fs. Both are whole, so nothing is ever rounded:
//
//   1000 per PT1M: refill_ns 60,000,000; full 1000 * 10^6 * 60,000,000 = 6*10^16 fs
//   0.64 units cost 640,000 * 60,000,000 = 3.84*10^13 fs, that is 38.4 ms
//
// Capacities are at most 2^62 micro-units and intervals below 2^63 ns, so a full
// level is below 2^125 and fits; levels below kLevelMin are refused or held there.
//
// Thread safety: every function is pure.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/contract/period.h"
#include "weir/system/contract/resource.h"

namespace weir::system::contract {

constexpr std::int64_t kCapacityMax = kTermMax / kMicro;  // units
constexpr Wide kLevelMin = -(Wide{1} << 126);
constexpr Wide kLevelMax = Wide{1} << 126;
constexpr std::size_t kPoliciesMax = 16;  // of one account

struct Policy {
  Resource resource = Resource::kRequests;
  std::int64_t capacity = 0;  // units
  Duration period{};
  std::int64_t refill_ns = kNeverRefills;  // between two units

  constexpr bool is_fixed() const noexcept { return period.count() == 0; }
  constexpr std::int64_t capacity_micro() const noexcept { return capacity * kMicro; }
  friend constexpr bool operator==(const Policy&, const Policy&) = default;
};

// Refused by name: a negative period or capacity, one above kCapacityMax, an interval
// below 1 ns, and a fixed quota with an interval at which it would refill.
Result<Policy> make_policy(Resource resource, std::int64_t capacity, Duration period,
                           std::optional<std::int64_t> refill_ns = std::nullopt);

// `PU_400000_PT744H`
std::string policy_id(const Policy& policy);

// What `amount_micro` is worth. Requires an amount of at most 2^62 either way.
constexpr Wide worth_fs(const Policy& policy, std::int64_t amount_micro) noexcept {
  return Wide{amount_micro} * policy.refill_ns;
}
constexpr Wide full_fs(const Policy& policy) noexcept {
  return worth_fs(policy, policy.capacity_micro());
}

// The level `elapsed` later, at most `cap_fs`. Requires elapsed >= 0.
constexpr Wide refilled_fs(const Policy& policy, Wide level_fs, Duration elapsed,
                           Wide cap_fs) noexcept {
  const Wide gained_fs = policy.is_fixed() ? 0 : Wide{elapsed.count()} * kMicro;
  return std::min(level_fs + gained_fs, cap_fs);
}
constexpr Wide refilled_fs(const Policy& policy, Wide level_fs, Duration elapsed) noexcept {
  return refilled_fs(policy, level_fs, elapsed, full_fs(policy));
}

// The level less `worth`, held at kLevelMin.
constexpr Wide debited_fs(Wide level_fs, Wide worth) noexcept {
  return level_fs < kLevelMin + worth ? kLevelMin : level_fs - worth;
}

// The level and `worth`, held at kLevelMax.
constexpr Wide credited_fs(Wide level_fs, Wide worth) noexcept {
  return level_fs > kLevelMax - worth ? kLevelMax : level_fs + worth;
}

// How long `missing_fs` takes to refill, rounded up to whole nanoseconds.
constexpr Wide wait_ns(Wide missing_fs) noexcept {
  return missing_fs <= 0 ? 0 : ceil_div(missing_fs, kMicro);
}

// Units left, in millionths, rounded down; negative when in debt.
constexpr std::int64_t left_micro(const Policy& policy, Wide level_fs) noexcept {
  return saturate(floor_div(level_fs, policy.refill_ns));
}

}  // namespace weir::system::contract
