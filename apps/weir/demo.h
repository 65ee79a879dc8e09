// `weir demo`: traffic against a running server, so that there is something to see.
//
// One connection asks at a steady rate for keys of which some are busier than others,
// and keeps each hold for a moment before it settles it; a few others wait for their
// turn. Ends by itself, or on SIGINT and SIGTERM, and leaves no hold behind.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/weir/server_connection.h"

namespace weir::app {

constexpr std::int64_t kDemoRateMax = 100'000;  // requests a second
constexpr int kDemoWaitersMax = 64;
constexpr std::int64_t kDemoValuesMax = 1'000'000;  // different values of one attribute

struct DemoOptions {
  ServerChoice server{};
  std::vector<std::string> attributes{"client=20", "worker=4"};  // name=how many values
  std::vector<std::string> costs{};                              // unit=amount, of each request
  std::int64_t rate = 100;                                       // requests a second
  std::string duration = "30s";
  int waiters = 2;  // connections whose requests wait
  bool json = false;
};

int run_demo(const DemoOptions& options);

}  // namespace weir::app
