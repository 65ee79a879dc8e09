// The price is found between the two points around a utilization; points may come in any order.

#include "weir/system/throttle/published/high_volume_price.h"

#include <algorithm>

#include "weir/base/integer.h"

namespace weir::system::throttle {
namespace {

constexpr std::int64_t kOne = 1000;
constexpr std::int32_t kFull = 10'000;

std::int64_t between(const std::vector<PricePoint>& points, std::int32_t at) {
  if (points.size() == 1 || at < points.front().basis_points) return points.front().multiplier;
  if (at > points.back().basis_points) return points.back().multiplier;
  const auto upper = std::find_if(points.begin(), points.end(),
                                  [&](const PricePoint& p) { return p.basis_points >= at; });
  const auto after = std::find_if(points.begin(), points.end(),
                                  [&](const PricePoint& p) { return p.basis_points > at; });
  const auto lower = after - 1;  // the first point is not after `at`
  if (lower->basis_points == upper->basis_points) return upper->multiplier;
  const Wide rise = Wide{upper->multiplier} - lower->multiplier;
  const std::int32_t run = upper->basis_points - lower->basis_points;
  return saturate(lower->multiplier + rise * (at - lower->basis_points) / run);
}

}  // namespace

std::int64_t multiplier_at(const HighVolumePrice& price, std::int32_t basis_points) {
  const std::int32_t at = std::clamp(basis_points, 0, kFull);
  const std::int64_t most = std::max(price.multiplier_max, kOne);
  if (price.points.empty()) return saturate(kOne + (Wide{most} - kOne) * at / kFull);
  std::vector<PricePoint> points = price.points;
  std::stable_sort(points.begin(), points.end(), [](const PricePoint& a, const PricePoint& b) {
    return a.basis_points < b.basis_points;
  });
  for (PricePoint& point : points) point.multiplier = std::max(point.multiplier, kOne);
  return std::clamp(between(points, at), kOne, most);
}

}  // namespace weir::system::throttle
