// Families of the compute system.

#include <fmt/format.h>

#include <boost/json/value.hpp>
#include <boost/json/value_to.hpp>
#include <chrono>

#include "tests/conformance/runner.h"
#include "weir/meter/ticker.h"

namespace weir::conformance {

// epoch_s, cu -> the interval between two tokens.
Failure run_compute_rate(const boost::json::object& recorded) {
  const auto epoch_s = recorded.at("epoch_s").to_number<std::int64_t>();
  const auto units = recorded.at("cu").to_number<std::int64_t>();
  const auto expected_ns = recorded.at("x").as_object().at("interval_ns").to_number<std::int64_t>();
  const std::int64_t interval_ns = meter::tick_interval_ns(std::chrono::seconds{epoch_s}, units);
  if (interval_ns == expected_ns) return std::nullopt;
  return fmt::format("{} units in {} s: interval {} ns, expected {} ns", units, epoch_s,
                     interval_ns, expected_ns);
}

}  // namespace weir::conformance
