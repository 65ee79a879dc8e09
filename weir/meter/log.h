// Log: never more than `limit` units in any window of the given length.
//
// Every admission is remembered with its instant, as runs (instant, n), oldest
// first, in a ring the caller owns. A unit taken at s counts during [s, s+window)
// and is free again at exactly s+window.
//
//     window        <------------->
//     runs     x xx |  x      xxx x|      only what lies inside counts
//              -----------------------> time
//
// Memory is bounded: at most kRunsMax runs. Up to that limit every stamp is
// exact. Above it, stamps are rounded up to a grain of window/(kRunsMax - 2), in whole
// microseconds if it is as long, so a unit may be remembered that much longer, never
// shorter: the promise holds.
//
// Time running backwards: a unit counts from any `now` before its own instant too.
// What was forgotten at a later instant does not come back for an earlier one, so
// the promise is for instants that do not decrease; the engine sees to that. A log
// of the past may be filled in any order.
// Thread safety: none needed. No function here keeps anything but its arguments.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/step.h"

namespace weir::meter {

constexpr std::uint32_t kRunsMax = 1024;

struct LogShape {
  std::int64_t limit = 1;
  std::int64_t window_ns = 1;
  std::int64_t grain_ns = 1;  // stamps are multiples of this

  friend constexpr bool operator==(const LogShape&, const LogShape&) = default;
};

struct LogRun {
  Instant at{};
  std::int64_t units = 0;
};

// What the log holds. `block` is the caller's: where it keeps the ring.
struct LogState {
  std::uint32_t block = 0;
  std::uint16_t head = 0;  // place of the oldest run in the ring
  std::uint16_t size = 0;  // runs in the ring
  std::int64_t held = 0;   // units in all runs, counted or not yet forgotten

  friend constexpr bool operator==(const LogState&, const LogState&) = default;
};

using LogRing = std::span<LogRun>;
using ConstLogRing = std::span<const LogRun>;

// Refused, with a message, unless limit is 0..2^62 and window 1 ns..2^61 ns.
Result<LogShape> make_log(std::int64_t limit, Duration window) noexcept;

namespace internal {

constexpr std::size_t place(LogState state, std::size_t ring_size, std::uint32_t index) noexcept {
  const std::size_t at = std::size_t{state.head} + index;
  return at < ring_size ? at : at - ring_size;
}

}  // namespace internal

// Forgets the runs that no longer count at `now`, for good.
constexpr LogState forget(const LogShape& shape, LogState state, ConstLogRing ring,
                          Instant now) noexcept {
  while (state.size > 0) {
    const LogRun& oldest = ring[state.head];
    // Alive during [at, at + window): forgotten at exactly at + window. A stamp is at most
    // a grain above 2^62 and a window at most 2^61, so the sum fits.
    if (oldest.at.ns + shape.window_ns > now.ns) break;
    state.held -= oldest.units;
    state.head = static_cast<std::uint16_t>(internal::place(state, ring.size(), 1));
    state.size -= 1;
  }
  return state;
}

// Units that count at `now`.
constexpr std::int64_t used(const LogShape& shape, LogState state, ConstLogRing ring,
                            Instant now) noexcept {
  return forget(shape, state, ring, now).held;
}

// Units left at `now`; negative after the limit was lowered or an overage settled.
// A caller that wants "as many as there are" takes this many, and need not fear
// that one is refused.
constexpr std::int64_t level(const LogShape& shape, LogState state, ConstLogRing ring,
                             Instant now) noexcept {
  return shape.limit - used(shape, state, ring, now);
}

// The first instant at which `units` of those that count at `now` have been forgotten.
constexpr Instant freed_at(const LogShape& shape, LogState state, ConstLogRing ring, Instant now,
                           std::int64_t units) noexcept {
  state = forget(shape, state, ring, now);
  std::int64_t freed = 0;
  for (std::uint32_t i = 0; i < state.size; ++i) {
    const LogRun& run = ring[internal::place(state, ring.size(), i)];
    freed += run.units;
    if (freed >= units) return run.at + Duration{shape.window_ns};
  }
  return kForever;
}

// Whether `cost` fits at `now`, and if not, the first instant at which it does.
constexpr Check check(const LogShape& shape, LogState state, ConstLogRing ring, Instant now,
                      std::int64_t cost) noexcept {
  const Wide missing = Wide{used(shape, state, ring, now)} + cost - shape.limit;
  if (cost > shape.limit) return {Verdict::kNever, kForever, saturate(missing)};
  if (missing <= 0 || cost == 0) return {Verdict::kAllowed, now, 0};
  return {Verdict::kDenied, freed_at(shape, state, ring, now, saturate(missing)),
          saturate(missing)};
}

// The first instant at which at least one unit is free; `now` if one is.
constexpr Instant next_free(const LogShape& shape, LogState state, ConstLogRing ring,
                            Instant now) noexcept {
  const std::int64_t missing = 1 - level(shape, state, ring, now);
  return missing <= 0 ? now : freed_at(shape, state, ring, now, missing);
}

// The instant under which units taken at `now` are remembered.
constexpr Instant stamp(const LogShape& shape, Instant now) noexcept {
  // Rounded up. now < 2^62 and a grain is below 2^52, so the sum fits.
  const std::int64_t past_ns = now.ns % shape.grain_ns;
  return past_ns == 0 ? now : Instant{now.ns - past_ns + shape.grain_ns};
}

// The latest stamp. Requires at least one run.
constexpr Instant newest(LogState state, ConstLogRing ring) noexcept {
  return ring[internal::place(state, ring.size(), state.size - 1u)].at;
}

// Runs the ring must have room for before the next charge at `now`.
constexpr std::uint32_t runs_needed(const LogShape& shape, LogState state, ConstLogRing ring,
                                    Instant now) noexcept {
  return std::min<std::uint32_t>(forget(shape, state, ring, now).size + 1u, kRunsMax);
}

// Remembers `cost` units under the stamp `at`, in a log that has forgotten what no longer counts.
// Requires a ring of runs_needed() runs.
constexpr LogState remember(LogState state, LogRing ring, Instant at, std::int64_t cost) noexcept {
  // Saturating: only overages can bring a log past its limit of 2^62.
  const std::int64_t fits = std::min(cost, kTermMax - state.held);
  state.held += fits;

  // Runs stay in order of time; almost always the new one is the latest.
  std::uint32_t index = state.size;
  while (index > 0 && ring[internal::place(state, ring.size(), index - 1)].at > at) index -= 1;
  if (index > 0) {
    LogRun& before = ring[internal::place(state, ring.size(), index - 1)];
    if (before.at == at) {
      before.units += fits;
      return state;
    }
  }
  if (state.size == kRunsMax) {
    // At its bound (a changed limit brought a second grain) the log remembers the
    // units under the next later stamp, or moves the latest up: longer, never shorter.
    LogRun& later = ring[internal::place(state, ring.size(), std::min(index, kRunsMax - 1))];
    later.at = later_of(later.at, at);
    later.units += fits;
    return state;
  }
  for (std::uint32_t i = state.size; i > index; --i) {
    ring[internal::place(state, ring.size(), i)] = ring[internal::place(state, ring.size(), i - 1)];
  }
  ring[internal::place(state, ring.size(), index)] = {at, fits};
  state.size = static_cast<std::uint16_t>(state.size + 1);
  return state;
}

// Remembers `cost` units at `now`, whether or not they fit, and forgets what no longer counts.
// Requires a ring of runs_needed() runs.
constexpr LogState charge(const LogShape& shape, LogState state, LogRing ring, Instant now,
                          std::int64_t cost) noexcept {
  if (cost == 0) return state;
  return remember(forget(shape, state, ring, now), ring, stamp(shape, now), cost);
}

// Gives back up to `amount` units remembered under `stamped`; the rest is lost.
constexpr LogState give_back(LogState state, LogRing ring, Instant stamped,
                             std::int64_t amount) noexcept {
  std::uint32_t index = state.size;
  while (index > 0 && ring[internal::place(state, ring.size(), index - 1)].at > stamped) index -= 1;
  if (index == 0) return state;
  LogRun& run = ring[internal::place(state, ring.size(), index - 1)];
  if (run.at != stamped) return state;

  const std::int64_t given = std::min(amount, run.units);
  run.units -= given;
  state.held -= given;
  if (run.units > 0) return state;
  // An empty run is taken out: a log of kRunsMax runs has no room to waste.
  for (; index < state.size; ++index) {
    ring[internal::place(state, ring.size(), index - 1)] =
        ring[internal::place(state, ring.size(), index)];
  }
  state.size = static_cast<std::uint16_t>(state.size - 1);
  return state;
}

// Copies the runs, oldest first, into a ring of another size.
constexpr LogState move_runs(LogState state, ConstLogRing from, LogRing to) noexcept {
  for (std::uint32_t i = 0; i < state.size; ++i) {
    to[i] = from[internal::place(state, from.size(), i)];
  }
  state.head = 0;
  return state;
}

constexpr bool is_initial(const LogShape& shape, LogState state, ConstLogRing ring,
                          Instant now) noexcept {
  return used(shape, state, ring, now) == 0;
}

}  // namespace weir::meter
