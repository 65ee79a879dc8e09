// `weir pu`: what a request to the service costs in processing units.

#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weir::app {

// Adds the flags. The function it returns runs the command, once the line has been
// parsed, and returns the exit code.
std::function<int()> add_pu_flags(CLI::App& command);

}  // namespace weir::app
