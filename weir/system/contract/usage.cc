#include "weir/system/contract/usage.h"

#include <algorithm>

namespace weir::system::contract {
namespace {

bool is_watched(const Policy& policy) {
  return policy.capacity > 0 && (policy.is_fixed() || policy.period >= kWatchedPeriod);
}

// The highest threshold that so much is at; 0: none.
int threshold_of(int percent) {
  int highest = 0;
  for (const int threshold : kUsageThresholds) {
    if (percent >= threshold) highest = threshold;
  }
  return highest;
}

// At most ten times the capacity and the rest of 2^63 are owed: 100 times that fits 128 bits.
int percent_used(const PolicyView& row) {
  const Wide capacity = row.policy.capacity_micro();
  const Wide percent = floor_div((capacity - row.left_micro) * 100, capacity);
  return static_cast<int>(std::clamp<Wide>(percent, 0, 1'000'000));
}

}  // namespace

std::vector<PolicyUsage> UsageWatch::look(const AccountView& view, Instant now) {
  // Whatever the account's rule is, what it took: the other rule has taken nothing.
  const auto taken = [&](Resource resource) {
    return view.finals.of(resource) + view.outstanding_costs.of(resource) + view.asked.of(resource);
  };
  const Sample present{now, taken(Resource::kRequests), taken(Resource::kProcessingUnits)};
  std::vector<PolicyUsage> usages;
  std::map<std::string, int> told;
  for (const PolicyView& row : view.policies) {
    if (!is_watched(row.policy)) continue;
    const int percent = percent_used(row);
    usages.push_back({row.policy, percent, reached(row.policy, percent), used_up_in(row, present)});
    told.insert(told_.extract(policy_id(row.policy)));
  }
  told_ = std::move(told);  // without policies that are gone
  if (samples_.empty() || now - samples_.back().at >= kSampleEvery) {
    samples_.push_back(present);
    if (samples_.size() > kSamplesMax) samples_.pop_front();
  }
  return usages;
}

std::optional<int> UsageWatch::reached(const Policy& policy, int percent) {
  int& told = told_[policy_id(policy)];
  const int at = threshold_of(percent);
  if (at > told) {
    told = at;
    return at;
  }
  if (percent + kUsageSlack < told) told = at;
  return std::nullopt;
}

// What is left, divided by what is asked for beyond the refill. Left is below 2^63, the time
// between two samples below 2^62 ns.
std::optional<Duration> UsageWatch::used_up_in(const PolicyView& row, const Sample& present) const {
  if (row.left_micro <= 0) return Duration{0};
  if (samples_.empty() || present.at - samples_.front().at < kSampleEvery) return std::nullopt;
  const Sample& oldest = samples_.front();
  const Wide elapsed_ns = (present.at - oldest.at).count();
  const Wide asked_micro = row.policy.resource == Resource::kRequests
                               ? present.requests_micro - oldest.requests_micro
                               : present.processing_units_micro - oldest.processing_units_micro;
  const Wide refilled_micro =
      row.policy.is_fixed() ? 0 : floor_div(elapsed_ns * kMicro, row.policy.refill_ns);
  const Wide drained_micro = asked_micro - refilled_micro;
  if (drained_micro <= 0) return std::nullopt;
  const Wide in_ns = floor_div(Wide{row.left_micro} * elapsed_ns, drained_micro);
  if (in_ns > kInstantNsMax) return std::nullopt;
  return Duration{static_cast<std::int64_t>(in_ns)};
}

}  // namespace weir::system::contract
