// Ticker: whole tokens at fixed ticks.
//
// A ticker gains `per_tick` units at every tick and holds at most `burst`. Ticks
// come every `interval`, at instants that never shift: the phase is kept while
// the ticker is full and across a change of interval. Between ticks nothing is
// gained, which is what tells it from a bucket.
//
//   tokens  3 |        +--------   ticks on a full ticker add nothing,
//           2 |     +--'      |    but the next one still comes on time
//           1 |  +--'         +-
//             +--|--|--|--|--|--|--> ticks
//
// Counting in micro-units (per_tick = 1'000'000) lets a fraction of a token be
// given back; fractions that a caller cannot express are rounded down there.
//
// Time running backwards counts as no time passed: the last tick is remembered.
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/step.h"

namespace weir::meter {

enum class TickerStart : std::uint8_t { kFull, kEmpty };

struct TickerShape {
  std::int64_t interval_ns = 1;
  std::int64_t per_tick = 1;
  std::int64_t burst = 1;
  TickerStart start = TickerStart::kFull;

  friend constexpr bool operator==(const TickerShape&, const TickerShape&) = default;
};

struct TickerState {
  std::int64_t tokens = 0;
  Instant last_tick{};

  friend constexpr bool operator==(const TickerState&, const TickerState&) = default;
};

using TickerStep = Step<TickerState>;

// Refused, with a message, unless every term is between 1 and 2^62, the burst
// holds at least one tick, and filling takes less than 2^62 ns.
Result<TickerShape> make_ticker(std::int64_t per_tick, Duration interval, std::int64_t burst,
                                TickerStart start) noexcept;

// The interval that spreads `amount` tokens over `period`, in whole nanoseconds,
// rounded to nearest and a tie to even. 0 when there is nothing to spread, or
// when a tick would be half a nanosecond or shorter.
// Requires amount >= 0 and period >= 0.
constexpr std::int64_t tick_interval_ns(Duration period, std::int64_t amount) noexcept {
  if (amount == 0) return 0;
  const std::int64_t quotient = period.count() / amount;
  const Wide twice = Wide{period.count() % amount} * 2;
  const bool up = twice > amount || (twice == amount && quotient % 2 != 0);
  return quotient + (up ? 1 : 0);
}

// A ticker whose ticks fall on multiples of the interval since the epoch, full:
// the state that a forgotten ticker of kind kFull comes back in.
constexpr TickerState full_ticker(const TickerShape& shape, Instant now) noexcept {
  return {shape.burst, Instant{now.ns - now.ns % shape.interval_ns}};
}

// A ticker whose first tick comes one interval after `now`.
constexpr TickerState empty_ticker(Instant now) noexcept { return {0, now}; }

constexpr TickerState initial_ticker(const TickerShape& shape, Instant now) noexcept {
  return shape.start == TickerStart::kFull ? full_ticker(shape, now) : empty_ticker(now);
}

// The state at `now`: every tick up to and including `now` has been counted.
constexpr TickerState advance(const TickerShape& shape, TickerState state, Instant now) noexcept {
  if (now.ns - state.last_tick.ns < shape.interval_ns) return state;
  const std::int64_t ticks = (now.ns - state.last_tick.ns) / shape.interval_ns;
  state.last_tick.ns += ticks * shape.interval_ns;
  // ticks and per_tick are below 2^63, so the product fits in 128 bits. Tokens
  // above the burst (after a change of shape) are dropped at the next tick.
  state.tokens = static_cast<std::int64_t>(
      std::min(Wide{state.tokens} + Wide{ticks} * shape.per_tick, Wide{shape.burst}));
  return state;
}

constexpr Instant next_tick(const TickerShape& shape, TickerState state, Instant now) noexcept {
  return advance(shape, state, now).last_tick + Duration{shape.interval_ns};
}

// Units left at `now`; negative after an overage.
constexpr std::int64_t level(const TickerShape& shape, TickerState state, Instant now) noexcept {
  return advance(shape, state, now).tokens;
}

// The tick that brings the tokens up to `cost`, of which there are fewer; kForever: it lies
// beyond the end of time.
constexpr Instant tick_of(const TickerShape& shape, TickerState state, std::int64_t cost) noexcept {
  // At most 2^63 are missing. Cut off to one less, that is still the end of time at one a
  // tick; at two or more, divided, they fit.
  std::int64_t ticks = saturating_sub(cost, state.tokens);
  if (shape.per_tick != 1) {
    ticks = divide(Wide{cost} - state.tokens + (shape.per_tick - 1), shape.per_tick).quotient;
  }
  std::int64_t ns = 0;
  const bool is_beyond = __builtin_mul_overflow(ticks, shape.interval_ns, &ns) ||
                         __builtin_add_overflow(ns, state.last_tick.ns, &ns);
  return is_beyond ? kForever : Instant{ns};
}

// Takes `cost` at `now`, or says at which tick that will be possible.
// Requires cost >= 0 and now in [0, 2^62).
constexpr TickerStep take(const TickerShape& shape, TickerState state, Instant now,
                          std::int64_t cost) noexcept {
  TickerState after = advance(shape, state, now);
  if (cost > shape.burst) {
    return {{Verdict::kNever, kForever, saturating_sub(cost, after.tokens)}, state};
  }
  if (cost > after.tokens && cost > 0) [[unlikely]] {
    return {{Verdict::kDenied, tick_of(shape, after, cost), saturating_sub(cost, after.tokens)},
            state};
  }
  after.tokens -= cost;
  return {{Verdict::kAllowed, now, 0}, cost > 0 ? after : state};
}

// Debits `cost` whatever is there; later ticks pay the debt off first.
constexpr TickerState debit(const TickerShape& shape, TickerState state, Instant now,
                            std::int64_t cost) noexcept {
  TickerState after = advance(shape, state, now);
  after.tokens = saturate(std::max(Wide{after.tokens} - cost, -Wide{kTermMax}));
  return after;
}

// Books `cost` units at the first instant from `from` on at which they fit: `check.earliest` is the
// start. They are debited now, so that those who come later are served after it. Never: more than
// the burst, or beyond the end of time. Requires from >= now.
//
// Ticks that find the ticker full before the start are lost, so until then it is as empty as if
// they never came: who takes what is there leaves enough for the start.
constexpr TickerStep book(const TickerShape& shape, TickerState state, Instant now, Instant from,
                          std::int64_t cost) noexcept {
  if (cost == 0) return {{Verdict::kAllowed, from, 0}, state};
  TickerState after = advance(shape, state, now);
  const TickerStep never{{Verdict::kNever, kForever, saturating_sub(cost, after.tokens)}, state};
  if (cost > shape.burst) return never;
  const Instant fits = cost > after.tokens ? tick_of(shape, after, cost) : from;
  const Instant start = later_of(from, fits);
  if (start == kForever) return never;
  const std::int64_t span_ns = std::max<std::int64_t>(0, start.ns - after.last_tick.ns);
  // Ticks and what one gains are below 2^63, so the product fits in 128 bits.
  const Wide gained = Wide{span_ns / shape.interval_ns} * shape.per_tick;
  const Wide tokens = std::min(Wide{after.tokens}, shape.burst - gained) - cost;
  if (tokens < -Wide{kTermMax}) return never;
  after.tokens = static_cast<std::int64_t>(tokens);
  return {{Verdict::kAllowed, start, 0}, after};
}

// Gives `amount` back, capped at the burst.
constexpr TickerState give_back(const TickerShape& shape, TickerState state, Instant now,
                                std::int64_t amount) noexcept {
  TickerState after = advance(shape, state, now);
  after.tokens = static_cast<std::int64_t>(
      std::max(Wide{after.tokens}, std::min(Wide{after.tokens} + amount, Wide{shape.burst})));
  return after;
}

// Brought up to date with the old interval, then only the shape is replaced:
// the tick in progress keeps the time already elapsed.
constexpr TickerState reshape(const TickerShape& from, const TickerShape& to, TickerState state,
                              Instant now) noexcept {
  TickerState after = advance(from, state, now);
  after.tokens = std::min(after.tokens, to.burst);
  return after;
}

// Only a ticker that starts full, is full, and ticks in the epoch's phase cannot be
// told from nothing: any other would come back different.
constexpr bool is_initial(const TickerShape& shape, TickerState state, Instant now) noexcept {
  return shape.start == TickerStart::kFull && level(shape, state, now) >= shape.burst &&
         state.last_tick.ns % shape.interval_ns == 0;
}

}  // namespace weir::meter
