// `weir throttle report`: what a throttles.json would mean for a network.

#pragma once

#include <string>

namespace weir::app {

// `nodes` is `31`, or `1-31` for a report of each size. Returns the exit code.
int run_throttle_report(const std::string& path, const std::string& nodes);

}  // namespace weir::app
