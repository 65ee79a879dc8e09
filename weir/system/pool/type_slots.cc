#include "weir/system/pool/type_slots.h"

#include <algorithm>
#include <cmath>

namespace weir::system::pool {
namespace {

void lower(std::int64_t& least, Dimension& bound, std::int64_t slots, Dimension dimension) {
  if (slots >= least) return;
  least = slots;
  bound = dimension;
}

}  // namespace

std::int64_t slots_of(std::int64_t share, double ratio, std::int64_t estimate) noexcept {
  // A share is at most kLimitMax and a ratio about 1: the result fits. Two roundings, in
  // this order: 100 * 0.29 is 28.999..., so 28 slots.
  const double product = static_cast<double>(share) * ratio;
  return static_cast<std::int64_t>(std::floor(product / static_cast<double>(estimate)));
}

StrictSlots strict_slots(const Pool& pool, double ratio, const Amounts& estimate,
                         std::int64_t min_capacity) noexcept {
  StrictSlots result;
  for (const Dimension rate : kRates) {
    const std::optional<std::int64_t>& share = pool.whole.of(rate);
    if (!share || estimate.of(rate) == 0) continue;
    const std::int64_t slots = std::max(min_capacity, slots_of(*share, ratio, estimate.of(rate)));
    if (window_of(rate) == kMinute) {
      lower(result.minute, result.minute_bound, slots, rate);
    } else {
      lower(result.day, result.day_bound, slots, rate);
    }
  }
  if (pool.whole_slots)
    result.in_flight = std::max(min_capacity, slots_of(*pool.whole_slots, ratio, 1));
  return result;
}

PublishedSlots published_slots(const Pool& pool, double ratio, const Amounts& estimate,
                               std::int64_t min_capacity) noexcept {
  PublishedSlots least;
  bool found = false;
  const auto consider = [&](std::int64_t share, std::int64_t of_one, Dimension dimension) {
    if (share <= 0 || of_one <= 0) return;
    const PublishedSlots candidate{slots_of(share, ratio, of_one), window_of(dimension), dimension};
    const bool is_tighter = candidate.slots < least.slots ||
                            (candidate.slots == least.slots && candidate.window > least.window);
    if (!found || is_tighter) least = candidate;
    found = true;
  };
  for (const Dimension rate : kRates) {
    consider(pool.left.of(rate).value_or(0), estimate.of(rate), rate);
  }
  consider(pool.total_slots, 1, Dimension::kConcurrency);
  least.slots = std::max(min_capacity, least.slots);
  return least;
}

}  // namespace weir::system::pool
