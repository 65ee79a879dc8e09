// Type slots: how many jobs of one type a model's pool has room for (layer 2).
//
//   dimension             slots                               counted
//   tokens per minute     floor(share * ratio / tokens)       starts in the minute
//   requests per minute   floor(share * ratio / requests)     starts in the minute
//   tokens per day        floor(share * ratio / tokens)       starts in the day
//   requests per day      floor(share * ratio / requests)     starts in the day
//   concurrency           floor(slots * ratio)                jobs in flight
//
// `strict` limits a job by all five at once, with the shares of whole windows, so that what
// was started is compared with what could be. `published` takes the dimension with the fewest
// slots (of several, the longest window) and the shares of what is left, where 0 stands for
// "no such dimension" too.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <limits>

#include "weir/base/time.h"
#include "weir/system/pool/limits.h"

namespace weir::system::pool {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// floor((share * ratio) / estimate), in doubles, as published. Requires estimate >= 1.
std::int64_t slots_of(std::int64_t share, double ratio, std::int64_t estimate) noexcept;

// The most starts in a minute, in a day, and the most jobs in flight; kNoLimit: not limited.
struct StrictSlots {
  std::int64_t minute = kNoLimit;
  std::int64_t day = kNoLimit;
  std::int64_t in_flight = kNoLimit;
  Dimension minute_bound = Dimension::kTokensPerMinute;  // which of the two is smaller
  Dimension day_bound = Dimension::kTokensPerDay;
};
StrictSlots strict_slots(const Pool& pool, double ratio, const Amounts& estimate,
                         std::int64_t min_capacity) noexcept;

struct PublishedSlots {
  std::int64_t slots = 0;
  Duration window{};  // zero: counted in flight
  Dimension dimension = Dimension::kConcurrency;
};
PublishedSlots published_slots(const Pool& pool, double ratio, const Amounts& estimate,
                               std::int64_t min_capacity) noexcept;

}  // namespace weir::system::pool
