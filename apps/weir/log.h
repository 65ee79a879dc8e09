// The log of `weir serve`: a line for each event on stderr, as logfmt or as JSON.

#pragma once

#include <string>

#include "weir/server/log.h"

namespace weir::app {

struct LogOptions {
  std::string format = "logfmt";  // or json
  std::string level = "info";     // or warning, error: what is less important is left out
};

// The log as the options say, which CLI11 has checked. Safe from any thread.
server::Log make_log(const LogOptions& options);

}  // namespace weir::app
