// Pools settings: the models, the job types and how jobs wait.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/availability.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/cost.h"
#include "weir/system/pool/job_type.h"
#include "weir/system/pool/memory.h"
#include "weir/system/pool/type_meter.h"
#include "weir/system/pool/type_shares.h"

namespace weir::system::pool {

constexpr std::size_t kJobsMax = 1'000'000;
constexpr std::int64_t kDelegationsMax = 1'000;

struct ModelSpec {
  std::string name{};
  ModelLimits limits{};
  Pricing pricing{};
  CapacityBounds bounds{};

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

struct PoolsSettings {
  std::vector<ModelSpec> models{};
  // Which model to try first, second, ...; may be left out if there is only one. Models that
  // are not named here are never chosen.
  std::vector<std::string> escalation{};
  std::vector<JobType> types{};
  RatioSettings ratios{};
  std::optional<MemorySettings> memory{};
  // kStrict, or one of the published rules: these also keep the published local limits and
  // never wait for a coordinator that refused.
  CountRule rule = CountRule::kStrict;
  std::int64_t delegations_max = 8;  // of one job
  // Over which the waiters of a window that turned are spread; zero: all at once.
  Duration pacing{};
  std::size_t jobs_max = 100'000;  // waiting or running
  std::uint64_t version = 0;       // of the limits, for the coordinator
};

// Refused, with a message that says what to write.
Status validate_settings(const PoolsSettings& settings);

// What a job of the type books before it runs. Requests that the type leaves out are one request,
// as a job makes at least one; by the published rules they are none, as there.
Amounts estimate_of(const PoolsSettings& settings, std::size_t type) noexcept;

// What the coordinator is told.
Registration registration_of(const PoolsSettings& settings);

// The capacity to divide among the types before an allocation is known.
std::int64_t capacity_before_allocation(const PoolsSettings& settings);

}  // namespace weir::system::pool
