// Policies are checked where they are made, by name; those that exist need no further check.

#include "weir/system/contract/policy.h"

#include <fmt/format.h>

namespace weir::system::contract {

Result<Policy> make_policy(Resource resource, std::int64_t capacity, Duration period,
                           std::optional<std::int64_t> refill_ns) {
  if (period.count() < 0) {
    return bad_argument(
        fmt::format("bad_period: the period is {} ns, but it must be 0 or more; write one such as "
                    "'PT1M', or 'PT0S' for a fixed quota",
                    period.count()));
  }
  if (capacity < 0 || capacity > kCapacityMax) {
    return bad_argument(
        fmt::format("bad_capacity: the capacity is {}, but it must be between 0 and {}; write how "
                    "many units the policy holds",
                    capacity, kCapacityMax));
  }
  const Policy policy{resource, capacity, period,
                      refill_ns.value_or(refill_interval(period, capacity))};
  if (policy.refill_ns < 1) {
    return bad_argument(
        fmt::format("bad_refill: the refill interval of {} is {} ns, but it must be 1 ns or more; "
                    "write a smaller capacity or a longer period",
                    policy_id(policy), policy.refill_ns));
  }
  if (policy.is_fixed() && policy.refill_ns != kNeverRefills) {
    return bad_argument(
        fmt::format("bad_refill: {} is a fixed quota, but its refill interval is {} ns; leave the "
                    "interval out, or write a period",
                    policy_id(policy), policy.refill_ns));
  }
  return policy;
}

std::string policy_id(const Policy& policy) {
  return fmt::format("{}_{}_{}", short_name(policy.resource), policy.capacity,
                     period_text(policy.period));
}

}  // namespace weir::system::contract
