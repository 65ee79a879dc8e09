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
Result<LogShape> make_log(std::int64_t limit, Duration window);

// Units that count at `now`.
std::int64_t used(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept;

// Units left at `now`; negative after the limit was lowered or an overage settled.
// A caller that wants "as many as there are" takes this many, and need not fear
// that one is refused.
std::int64_t level(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept;

// Whether `cost` fits at `now`, and if not, the first instant at which it does.
Check check(const LogShape& shape, LogState state, ConstLogRing ring, Instant now,
            std::int64_t cost) noexcept;

// The first instant at which at least one unit is free; `now` if one is.
Instant next_free(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept;

// The instant under which units taken at `now` are remembered.
Instant stamp(const LogShape& shape, Instant now) noexcept;

// The latest stamp. Requires at least one run.
Instant newest(LogState state, ConstLogRing ring) noexcept;

// Forgets the runs that no longer count at `now`, for good.
LogState forget(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept;

// Runs the ring must have room for before the next charge at `now`.
std::uint32_t runs_needed(const LogShape& shape, LogState state, ConstLogRing ring,
                          Instant now) noexcept;

// Remembers `cost` units, whether or not they fit, and forgets what no longer
// counts. Requires a ring of runs_needed() runs.
LogState charge(const LogShape& shape, LogState state, LogRing ring, Instant now,
                std::int64_t cost) noexcept;

// The same for a log that has forgotten what no longer counts, under the stamp `at`.
LogState remember(LogState state, LogRing ring, Instant at, std::int64_t cost) noexcept;

// Gives back up to `amount` units remembered under `stamped`; the rest is lost.
LogState give_back(LogState state, LogRing ring, Instant stamped, std::int64_t amount) noexcept;

// Copies the runs, oldest first, into a ring of another size.
LogState move_runs(LogState state, ConstLogRing from, LogRing to) noexcept;

bool is_initial(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept;

}  // namespace weir::meter
