#include "weir/meter/log.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/time.h"

namespace weir::meter {
namespace {

std::size_t place(LogState state, std::size_t ring_size, std::uint32_t index) {
  const std::size_t at = std::size_t{state.head} + index;
  return at < ring_size ? at : at - ring_size;
}

// Alive during [at, at + window): forgotten at exactly at + window.
bool counts(const LogShape& shape, const LogRun& run, Instant now) {
  // A stamp is at most a grain above 2^62 and a window at most 2^61, so the sum fits.
  return run.at.ns + shape.window_ns > now.ns;
}

// How many of the oldest runs no longer count, and their units.
struct Forgotten {
  std::uint16_t runs = 0;
  std::int64_t units = 0;
};

Forgotten forgotten(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) {
  Forgotten result;
  while (result.runs < state.size) {
    const LogRun& run = ring[place(state, ring.size(), result.runs)];
    if (counts(shape, run, now)) break;
    result.units += run.units;
    result.runs += 1;
  }
  return result;
}

// The first instant at which `units` of those that count have been forgotten.
Instant freed_at(const LogShape& shape, LogState state, ConstLogRing ring, Instant now,
                 std::int64_t units) {
  std::int64_t freed = 0;
  for (std::uint32_t i = forgotten(shape, state, ring, now).runs; i < state.size; ++i) {
    const LogRun& run = ring[place(state, ring.size(), i)];
    freed += run.units;
    if (freed >= units) return run.at + Duration{shape.window_ns};
  }
  return kForever;
}

}  // namespace

Result<LogShape> make_log(std::int64_t limit, Duration window) {
  if (limit < 0 || limit > kTermMax) {
    return bad_argument(fmt::format(
        "log limit is {}, but it must be between 0 and 2^62; write how many units any window may "
        "hold",
        limit));
  }
  if (window.count() < 1 || window.count() > kTermMax / 2) {
    return bad_argument(fmt::format(
        "log window is {} ns, but it must be between 1 ns and 2^61 ns; write a duration such as "
        "'1h'",
        window.count()));
  }
  const bool exact = limit <= std::int64_t{kRunsMax};
  auto grain_ns = static_cast<std::int64_t>(ceil_div(window.count(), kRunsMax - 2));
  // In whole microseconds, if it is as long as one: a store whose clock is no finer stamps
  // the same.
  if (grain_ns >= kNsPerUs) {
    grain_ns = static_cast<std::int64_t>(ceil_div(grain_ns, kNsPerUs)) * kNsPerUs;
  }
  return LogShape{limit, window.count(), exact ? 1 : grain_ns};
}

std::int64_t used(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept {
  return state.held - forgotten(shape, state, ring, now).units;
}

std::int64_t level(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept {
  return shape.limit - used(shape, state, ring, now);
}

Check check(const LogShape& shape, LogState state, ConstLogRing ring, Instant now,
            std::int64_t cost) noexcept {
  const Wide missing = Wide{used(shape, state, ring, now)} + cost - shape.limit;
  if (cost > shape.limit) return {Verdict::kNever, kForever, saturate(missing)};
  if (missing <= 0 || cost == 0) return {Verdict::kAllowed, now, 0};
  return {Verdict::kDenied, freed_at(shape, state, ring, now, saturate(missing)),
          saturate(missing)};
}

Instant next_free(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept {
  const std::int64_t missing = 1 - level(shape, state, ring, now);
  return missing <= 0 ? now : freed_at(shape, state, ring, now, missing);
}

Instant stamp(const LogShape& shape, Instant now) noexcept {
  // Rounded up. now < 2^62 and a grain is below 2^52, so the sum fits.
  const std::int64_t past_ns = now.ns % shape.grain_ns;
  return past_ns == 0 ? now : Instant{now.ns - past_ns + shape.grain_ns};
}

Instant newest(LogState state, ConstLogRing ring) noexcept {
  return ring[place(state, ring.size(), state.size - 1u)].at;
}

LogState forget(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept {
  const Forgotten gone = forgotten(shape, state, ring, now);
  state.head = static_cast<std::uint16_t>(place(state, ring.size(), gone.runs));
  state.size = static_cast<std::uint16_t>(state.size - gone.runs);
  state.held -= gone.units;
  return state;
}

std::uint32_t runs_needed(const LogShape& shape, LogState state, ConstLogRing ring,
                          Instant now) noexcept {
  const Forgotten gone = forgotten(shape, state, ring, now);
  return std::min<std::uint32_t>(state.size - gone.runs + 1u, kRunsMax);
}

LogState charge(const LogShape& shape, LogState state, LogRing ring, Instant now,
                std::int64_t cost) noexcept {
  if (cost == 0) return state;
  return remember(forget(shape, state, ring, now), ring, stamp(shape, now), cost);
}

LogState remember(LogState state, LogRing ring, Instant at, std::int64_t cost) noexcept {
  // Saturating: only overages can bring a log past its limit of 2^62.
  const std::int64_t fits = std::min(cost, kTermMax - state.held);
  state.held += fits;

  // Runs stay in order of time; almost always the new one is the latest.
  std::uint32_t index = state.size;
  while (index > 0 && ring[place(state, ring.size(), index - 1)].at > at) index -= 1;
  if (index > 0) {
    LogRun& before = ring[place(state, ring.size(), index - 1)];
    if (before.at == at) {
      before.units += fits;
      return state;
    }
  }
  if (state.size == kRunsMax) {
    // At its bound (a changed limit brought a second grain) the log remembers the
    // units under the next later stamp, or moves the latest up: longer, never shorter.
    LogRun& later = ring[place(state, ring.size(), std::min(index, kRunsMax - 1))];
    later.at = later_of(later.at, at);
    later.units += fits;
    return state;
  }
  for (std::uint32_t i = state.size; i > index; --i) {
    ring[place(state, ring.size(), i)] = ring[place(state, ring.size(), i - 1)];
  }
  ring[place(state, ring.size(), index)] = {at, fits};
  state.size = static_cast<std::uint16_t>(state.size + 1);
  return state;
}

LogState give_back(LogState state, LogRing ring, Instant stamped, std::int64_t amount) noexcept {
  std::uint32_t index = state.size;
  while (index > 0 && ring[place(state, ring.size(), index - 1)].at > stamped) index -= 1;
  if (index == 0) return state;
  LogRun& run = ring[place(state, ring.size(), index - 1)];
  if (run.at != stamped) return state;

  const std::int64_t given = std::min(amount, run.units);
  run.units -= given;
  state.held -= given;
  if (run.units > 0) return state;
  // An empty run is taken out: a log of kRunsMax runs has no room to waste.
  for (; index < state.size; ++index) {
    ring[place(state, ring.size(), index - 1)] = ring[place(state, ring.size(), index)];
  }
  state.size = static_cast<std::uint16_t>(state.size - 1);
  return state;
}

LogState move_runs(LogState state, ConstLogRing from, LogRing to) noexcept {
  for (std::uint32_t i = 0; i < state.size; ++i) to[i] = from[place(state, from.size(), i)];
  state.head = 0;
  return state;
}

bool is_initial(const LogShape& shape, LogState state, ConstLogRing ring, Instant now) noexcept {
  return used(shape, state, ring, now) == 0;
}

}  // namespace weir::meter
