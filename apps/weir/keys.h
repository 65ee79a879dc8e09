// `weir inspect` and `weir reset`: what a limit knows of its keys.
//
//   weir inspect per-client client=acme

#pragma once

#include <string>
#include <vector>

#include "apps/weir/server_connection.h"

namespace weir::app {

struct KeyOptions {
  ServerChoice server{};
  std::string limit{};
  std::vector<std::string> key{};  // name=value
  bool holds = false;              // of reset: those of the key end, too
  bool json = false;
};

// Prints what one key has left. Without a key, of a limit that has keys, the heaviest ones.
int run_inspect(const KeyOptions& options);
// Forgets what one key has used. Both return the exit code.
int run_reset(const KeyOptions& options);

}  // namespace weir::app
