#include "weir/system/pool/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {
namespace {

// The smallest number of average jobs that fits into the shares; nothing if none constrains.
std::optional<std::int64_t> slots_in(const ModelLimits& limits, const Rates& shares,
                                     const Amounts& average, std::int64_t instances) {
  std::optional<std::int64_t> least;
  const auto consider = [&](std::int64_t slots) { least = std::min(least.value_or(slots), slots); };
  if (limits.concurrent) consider(*limits.concurrent / instances);
  for (const Dimension rate : kRates) {
    const std::optional<std::int64_t>& share = shares.of(rate);
    if (share && average.of(rate) > 0) consider(*share / average.of(rate));
  }
  return least;
}

bool is_limited(const ModelLimits& limits) { return limits.concurrent || limits.rates != Rates{}; }

Status check_limit(std::string_view model, Dimension dimension,
                   const std::optional<std::int64_t>& limit) {
  if (!limit || (*limit >= 1 && *limit <= kLimitMax)) return Done{};
  return bad_argument(
      fmt::format("model {}: {} is {}, but it must be 1 to {}; leave it out if it is not limited",
                  in_quotes(model), to_string(dimension), *limit, kLimitMax));
}

}  // namespace

std::string_view to_string(Dimension dimension) noexcept {
  switch (dimension) {
    case Dimension::kTokensPerMinute:
      return "tokens_per_minute";
    case Dimension::kRequestsPerMinute:
      return "requests_per_minute";
    case Dimension::kTokensPerDay:
      return "tokens_per_day";
    case Dimension::kRequestsPerDay:
      return "requests_per_day";
    case Dimension::kConcurrency:
      return "concurrent";
  }
  return "unknown";
}

Status validate_name(std::string_view what, std::string_view name) {
  if (!name.empty() && name.size() <= kNameBytesMax) return Done{};
  return bad_argument(fmt::format("{} {} has {} bytes, but it must have 1 to {}", what,
                                  in_quotes(name), name.size(), kNameBytesMax));
}

Status validate_model(std::string_view model, const ModelLimits& limits) {
  if (Status named = validate_name("model", model); !named) return named;
  for (const Dimension rate : kRates) {
    if (Status valid = check_limit(model, rate, limits.rates.of(rate)); !valid) return valid;
  }
  return check_limit(model, Dimension::kConcurrency, limits.concurrent);
}

Status validate_amounts(std::string_view what, const Amounts& amounts) {
  const auto is_valid = [](std::int64_t n) { return n >= 0 && n <= kAmountMax; };
  if (is_valid(amounts.tokens) && is_valid(amounts.requests)) return Done{};
  return bad_argument(fmt::format("{} is {} tokens and {} requests, but each must be 0 to {}", what,
                                  amounts.tokens, amounts.requests, kAmountMax));
}

Pool make_pool(const ModelLimits& limits, const Usage& used, const Amounts& average,
               std::int64_t instances) {
  Pool pool;
  for (const Dimension rate : kRates) {
    const std::optional<std::int64_t>& limit = limits.rates.of(rate);
    if (!limit) continue;
    pool.left.of(rate) = std::max<std::int64_t>(0, *limit - used.of(rate)) / instances;
    pool.whole.of(rate) = *limit / instances;
  }
  pool.total_slots = slots_in(limits, pool.left, average, instances).value_or(kUnlimitedSlots);
  pool.whole_slots = slots_in(limits, pool.whole, average, instances);
  return pool;
}

Result<Pool> make_published_pool(const ModelLimits& limits, const Usage& used,
                                 const Amounts& average, std::int64_t instances) {
  Pool pool = make_pool(limits, used, average, instances);
  if (!is_limited(limits) || (average.tokens > 0 && average.requests > 0)) return pool;
  // As the published script has it: x / 0 is infinite and 0 / 0 is no number; a least value
  // is kept unless another one is below it.
  std::optional<double> least;
  const auto consider = [&](double slots) {
    if (!least || slots < *least) least = slots;
  };
  if (limits.concurrent) {
    const std::int64_t places = *limits.concurrent / instances;  // rounded down, as there
    consider(static_cast<double>(places));
  }
  for (const Dimension rate : kRates) {
    if (const std::optional<std::int64_t>& share = pool.left.of(rate)) {
      consider(std::floor(static_cast<double>(*share) / static_cast<double>(average.of(rate))));
    }
  }
  if (least && std::isfinite(*least)) return pool;
  return bad_argument(fmt::format(
      "non_finite_slots: the average estimate is {} tokens and {} requests, but it must be above 0 "
      "for every dimension that is limited; write larger estimates",
      average.tokens, average.requests));
}

}  // namespace weir::system::pool
