// Definitions: what a throttles.json says.
//
//   {"buckets": [{"name": "ThroughputLimits", "burstPeriod": 1,
//                 "throttleGroups": [{"opsPerSec": 10000, "operations": ["CryptoTransfer"]},
//                                    {"opsPerSec": 13, "operations": ["ContractCall"]}]}]}
//
// A bucket is shared by groups of operations; a group is a rate and the operations that
// run at it. read.h reads definitions, validate.h judges them, build.h makes buckets.
//
// Each part knows its place in the text, for messages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weir/system/throttle/json_scanner.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

// What the network's file may have.
constexpr std::size_t kDefinitionsBytesMax = std::size_t{1} << 20;
constexpr std::size_t kBucketsMax = 1024;

struct ListedOperation {
  std::string name;
  Place at{};

  friend bool operator==(const ListedOperation&, const ListedOperation&) = default;
};

struct Group {
  std::int32_t ops_per_sec = 0;
  std::int64_t milli_ops_per_sec = 0;
  std::vector<ListedOperation> operations{};
  Place at{};

  // Thousandths of an operation per second. Whole operations are multiplied in 32 bits, as
  // published, and wrap above 2,147,483.
  std::int64_t rate() const noexcept {
    return milli_ops_per_sec > 0 ? milli_ops_per_sec : wrapping_product32(ops_per_sec, 1000);
  }

  friend bool operator==(const Group&, const Group&) = default;
};

struct BucketDefinition {
  std::string name{};
  std::int32_t burst_period_s = 0;
  std::int64_t burst_period_ms = 0;
  bool high_volume = false;
  std::vector<Group> groups{};
  Place at{};

  std::int64_t burst_ms() const noexcept {
    return burst_period_ms > 0 ? burst_period_ms : std::int64_t{burst_period_s} * 1000;
  }

  friend bool operator==(const BucketDefinition&, const BucketDefinition&) = default;
};

struct Definitions {
  std::string file{};  // how messages call it
  std::vector<BucketDefinition> buckets{};

  friend bool operator==(const Definitions&, const Definitions&) = default;
};

}  // namespace weir::system::throttle
