// `weir serve`: the server, from its configuration to its end.

#pragma once

#include <string>

#include "apps/weir/log.h"

namespace weir::app {

struct ServeOptions {
  std::string path = "weir.yaml";
  bool start_empty = false;  // a state file that is there is moved aside
  LogOptions log{};
};

// Runs until SIGTERM or SIGINT; SIGHUP reloads. Returns the exit code: kExitFailed if the
// server could not start, or what changed last could not be written.
int run_serve(const ServeOptions& options);

}  // namespace weir::app
