// Reading recorded cases: fields of an object, and steps.

#pragma once

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tests/conformance/runner.h"

namespace weir::conformance {

inline std::int64_t number_of(const boost::json::object& from, std::string_view name) {
  return from.at(name).to_number<std::int64_t>();
}
inline std::string text_of(const boost::json::object& from, std::string_view name) {
  return std::string(from.at(name).as_string());
}

// Runs each step, and says which one failed.
template <typename Run>
Failure run_steps(const boost::json::object& recorded, Run run) {
  const boost::json::array& steps = recorded.at("steps").as_array();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const boost::json::object& step = steps[i].as_object();
    if (Failure failure = run(step)) {
      return fmt::format("step {} ({}): {}", i, text_of(step, "op"), *failure);
    }
  }
  return std::nullopt;
}

}  // namespace weir::conformance
