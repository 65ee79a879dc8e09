// Finding: what is wrong with definitions, by the names the published network uses.

#pragma once

#include <cstdint>
#include <string_view>

namespace weir::system::throttle {

enum class Finding : std::uint8_t {
  kSuccess,
  kMissingExpectedOperation,  // a success: an operation of the network is in no bucket
  kUnparseable,
  kNoGroups,
  kZeroRate,
  kRepeatedOperation,
  kRatesOverflow,      // the least common multiple, or what it makes of the burst
  kCapacityOverflow,   // likewise, met when a bucket is built
  kCapacityTooSmall,   // a node's share cannot hold one of the bucket's operations
  kNoOperations,       // ours: a group lists no operation
  kTooManyOperations,  // ours: more different names than a set may have
};

constexpr std::string_view to_string(Finding finding) noexcept {
  switch (finding) {
    case Finding::kSuccess:
      return "SUCCESS";
    case Finding::kMissingExpectedOperation:
      return "SUCCESS_BUT_MISSING_EXPECTED_OPERATION";
    case Finding::kUnparseable:
      return "UNPARSEABLE_THROTTLE_DEFINITIONS";
    case Finding::kNoGroups:
      return "BUCKET_HAS_NO_THROTTLE_GROUPS";
    case Finding::kZeroRate:
      return "THROTTLE_GROUP_HAS_ZERO_OPS_PER_SEC";
    case Finding::kRepeatedOperation:
      return "OPERATION_REPEATED_IN_BUCKET_GROUPS";
    case Finding::kRatesOverflow:
      return "THROTTLE_GROUP_LCM_OVERFLOW";
    case Finding::kCapacityOverflow:
      return "BUCKET_CAPACITY_OVERFLOW";
    case Finding::kCapacityTooSmall:
      return "NODE_CAPACITY_NOT_SUFFICIENT_FOR_OPERATION";
    case Finding::kNoOperations:
      return "THROTTLE_GROUP_HAS_NO_OPERATIONS";
    case Finding::kTooManyOperations:
      return "TOO_MANY_OPERATIONS";
  }
  return "unknown";
}

constexpr bool is_success(Finding finding) noexcept {
  return finding == Finding::kSuccess || finding == Finding::kMissingExpectedOperation;
}

}  // namespace weir::system::throttle
