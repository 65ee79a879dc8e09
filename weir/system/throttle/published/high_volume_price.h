// High-volume price: what a transaction that uses the high-volume buckets pays, by how
// full they are.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <vector>

namespace weir::system::throttle {

struct PricePoint {
  std::int32_t basis_points = 0;
  std::int64_t multiplier = 1000;  // thousandths
};

struct HighVolumePrice {
  std::int64_t multiplier_max = 1000;  // thousandths
  std::vector<PricePoint> points{};    // none: a straight line from 1000 to the maximum
};

// The fee multiplier, in thousandths: between two points a straight line, rounded down.
std::int64_t multiplier_at(const HighVolumePrice& price, std::int32_t basis_points);

}  // namespace weir::system::throttle
