// `weir sync`: follows the service of one account, beside a server or without one.
//
// With `to` a server learns what the service says without credentials or a way out of its own.

#pragma once

#include <string>

#include "apps/weir/log.h"

namespace weir::app {

struct SyncOptions {
  std::string path = "weir.yaml";
  std::string account{};  // empty: the only one that follows a service
  bool once = false;
  bool json = false;
  std::string to{};     // a weir server's URL; empty: no server is told
  std::string token{};  // for that server
  std::string save{};   // file for the contract; empty: it is not kept
  LogOptions log;
};

// Follows until SIGTERM or SIGINT, or fetches once. Returns the exit code.
int run_sync(const SyncOptions& options);

}  // namespace weir::app
