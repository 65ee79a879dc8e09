// Moment: an instant as the published network keeps it, seconds and nanoseconds.
//
// weir's Instant is one 64-bit count of nanoseconds and ends in 2262; snapshots of the
// published software may hold any second. Elapsed time is exact or refused.
//
// Usage is what of a bucket outlives a process: its level, and the moment of its last decision.
//
// Thread safety: every function is pure.

#pragma once

#include <compare>
#include <cstdint>
#include <optional>

#include "weir/base/time.h"

namespace weir::system::throttle {

struct Moment {
  std::int64_t seconds = 0;
  std::int32_t nanos = 0;  // 0 to 999,999,999

  friend constexpr auto operator<=>(const Moment&, const Moment&) = default;
};

// Rounds down, so that nanoseconds are never negative.
constexpr Moment moment_of(Instant at) noexcept {
  std::int64_t seconds = at.ns / kNsPerSecond;
  std::int64_t nanos = at.ns % kNsPerSecond;
  if (nanos < 0) {
    seconds -= 1;
    nanos += kNsPerSecond;
  }
  return {seconds, static_cast<std::int32_t>(nanos)};
}

// The nearest Instant.
constexpr Instant instant_of(Moment at) noexcept {
  return Instant{saturate(Wide{at.seconds} * kNsPerSecond + at.nanos)};
}

// Nanoseconds from `from` to `to`, negative if that is earlier. None: the seconds, or the
// nanoseconds they make, do not fit in 64 bits.
constexpr std::optional<std::int64_t> elapsed_ns(Moment from, Moment to) noexcept {
  std::int64_t ns = 0;
  if (__builtin_sub_overflow(to.seconds, from.seconds, &ns)) return std::nullopt;
  if (__builtin_mul_overflow(ns, kNsPerSecond, &ns)) return std::nullopt;
  if (__builtin_add_overflow(ns, std::int64_t{to.nanos} - from.nanos, &ns)) return std::nullopt;
  return ns;
}

// Likewise for readings, to which an earlier moment means that no time has passed.
constexpr std::int64_t elapsed_or_zero_ns(Moment from, Moment to) noexcept {
  if (to <= from) return 0;
  return elapsed_ns(from, to).value_or(INT64_MAX);
}

struct Usage {
  std::int64_t used = 0;
  std::optional<Moment> decided{};  // the last decision; none: there was none

  friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace weir::system::throttle
