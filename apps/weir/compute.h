// `weir compute`: units of a lock, and how they are split over workers. Asks no server.

#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace weir::app {

// Adds the flags; what is returned runs the command and gives its exit code.
std::function<int()> add_compute_units_flags(CLI::App& command);
std::function<int()> add_compute_allocate_flags(CLI::App& command);

}  // namespace weir::app
