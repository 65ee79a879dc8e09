// Job type: a class of work with an estimate and a share of every instance's capacity.
//
//   std::vector<JobType> types{{.name = "summary", .tokens = 10'000, .requests = 1, .ratio = 0.3},
//                              {.name = "chat", .tokens = 2'000, .requests = 1}};
//   initial_ratios(types);     // 0.3 and what is left: 0.7
//   average_estimate(types);   // 6,000 tokens and 1 request
//
// Ratios are IEEE doubles, computed in the published order of operations.
//
// Thread safety: every function is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/limits.h"

namespace weir::system::pool {

constexpr std::size_t kJobTypesMax = 256;
constexpr double kRatioTolerance = 0.0001;  // of a sum of ratios
constexpr std::int64_t kMemoryKbMax = std::int64_t{1} << 50;
constexpr Duration kWaitMax = std::chrono::hours{24 * 7};

struct JobType {
  std::string name{};
  // Estimates of one job. Nothing counts as 1 in an average, and as 0 everywhere else, but see
  // estimate_of() in settings.h; an estimate of 0 books nothing.
  std::optional<std::int64_t> tokens{};
  std::optional<std::int64_t> requests{};
  std::int64_t memory_kb = 0;  // 0: not counted
  // The share to begin with; nothing: an equal part of what the others leave.
  std::optional<double> ratio{};
  bool is_flexible = true;  // whether the share may be adjusted
  // How long a job waits for a model; see default_wait() for the others. 0: one try.
  std::map<std::string, Duration, std::less<>> max_wait{};

  Amounts estimate() const noexcept { return {tokens.value_or(0), requests.value_or(0)}; }
  friend bool operator==(const JobType&, const JobType&) = default;
};

// In the order of the types. Refused, with a message that begins with `no_job_types`,
// `ratio_not_positive`, `ratio_above_1` or `ratio_sum_exceeds_1`.
Result<std::vector<double>> initial_ratios(std::span<const JobType> types);

// Over the types, however large their shares, rounded down; 1 and 1 if there are none.
// Requires valid estimates.
Amounts average_estimate(std::span<const JobType> types);

// Refused, with a message, for a bad name or estimate. Ratios: see initial_ratios().
Status validate_job_type(const JobType& type);

// How long a job waits for a model that its type does not name: until five seconds after the
// next whole minute, counted from whole seconds.
Duration default_wait(Instant now) noexcept;

}  // namespace weir::system::pool
