// `weir ask`: one request against a running server.

#pragma once

#include <string>
#include <vector>

#include "apps/weir/server_connection.h"

namespace weir::app {

struct AskOptions {
  ServerChoice server{};
  std::vector<std::string> attributes{};  // name=value
  std::vector<std::string> costs{};       // unit=amount
  bool peek = false;
  std::string wait{}, hold{}, book{};  // durations; empty: none
  std::string up_to{};                 // a unit; empty: all or nothing
  bool json = false;
};

// Returns the exit code: allowed, denied, never, or what went wrong.
int run_ask(const AskOptions& options);

}  // namespace weir::app
