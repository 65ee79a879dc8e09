// What-if report: what definitions would mean for a network of N nodes.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weir/system/throttle/build.h"
#include "weir/system/throttle/definitions.h"

namespace weir::system::throttle {

struct ReportedBucket {
  std::string name;
  bool high_volume = false;
  Finding finding = Finding::kSuccess;  // otherwise it would be dropped
  std::int64_t burst_ms = 0;            // in effect
  std::int64_t written_burst_ms = 0;
  std::int64_t capacity = 0;   // units: 10^12 for a logical operation
  std::int64_t milli_ops = 0;  // logical ones, leaked a second
};

// What one node admits of an operation that comes alone.
struct ReportedOperation {
  std::string name;
  bool high_volume = false;
  std::int64_t micro_ops = 0;  // millionths of an operation per second, rounded down
  std::int64_t at_once = 0;    // in a burst after a long rest
  std::string bucket;          // that binds the rate
};

struct Report {
  std::int32_t nodes = 1;
  std::vector<ReportedBucket> buckets{};
  std::vector<ReportedOperation> operations{};  // by name
  std::vector<std::string> refused{};           // listed, but only in buckets that would be dropped
  std::vector<std::string> unlisted{};          // operations of the network that no bucket lists
};

// Requires nodes >= 1.
Report report(const Definitions& definitions, std::int32_t nodes);

// As a table for people.
std::string to_text(const Report& report);

}  // namespace weir::system::throttle
