// `weir serve`: the server, from its configuration to its end.

#pragma once

#include <string>

namespace weir::app {

// Runs until SIGTERM or SIGINT. Returns the exit code.
int run_serve(const std::string& path, bool start_empty);

}  // namespace weir::app
