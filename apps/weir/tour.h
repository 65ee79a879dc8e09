// `weir tour`: a short, narrated tour of what the library decides.

#pragma once

namespace weir::app {

// Returns the exit code.
int run_tour();

}  // namespace weir::app
