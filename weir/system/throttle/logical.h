// How many logical operations a claim takes of one bucket that lists its operation.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/listing.h"
#include "weir/system/throttle/overflow.h"
#include "weir/system/throttle/scale.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {

inline Answered<std::int32_t> logical_of(const Claim& claim,
                                         const Requirement& requirement) noexcept {
  if (claim.is_plain) return requirement.logical;
  if (!claim.wraps) {
    const std::int64_t product = std::int64_t{claim.count} * requirement.logical;
    return static_cast<std::int32_t>(std::min<std::int64_t>(product, kMax32));
  }
  return scaled(claim.scale, wrapping_product32(claim.count, requirement.logical));
}

}  // namespace weir::system::throttle
