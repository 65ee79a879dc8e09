// `weir settle`, `weir cancel`, `weir renew`: what becomes of a hold.

#pragma once

#include <string>
#include <vector>

#include "apps/weir/server_connection.h"

namespace weir::app {

struct HoldOptions {
  ServerChoice server{};
  std::string hold{};
  std::vector<std::string> costs{};  // of settle: what was really used
  std::string duration{};            // of renew
  bool json = false;
};

// Each prints how the hold stands and returns the exit code: a hold that is gone failed.
int run_settle(const HoldOptions& options);
int run_cancel(const HoldOptions& options);
int run_renew(const HoldOptions& options);

}  // namespace weir::app
