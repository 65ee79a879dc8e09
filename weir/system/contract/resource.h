// Resource: what a policy counts.
//
// A contract limits requests or processing units. They are a type, so that one
// cannot be charged in the other's buckets; texts are turned into it once, where a
// document is read. Amounts are whole millionths of a unit.
//
// Thread safety: values.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/base/integer.h"

namespace weir::system::contract {

enum class Resource : std::uint8_t { kRequests, kProcessingUnits };

// As documents name it: `REQUESTS`.
constexpr std::string_view type_name(Resource resource) noexcept {
  return resource == Resource::kRequests ? "REQUESTS" : "PROCESSING_UNITS";
}
// As ids of policies name it: `RQ`.
constexpr std::string_view short_name(Resource resource) noexcept {
  return resource == Resource::kRequests ? "RQ" : "PU";
}
// What documents print behind an amount.
constexpr std::string_view suffix(Resource resource) noexcept {
  return resource == Resource::kRequests ? "" : "PU";
}

constexpr std::optional<Resource> resource_named(std::string_view type) noexcept {
  for (const Resource resource : {Resource::kRequests, Resource::kProcessingUnits}) {
    if (type == type_name(resource)) return resource;
  }
  return std::nullopt;
}

// What one piece of work takes of each.
struct Costs {
  std::int64_t requests_micro = kMicro;
  std::int64_t processing_units_micro = 0;

  constexpr std::int64_t of(Resource resource) const noexcept {
    return resource == Resource::kRequests ? requests_micro : processing_units_micro;
  }
  friend constexpr bool operator==(const Costs&, const Costs&) = default;
};

constexpr std::int64_t kCostMicroMax = kTermMax;  // more is absurd, and refused

constexpr bool is_acceptable(std::int64_t cost_micro) noexcept {
  return cost_micro >= 0 && cost_micro <= kCostMicroMax;
}
constexpr bool is_acceptable(const Costs& costs) noexcept {
  return is_acceptable(costs.requests_micro) && is_acceptable(costs.processing_units_micro);
}

}  // namespace weir::system::contract
