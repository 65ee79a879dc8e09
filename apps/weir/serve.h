// `weir serve`: the server, from its configuration to its end.

#pragma once

#include <string>

#include "apps/weir/log.h"

namespace weir::app {

struct ServeOptions {
  std::string path = "weir.yaml";
  bool start_empty = false;
  LogOptions log{};
};

// Runs until SIGTERM or SIGINT. Returns the exit code.
int run_serve(const ServeOptions& options);

}  // namespace weir::app
