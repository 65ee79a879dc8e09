// Every policy is debited, then the one that is deepest below zero says how long to wait. A debt
// that could not be counted is found before anything is debited.

#include "weir/system/contract/published.h"

#include <utility>

#include "weir/system/contract/costs.h"

namespace weir::system::contract {

Published::Published(std::vector<Policy> policies, Instant now)
    : policies_(std::move(policies)), at_(now) {
  for (const Policy& policy : policies_) levels_fs_.push_back(full_fs(policy));
}

Published::Published(std::vector<Policy> policies, std::vector<Wide> levels_fs, Instant at)
    : policies_(std::move(policies)), levels_fs_(std::move(levels_fs)), at_(at) {}

Published Published::changed(std::vector<Policy> policies, Instant now) const {
  Published before = *this;
  before.advance(now);
  Published after(std::move(policies), now);
  after.changes_ = changes_ + 1;
  for (std::size_t i = 0; i < after.policies_.size(); ++i) {
    const Policy& policy = after.policies_[i];
    for (std::size_t j = 0; j < policies_.size(); ++j) {
      const Policy& old = policies_[j];
      if (old.resource != policy.resource || old.period != policy.period) continue;
      // Rounded up to whole micro-units. Debt beyond the largest cost counts as that.
      const Wide used_micro = std::min(
          Wide{old.capacity_micro()} - left_micro(old, before.levels_fs_[j]), Wide{kCostMicroMax});
      after.set_left(i, saturate(policy.capacity_micro() - used_micro), now);
    }
  }
  return after;
}

void Published::set_left(std::size_t policy, std::int64_t left_micro, Instant now) {
  ++changes_;
  advance(now);
  const Wide level_fs = worth_fs(policies_[policy], left_micro);
  levels_fs_[policy] = std::min(level_fs, full_fs(policies_[policy]));
}

void Published::advance(Instant now) {
  if (now <= at_) return;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    levels_fs_[i] = refilled_fs(policies_[i], levels_fs_[i], now - at_);
  }
  at_ = now;
}

Result<Delay> Published::ask(const Costs& costs, Instant now) {
  if (auto error = check_costs(costs)) return std::move(*error);
  advance(now);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const Wide worth = worth_fs(policies_[i], costs.of(policies_[i].resource));
    if (levels_fs_[i] < kLevelMin + worth) return debt_too_large(policies_[i]);
  }
  ++changes_;
  Delay delay;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    levels_fs_[i] -= worth_fs(policies_[i], costs.of(policies_[i].resource));
    // Compared before rounding: of two policies the one that is really longer binds.
    const bool longest = !delay.binding || levels_fs_[i] < levels_fs_[*delay.binding];
    if (levels_fs_[i] < 0 && longest) delay.binding = i;
  }
  if (delay.binding) delay.delay_ns = wait_ns(-levels_fs_[*delay.binding]);
  return delay;
}

}  // namespace weir::system::contract
