// `weir pu`: what a request to the service costs in processing units.

#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weir::app {

// Adds the command with its flags. The function it returns runs it, once the line has
// been parsed, and returns the exit code.
std::function<int()> add_pu(CLI::App& app);

}  // namespace weir::app
