// `weir inspect` and `weir reset`: what a limit knows of its keys.

#pragma once

#include <string>
#include <vector>

#include "apps/weir/client.h"

namespace weir::app {

struct KeyOptions {
  ServerChoice server{};
  std::string limit{};
  std::vector<std::string> key{};  // name=value
  bool json = false;
};

// One key; without one, of a limit that has keys, the heaviest.
int run_inspect(const KeyOptions& options);
int run_reset(const KeyOptions& options);

}  // namespace weir::app
