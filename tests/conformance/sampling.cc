// Families of the sampling system.

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/conformance/runner.h"
#include "weir/meter/log.h"

namespace weir::conformance {
namespace {

// Recorded times are seconds in exact quarters.
Instant instant_of(const boost::json::value& seconds) {
  const double quarters = seconds.to_number<double>() * 4;
  return Instant{static_cast<std::int64_t>(quarters) * 250'000'000};
}

// A log as the published scheduler keeps it: it records whatever it is told and
// trims when it is counted. The limit plays no part; it only has to be exact.
struct Log {
  meter::LogShape shape{meter::kRunsMax, 0, 1};
  meter::LogState state;
  std::vector<meter::LogRun> ring{meter::kRunsMax};
};

using Key = std::tuple<std::string, std::string, std::string>;

Key key_of(const boost::json::object& op) {
  return {std::string(op.at("hotkey").as_string()), std::string(op.at("revision").as_string()),
          std::string(op.at("env").as_string())};
}

// A key is always counted with the same window; `record` does not name it.
std::map<Key, Log> logs_of(const boost::json::array& ops) {
  std::map<Key, Log> logs;
  for (const boost::json::value& value : ops) {
    const boost::json::object& op = value.as_object();
    Log& log = logs[key_of(op)];
    if (const boost::json::value* window = op.if_contains("window")) {
      log.shape.window_ns = instant_of(*window).ns;
    }
  }
  return logs;
}

}  // namespace

// record n at t, count at t -> count.
Failure run_sampling_window(const boost::json::object& recorded) {
  const boost::json::array& ops = recorded.at("ops").as_array();
  std::map<Key, Log> logs = logs_of(ops);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const boost::json::object& op = ops[i].as_object();
    const Instant at = instant_of(op.at("t"));
    Log& log = logs[key_of(op)];
    if (op.at("op").as_string() == "record") {
      const auto units = op.at("n").to_number<std::int64_t>();
      log.state = meter::charge(log.shape, log.state, log.ring, at, units);
      continue;
    }
    log.state = meter::forget(log.shape, log.state, log.ring, at);
    const auto expected = op.at("count").to_number<std::int64_t>();
    const std::int64_t count = meter::used(log.shape, log.state, log.ring, at);
    if (count != expected) {
      return fmt::format("op {}: count {} at {} ns, expected {}", i, count, at.ns, expected);
    }
  }
  return std::nullopt;
}

}  // namespace weir::conformance
