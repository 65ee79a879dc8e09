// `weir sampling allowance`: how many tasks a configuration lets out.

#pragma once

#include <string>

namespace weir::app {

// Returns the exit code.
int run_sampling_allowance(const std::string& path);

}  // namespace weir::app
