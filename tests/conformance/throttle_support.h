// What the runners of the throttle families share: values in and out of JSON.

#pragma once

#include <fmt/format.h>

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/conformance/runner.h"
#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/published/moment.h"

namespace weir::conformance::throttle {

namespace json = boost::json;
using json::object;
using json::value;
using namespace weir::system::throttle;

inline std::string_view text(const object& from, std::string_view key) {
  const json::string& found = from.at(key).as_string();
  return {found.data(), found.size()};
}
inline std::int64_t integer(const object& from, std::string_view key) {
  return from.at(key).to_number<std::int64_t>();
}
inline std::int64_t integer(const object& from, std::string_view key, std::int64_t otherwise) {
  const value* found = from.if_contains(key);
  return found == nullptr ? otherwise : found->to_number<std::int64_t>();
}
inline bool flag(const object& from, std::string_view key, bool otherwise) {
  const value* found = from.if_contains(key);
  return found == nullptr ? otherwise : found->as_bool();
}

// A double, or its name where JSON has none.
inline value number(double found) {
  if (std::isnan(found)) return "NaN";
  if (std::isinf(found)) return found > 0 ? "Infinity" : "-Infinity";
  return found;
}

// What a step did, in the words of the recorded cases.
inline void put(object& found, Anomaly anomaly) {
  if (anomaly != Anomaly::kNone) found["err"] = to_string(anomaly);
}
template <typename T>
void put(object& found, std::string_view key, const Answered<T>& answer) {
  if (answer.ok()) {
    found[key] = *answer;
  } else {
    put(found, answer.anomaly());
  }
}

// Steps give nanoseconds after the start, or an absolute instant.
class Timeline {
 public:
  explicit Timeline(const object& setup) : start_ns_(integer(setup, "t0", 0)) {}

  Moment at(const object& step) const {
    if (const value* absolute = step.if_contains("ts")) {
      return {absolute->as_array()[0].to_number<std::int64_t>(),
              absolute->as_array()[1].to_number<std::int32_t>()};
    }
    return moment_of(Instant{start_ns_ + integer(step, "t")});
  }

 private:
  std::int64_t start_ns_;
};

inline value usage_value(const Usage& usage) {
  if (!usage.decided) return json::array{usage.used, nullptr};
  return json::array{usage.used, usage.decided->seconds, usage.decided->nanos};
}

inline Usage usage_of(const value& recorded) {
  const json::array& list = recorded.as_array();
  Usage usage{list[0].to_number<std::int64_t>(), std::nullopt};
  if (list.size() > 2) {
    usage.decided = Moment{list[1].to_number<std::int64_t>(), list[2].to_number<std::int32_t>()};
  }
  return usage;
}

// Whether two values are the same: integers by value, doubles bit for bit, and a whole
// double also written as an integer.
inline bool same(const value& a, const value& b) {
  if (a.is_object() && b.is_object()) {
    if (a.as_object().size() != b.as_object().size()) return false;
    for (const auto& [key, inner] : a.as_object()) {
      const value* other = b.as_object().if_contains(key);
      if (other == nullptr || !same(inner, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    if (a.as_array().size() != b.as_array().size()) return false;
    for (std::size_t i = 0; i < a.as_array().size(); ++i) {
      if (!same(a.as_array()[i], b.as_array()[i])) return false;
    }
    return true;
  }
  if (a.is_double() || b.is_double()) {
    return a.is_number() && b.is_number() &&
           std::bit_cast<std::uint64_t>(a.to_number<double>()) ==
               std::bit_cast<std::uint64_t>(b.to_number<double>());
  }
  return a == b;
}

inline Failure difference(const object& found, const object& expected) {
  if (same(found, expected)) return std::nullopt;
  return fmt::format("found {}, expected {}", json::serialize(found), json::serialize(expected));
}

// Whether a bucket could be made, as the case's own `x` says.
inline Failure check_made(const object& recorded, bool made, std::int64_t capacity) {
  object found;
  if (made) {
    found["capacity"] = capacity;
  } else {
    put(found, Anomaly::kIllegalArgument);
  }
  return difference(found, recorded.at("x").as_object());
}

// A whole engine, with congestion multipliers and snapshots.
Failure run_engine(const object& recorded);

}  // namespace weir::conformance::throttle
