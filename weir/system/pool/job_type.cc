#include "weir/system/pool/job_type.h"

#include <fmt/format.h>

#include <cmath>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {
namespace {

Error bad_ratio(std::string_view kind, const JobType& type, std::string_view expected) {
  return bad_argument(fmt::format("{}: job type {}: ratio is {}, but it must be {}; write 0.25",
                                  kind, in_quotes(type.name), *type.ratio, expected));
}

}  // namespace

Result<std::vector<double>> initial_ratios(std::span<const JobType> types) {
  if (types.empty()) {
    return bad_argument("no_job_types: there is no job type, but there must be at least one");
  }
  double given = 0;
  std::size_t without = 0;
  for (const JobType& type : types) {
    if (!type.ratio) {
      ++without;
      continue;
    }
    // Not a number is not positive either.
    if (!(*type.ratio > 0)) return bad_ratio("ratio_not_positive", type, "above 0");
    if (*type.ratio > 1) return bad_ratio("ratio_above_1", type, "at most 1");
    given += *type.ratio;
  }
  if (given > 1 + kRatioTolerance) {
    return bad_argument(fmt::format(
        "ratio_sum_exceeds_1: the ratios of the job types add up to {}, but they must not exceed "
        "1; write smaller ones, or leave some out",
        given));
  }
  std::vector<double> ratios;
  ratios.reserve(types.size());
  const bool scaled = without == 0 && std::abs(1 - given) > kRatioTolerance;
  for (const JobType& type : types) {
    if (!type.ratio) {
      ratios.push_back((1 - given) / static_cast<double>(without));
    } else {
      ratios.push_back(scaled ? *type.ratio / given : *type.ratio);
    }
  }
  return ratios;
}

Amounts average_estimate(std::span<const JobType> types) {
  if (types.empty()) return {1, 1};
  Amounts sum;
  // At most kJobTypesMax estimates of kAmountMax: far below 2^63.
  for (const JobType& type : types) {
    sum.tokens += type.tokens.value_or(1);
    sum.requests += type.requests.value_or(1);
  }
  const auto count = static_cast<std::int64_t>(types.size());
  return {sum.tokens / count, sum.requests / count};
}

Status validate_job_type(const JobType& type) {
  if (Status named = validate_name("job type", type.name); !named) return named;
  const std::string what = fmt::format("job type {}: estimate", in_quotes(type.name));
  if (Status valid = validate_amounts(what, type.estimate()); !valid) return valid;
  if (type.memory_kb < 0 || type.memory_kb > kMemoryKbMax) {
    return bad_argument(fmt::format("job type {}: memory is {} KB, but it must be 0 to {}",
                                    in_quotes(type.name), type.memory_kb, kMemoryKbMax));
  }
  for (const auto& [model, wait] : type.max_wait) {
    if (wait >= Duration{0} && wait <= kWaitMax) continue;
    return bad_argument(fmt::format(
        "job type {}: max_wait for {} is {} ms, but it must be 0 to 7 days", in_quotes(type.name),
        in_quotes(model), std::chrono::duration_cast<std::chrono::milliseconds>(wait).count()));
  }
  return Done{};
}

Duration default_wait(Instant now) noexcept {
  const std::int64_t second = now.ns / 1'000'000'000 % 60;
  return std::chrono::seconds{60 - second + 5};
}

}  // namespace weir::system::pool
