// Request: who asks, for what, at which costs.
//
// Attributes say who and what (`client=acme`, `operation=put`); costs say how
// much, in named units (`tokens=1200`). A request that names no cost in the unit
// `requests` costs 1 of them.
//
//   const Attribute who[] = {{"client", "acme"}, {"operation", "put"}};
//   const Cost costs[] = {{"tokens", 1200}};
//   engine.decide({.attributes = who, .costs = costs}, clock.now());
//
// A request is a view: it owns nothing and must not outlive what it points to. Order
// means nothing. A name that is given twice or that the rules do not know, and a
// negative cost, make the decision an error.
//
// Thread safety: none needed. A request is a value.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weir::engine {

constexpr std::size_t kAttributesMax = 64;          // attribute names of one rule set
constexpr std::size_t kUnitsMax = 64;               // units of one rule set
constexpr std::size_t kValueBytesMax = 512;         // longer attribute values are refused, not cut
constexpr std::string_view kRequests = "requests";  // the unit every rule set knows

struct Attribute {
  std::string_view name;
  std::string_view value;
};

struct Cost {
  std::string_view unit;
  std::int64_t amount = 0;  // whole units, or whole micro-units of a micro unit
};

// What `costs` say in `unit`; none: they do not name it. The first counts, where two do.
constexpr std::optional<std::int64_t> amount_in(std::span<const Cost> costs,
                                                std::string_view unit) noexcept {
  for (const Cost& cost : costs) {
    if (cost.unit == unit) return cost.amount;
  }
  return std::nullopt;
}

struct Request {
  std::span<const Attribute> attributes{};
  std::span<const Cost> costs{};

  // The value of an attribute, and the cost in a unit, as they stand here: none if the
  // request does not name it. The engine refuses a request that names one twice.
  constexpr std::optional<std::string_view> attribute(std::string_view name) const noexcept {
    for (const Attribute& each : attributes) {
      if (each.name == name) return each.value;
    }
    return std::nullopt;
  }
  constexpr std::optional<std::int64_t> cost(std::string_view unit) const noexcept {
    return amount_in(costs, unit);
  }
};

}  // namespace weir::engine
