#include "weir/system/contract/published.h"

#include <utility>

#include "weir/system/contract/costs.h"

namespace weir::system::contract {

Published::Published(std::vector<Policy> policies, Instant now)
    : policies_(std::move(policies)), at_(now) {
  for (const Policy& policy : policies_) levels_fs_.push_back(full_fs(policy));
}

void Published::set_left(std::size_t policy, std::int64_t left_micro, Instant now) {
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

Result<Asked> Published::ask(const Costs& costs, Instant now) {
  if (auto error = check_costs(costs)) return std::move(*error);
  advance(now);
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const Wide worth = worth_fs(policies_[i], costs.of(policies_[i].resource));
    if (levels_fs_[i] < kLevelMin + worth) return debt_too_large(policies_[i]);
  }
  Asked asked;
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    levels_fs_[i] -= worth_fs(policies_[i], costs.of(policies_[i].resource));
    // Compared before rounding: of two policies the one that is really longer binds.
    const bool longest = !asked.binding || levels_fs_[i] < levels_fs_[*asked.binding];
    if (levels_fs_[i] < 0 && longest) asked.binding = i;
  }
  if (asked.binding) asked.delay_ns = wait_ns(-levels_fs_[*asked.binding]);
  return asked;
}

}  // namespace weir::system::contract
