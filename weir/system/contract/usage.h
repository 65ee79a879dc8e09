// Usage: how much of an account's policies is used, and when they are used up at this pace.
//
// Who has bought a month wants to know before it is over. A policy of kWatchedPeriod or more, or
// a fixed quota, reaches thresholds; shorter ones come and go with every burst. The pace is what
// was asked for since the oldest of the samples, an hour of them at most, less what refills.
//
//   UsageWatch watch;
//   for (const PolicyUsage& usage : watch.look(account->view(now), now)) ... usage.reached
//
// Thread safety: none; one thread looks.

#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/policy.h"

namespace weir::system::contract {

constexpr int kUsageThresholds[] = {50, 80, 95, 100};  // percent
constexpr int kUsageSlack = 10;  // a threshold is reached anew once so much less was used
constexpr Duration kWatchedPeriod = std::chrono::hours{1};
constexpr Duration kSampleEvery = std::chrono::minutes{1};
constexpr std::size_t kSamplesMax = 61;

struct PolicyUsage {
  Policy policy;
  int percent = 0;                       // used, rounded down; above 100 in debt
  std::optional<int> reached{};          // a threshold, since the last look
  std::optional<Duration> used_up_in{};  // at this pace; none: it is not, or nobody knows yet
};

class UsageWatch {
 public:
  // The watched policies of the account, as they stand at `now`.
  std::vector<PolicyUsage> look(const AccountView& view, Instant now);

 private:
  struct Sample {
    Instant at{};
    Wide requests_micro = 0;
    Wide processing_units_micro = 0;
  };
  std::optional<Duration> used_up_in(const PolicyView& row, const Sample& present) const;
  std::optional<int> reached(const Policy& policy, int percent);

  std::deque<Sample> samples_;       // oldest first
  std::map<std::string, int> told_;  // the highest threshold, by policy
};

}  // namespace weir::system::contract
