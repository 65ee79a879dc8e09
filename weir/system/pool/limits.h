// Limits: what a model allows, and one instance's share of it.
//
// A model counts tokens and requests per minute and per day, in windows aligned to the
// Unix epoch, and requests in flight. Each dimension is optional: nothing means not limited,
// 0 means used up, and the two are never mixed.
//
//   ModelLimits limits{.rates = {.tokens_per_minute = 500'000, .requests_per_minute = 500}};
//   Pool pool = make_pool(limits, {}, {.tokens = 10'000, .requests = 1}, /*instances=*/2);
//   pool.left.tokens_per_minute;   // 250,000
//   pool.total_slots;              // 25
//
// Every instance gets the same pool; what does not divide evenly is left over.
//
// Thread safety: every function is pure.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir::system::pool {

constexpr std::int64_t kLimitMax = 1'000'000'000'000'000;  // exact as a double, in Lua too
constexpr std::int64_t kAmountMax = 1'000'000'000'000;     // of one job, estimated or used
constexpr std::int64_t kInstancesMax = 1'000'000;
constexpr std::size_t kModelsMax = 256;
constexpr std::size_t kNameBytesMax = 256;     // of a model, a job type or an instance
constexpr std::int64_t kUnlimitedSlots = 100;  // published: of a model without any limit

constexpr Duration kMinute = std::chrono::minutes{1};
constexpr Duration kDay = std::chrono::hours{24};

// The dimensions, in the published order.
enum class Dimension : std::uint8_t {
  kTokensPerMinute,
  kRequestsPerMinute,
  kTokensPerDay,
  kRequestsPerDay,
  kConcurrency,
};
constexpr std::size_t kRateCount = 4;  // all but concurrency
inline constexpr std::array<Dimension, kRateCount> kRates{
    Dimension::kTokensPerMinute, Dimension::kRequestsPerMinute, Dimension::kTokensPerDay,
    Dimension::kRequestsPerDay};

// `tokens_per_minute`: the same word in configuration, answers and metrics.
std::string_view to_string(Dimension dimension) noexcept;

// Of a rate's windows; zero for concurrency.
constexpr Duration window_of(Dimension dimension) noexcept {
  switch (dimension) {
    case Dimension::kTokensPerMinute:
    case Dimension::kRequestsPerMinute:
      return kMinute;
    case Dimension::kTokensPerDay:
    case Dimension::kRequestsPerDay:
      return kDay;
    case Dimension::kConcurrency:
      break;
  }
  return Duration{0};
}
constexpr bool counts_tokens(Dimension dimension) noexcept {
  return dimension == Dimension::kTokensPerMinute || dimension == Dimension::kTokensPerDay;
}

// The first instant of the window that contains `now`. Requires a rate.
constexpr Instant window_begin(Dimension rate, Instant now) noexcept {
  return Instant{now.ns - now.ns % window_of(rate).count()};
}

// Of one job: what it is expected to use, or what it did.
struct Amounts {
  std::int64_t tokens = 0;
  std::int64_t requests = 0;

  constexpr std::int64_t of(Dimension rate) const noexcept {
    return counts_tokens(rate) ? tokens : requests;
  }
  friend constexpr bool operator==(const Amounts&, const Amounts&) = default;
};

// A number for each rate; nothing: not limited.
struct Rates {
  std::optional<std::int64_t> tokens_per_minute{};
  std::optional<std::int64_t> requests_per_minute{};
  std::optional<std::int64_t> tokens_per_day{};
  std::optional<std::int64_t> requests_per_day{};

  constexpr std::optional<std::int64_t>& of(Dimension rate) noexcept {
    switch (rate) {
      case Dimension::kTokensPerMinute:
        return tokens_per_minute;
      case Dimension::kRequestsPerMinute:
        return requests_per_minute;
      case Dimension::kTokensPerDay:
        return tokens_per_day;
      default:
        return requests_per_day;
    }
  }
  constexpr const std::optional<std::int64_t>& of(Dimension rate) const noexcept {
    return const_cast<Rates*>(this)->of(rate);
  }
  friend constexpr bool operator==(const Rates&, const Rates&) = default;
};

struct ModelLimits {
  Rates rates{};
  std::optional<std::int64_t> concurrent{};

  friend constexpr bool operator==(const ModelLimits&, const ModelLimits&) = default;
};

// Refused, with a message, unless the name has 1 to kNameBytesMax bytes and every limit that
// is given is 1 to kLimitMax.
Status validate_model(std::string_view model, const ModelLimits& limits);
// Refused, with a message, unless both are 0 to kAmountMax. `what`: `estimate`, `usage`.
Status validate_amounts(std::string_view what, const Amounts& amounts);
// Refused, with a message, unless it has 1 to kNameBytesMax bytes. `what`: `model`, `job type`.
Status validate_name(std::string_view what, std::string_view name);

// What was used, or is reserved, in the windows of one moment.
struct Usage {
  Amounts minute{};
  Amounts day{};

  constexpr std::int64_t of(Dimension rate) const noexcept {
    return (window_of(rate) == kMinute ? minute : day).of(rate);
  }
  friend constexpr bool operator==(const Usage&, const Usage&) = default;
};

// One instance's share of one model.
struct Pool {
  // The published number: jobs of average size that fit into every share; kUnlimitedSlots
  // if the model has no limit.
  std::int64_t total_slots = 0;
  // The share of what is left in the current windows: floor(max(0, limit - used) / instances).
  // The published `dynamicLimits` are these, without the dimensions that are not limited.
  Rates left{};
  // The same shares before anything is used: floor(limit / instances), and the slots that fit
  // into them; nothing if the model has no limit.
  Rates whole{};
  std::optional<std::int64_t> whole_slots{};

  friend constexpr bool operator==(const Pool&, const Pool&) = default;
};

// What a coordinator grants one instance.
struct Allocation {
  std::uint64_t epoch = 0;  // grows with every change that is announced; 0: none yet
  std::int64_t instance_count = 0;
  std::map<std::string, Pool, std::less<>> pools{};

  friend bool operator==(const Allocation&, const Allocation&) = default;
};

// `average`: see average_estimate() in job_type.h; a 0 in it does not constrain.
// Requires valid limits and 1 <= instances <= kInstancesMax.
Pool make_pool(const ModelLimits& limits, const Usage& used, const Amounts& average,
               std::int64_t instances);

// The same for published cases: an average of 0 divides by zero there, which is an error
// that begins with `non_finite_slots`.
Result<Pool> make_published_pool(const ModelLimits& limits, const Usage& used,
                                 const Amounts& average, std::int64_t instances);

}  // namespace weir::system::pool
