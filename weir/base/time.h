// Time: one Instant, in whole nanoseconds since the Unix epoch.
//
// A clock is read once, at the edge (clock.h); every function below it takes `now`
// as an argument. Instants that meters accept lie in [0, 2^62) ns, that is from 1970
// to 2116. Sums and differences saturate instead of wrapping.
//
//   const Instant deadline = now + 5s;
//   if (later_of(now, earliest) > deadline) ...
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

#include "weir/base/integer.h"

namespace weir {

using Duration = std::chrono::nanoseconds;

constexpr std::int64_t kNsPerUs = 1000;
constexpr std::int64_t kNsPerMs = 1'000'000;
constexpr std::int64_t kNsPerSecond = 1'000'000'000;

// A point in time, ordered by `ns`. Negative: before 1970.
struct Instant {
  std::int64_t ns = 0;

  friend constexpr auto operator<=>(Instant, Instant) = default;
};

// No instant: never, or unknown. It is later than every other, and stays forever
// when a span is added. It does not when one is taken away, so a caller that
// subtracts asks first.
constexpr Instant kForever{std::numeric_limits<std::int64_t>::max()};
constexpr std::int64_t kInstantNsMax = kTermMax - 1;  // the last instant a meter accepts

constexpr Instant operator+(Instant at, Duration span) noexcept {
  return Instant{saturating_add(at.ns, span.count())};
}
constexpr Instant operator-(Instant at, Duration span) noexcept {
  return Instant{saturating_sub(at.ns, span.count())};
}
// Negative if `later` is the earlier one.
constexpr Duration operator-(Instant later, Instant earlier) noexcept {
  return Duration{saturating_sub(later.ns, earlier.ns)};
}

constexpr Instant later_of(Instant a, Instant b) noexcept { return a < b ? b : a; }
constexpr Instant earlier_of(Instant a, Instant b) noexcept { return a < b ? a : b; }

}  // namespace weir
