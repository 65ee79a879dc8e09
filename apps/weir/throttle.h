// `weir throttle report`: what a throttles.json would mean for a network.

#pragma once

#include <string>

namespace weir::app {

struct ReportFlags {
  std::string nodes = "1";              // or `1-31`, for a report of each size
  std::string local_calls = "buckets";  // or `gas`
  std::string mix{};                    // `CryptoTransfer=50%,ContractCall=6.5`; empty: none
  std::string against{};                // another file, to compare with; empty: none
};

// Returns the exit code.
int run_throttle_report(const std::string& path, const ReportFlags& flags);

}  // namespace weir::app
