// `weir pool slots`: what the pools of a configuration come to on each instance.

#pragma once

#include <cstdint>
#include <string>

namespace weir::app {

struct PoolOptions {
  std::string path = "weir.yaml";
  std::int64_t instances = 1;
};

// Prints what each pool has, and what each job type may start, on one of so many instances.
// Returns the exit code.
int run_pool_slots(const PoolOptions& options);

}  // namespace weir::app
