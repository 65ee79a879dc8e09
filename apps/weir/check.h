// `weir check`: prints every mistake of a configuration, or what it means.

#pragma once

#include <string>

namespace weir::app {

// Returns the exit code.
int run_check(const std::string& path, bool json);

}  // namespace weir::app
