// What the pool families read from their cases, in the system's own types.

#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/conformance/fields.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/cost.h"
#include "weir/system/pool/job_type.h"
#include "weir/system/pool/limits.h"

namespace weir::conformance {

inline std::optional<std::int64_t> number_in(const boost::json::object& from,
                                             std::string_view name) {
  const boost::json::value* const found = from.if_contains(name);
  return found == nullptr ? std::nullopt : std::optional(found->to_number<std::int64_t>());
}
inline Instant instant_of_ms(std::int64_t ms) { return Instant{ms * 1'000'000}; }

// The first word of a message.
inline boost::json::value kind_of(const Error& error) {
  return boost::json::value(error.message.substr(0, error.message.find(':')));
}

inline constexpr std::array<std::pair<std::string_view, system::pool::Dimension>,
                            system::pool::kRateCount>
    kPublishedRates{{{"tokensPerMinute", system::pool::Dimension::kTokensPerMinute},
                     {"requestsPerMinute", system::pool::Dimension::kRequestsPerMinute},
                     {"tokensPerDay", system::pool::Dimension::kTokensPerDay},
                     {"requestsPerDay", system::pool::Dimension::kRequestsPerDay}}};

// A limit that is not above 0 is none.
inline system::pool::ModelLimits limits_of(const boost::json::object& model) {
  const auto read = [&](std::string_view name) {
    const std::optional<std::int64_t> limit = number_in(model, name);
    return limit && *limit > 0 ? limit : std::nullopt;
  };
  system::pool::ModelLimits limits;
  for (const auto& [name, rate] : kPublishedRates) limits.rates.of(rate) = read(name);
  limits.concurrent = read("maxConcurrentRequests");
  return limits;
}

inline system::pool::Pool pool_of(const boost::json::object& shares) {
  system::pool::Pool pool{.total_slots = number_of(shares, "totalSlots")};
  for (const auto& [name, rate] : kPublishedRates) pool.left.of(rate) = number_of(shares, name);
  return pool;
}

inline system::pool::JobType job_type_of(std::string_view name, const boost::json::object& type) {
  system::pool::JobType result{.name = std::string(name),
                               .tokens = number_in(type, "estimatedUsedTokens"),
                               .requests = number_in(type, "estimatedNumberOfRequests"),
                               .memory_kb = number_in(type, "estimatedUsedMemoryKB").value_or(0)};
  if (const boost::json::value* ratio = type.if_contains("ratio")) {
    const boost::json::object& row = ratio->as_object();
    if (const boost::json::value* value = row.if_contains("initialValue")) {
      result.ratio = value->to_number<double>();
    }
    if (const boost::json::value* flexible = row.if_contains("flexible")) {
      result.is_flexible = flexible->as_bool();
    }
  }
  if (const boost::json::value* waits = type.if_contains("maxWaitMS")) {
    for (const auto& [model, ms] : waits->as_object()) {
      result.max_wait[std::string(model)] = std::chrono::milliseconds{ms.to_number<std::int64_t>()};
    }
  }
  return result;
}

inline std::vector<system::pool::JobType> job_types_of(const boost::json::object& types) {
  std::vector<system::pool::JobType> result;
  for (const auto& [name, type] : types) result.push_back(job_type_of(name, type.as_object()));
  return result;
}

inline system::pool::Used used_of(const boost::json::object& actual) {
  return {.requests = number_of(actual, "requests"),
          .input_tokens = number_of(actual, "input"),
          .output_tokens = number_of(actual, "output"),
          .cached_tokens = number_of(actual, "cached")};
}

inline system::pool::Pricing pricing_of(const boost::json::object& pricing) {
  return {.input = pricing.at("input").to_number<double>(),
          .cached = pricing.at("cached").to_number<double>(),
          .output = pricing.at("output").to_number<double>()};
}

}  // namespace weir::conformance
