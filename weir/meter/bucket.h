// Bucket: an average rate with a bounded burst, refilled continuously and exactly.
//
// A bucket holds at most `burst` units, starts full, and gains `num` units
// every `den` nanoseconds, evenly. A request takes its cost or is denied; it may
// also book a start in the future, or go into debt and be told the delay.
//
// The state is the instant at which the bucket will be full again, as whole
// nanoseconds plus a fraction in 1/num parts. A cost of c takes c*den/num ns to
// refill, so taking it moves that instant by so much: nothing is ever rounded
// and nothing drifts. The state of all zeros is a full bucket.
//
//      level                     full_at: where the rising line meets the burst
//   burst |- - - - - - - - - - -/-----
//         |\        __/\     __/
//         | \    __/    \ __/
//         |  \__/        V
//         +-----------------------------> time
//
// Time running backwards: level and refill depend on full_at alone, so an
// earlier `now` never refills anything twice; it sees the bucket as it would
// have stood then, which is emptier. Where calls may arrive out of order keep a
// TimedBucket, for which an earlier `now` counts as no time passed.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>

#include "weir/base/export.h"
#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/step.h"

namespace weir::meter {

// A span of time in whole nanoseconds and 1/num parts of one.
struct BucketSpan {
  std::int64_t ns = 0;
  std::int64_t parts = 0;
};

struct BucketShape {
  std::int64_t num = 1;    // units gained ...
  std::int64_t den = 1;    // ... in so many nanoseconds, in lowest terms
  std::int64_t burst = 1;  // units held when full
  BucketSpan fill;         // empty to full
  BucketSpan unit;         // one unit

  friend constexpr bool operator==(const BucketShape& a, const BucketShape& b) noexcept {
    return a.num == b.num && a.den == b.den && a.burst == b.burst;  // the rest follows
  }
};

// What one key has left. Two words, trivially copyable, meaningful only
// together with the shape that produced it.
struct BucketState {
  Instant full_at{};               // when it will be full again; in the past: full now
  std::int64_t full_at_parts = 0;  // fraction of that nanosecond, in 1/num parts

  friend constexpr bool operator==(const BucketState&, const BucketState&) = default;
};

using BucketStep = Step<BucketState>;

// `amount` units every `period`, at most `burst` at once. Refused, with a
// message, when a term is below 1 or above 2^62 or filling takes 2^62 ns or more.
WEIR_EXPORT Result<BucketShape> make_bucket(std::int64_t amount, Duration period,
                                            std::int64_t burst) noexcept;

// How long `cost` units take to refill. Requires 0 <= cost and cost*den/num <
// 2^63 - 1, which holds for every cost up to the burst.
constexpr BucketSpan refill_time(const BucketShape& shape, std::int64_t cost) noexcept {
  if (cost == 1) return shape.unit;
  // cost and den are at most 2^62, so the product fits in 128 bits.
  const Division division = divide(Wide{cost} * shape.den, shape.num);
  return {division.quotient, division.remainder};
}

// Where the bucket stands at `now`: its own instant, or `now` if it is full.
constexpr BucketState settled(BucketState state, Instant now) noexcept {
  return state.full_at < now ? BucketState{now, 0} : state;
}

// `state` later by `span`. Saturates at the end of time, which checks refuse.
constexpr BucketState later_by(const BucketShape& shape, BucketState state,
                               BucketSpan span) noexcept {
  // Both fractions are below num <= 2^62, so their sum fits in 63 bits.
  std::int64_t parts = state.full_at_parts + span.parts;
  std::int64_t carry = 0;
  if (parts >= shape.num) {
    parts -= shape.num;
    carry = 1;
  }
  std::int64_t ns = 0;
  if (__builtin_add_overflow(state.full_at.ns, span.ns + carry, &ns)) return {kForever, 0};
  return {Instant{ns}, parts};
}

// The first whole nanosecond at which a bucket in `state` is not in debt.
constexpr Instant solvent_at(const BucketShape& shape, BucketState state) noexcept {
  const std::int64_t part = state.full_at_parts > shape.fill.parts ? 1 : 0;
  // full_at >= 0 and fill < 2^62, so the difference fits.
  return Instant{state.full_at.ns - shape.fill.ns + part};
}

// What is in use, in 1/den parts of a unit.
constexpr Wide used_parts(const BucketShape& shape, BucketState state, Instant now) noexcept {
  if (state.full_at < now) return 0;
  // (2^63)*(2^62) + 2^62 fits in 128 bits.
  return Wide{state.full_at.ns - now.ns} * shape.num + state.full_at_parts;
}

// Units in use, rounded up; more than the burst when in debt or booked ahead.
constexpr std::int64_t used(const BucketShape& shape, BucketState state, Instant now) noexcept {
  return saturate(ceil_div(used_parts(shape, state, now), shape.den));
}

// Whole units left at `now`, rounded down; negative when in debt.
constexpr std::int64_t level(const BucketShape& shape, BucketState state, Instant now) noexcept {
  if (state.full_at < now) return shape.burst;
  // Almost always narrow enough to divide quickly. full_at and now are not negative, and
  // both terms of the second sum are at most 2^62; burst >= 1, so the difference fits.
  std::int64_t parts = 0;
  if (!__builtin_mul_overflow(state.full_at.ns - now.ns, shape.num, &parts) &&
      !__builtin_add_overflow(parts, state.full_at_parts + (shape.den - 1), &parts)) {
    return shape.burst - parts / shape.den;
  }
  return saturate(Wide{shape.burst} - ceil_div(used_parts(shape, state, now), shape.den));
}

// Share of the burst in use, in millionths of a percent, rounded down.
constexpr std::int64_t percent_used_micro(const BucketShape& shape, BucketState state,
                                          Instant now) noexcept {
  __extension__ typedef unsigned __int128 Unsigned;
  // parts / (den * burst), where the divisor is at most 2^124, with eight decimal
  // places worked out one by one: ten times a remainder fits in 128 bits.
  constexpr int kPlaces = 8;
  const auto whole = static_cast<Unsigned>(Wide{shape.den} * shape.burst);
  const auto parts = static_cast<Unsigned>(used_parts(shape, state, now));
  Unsigned quotient = parts / whole;
  Unsigned remainder = parts % whole;
  for (int place = 0; place < kPlaces; ++place) {
    remainder *= 10;
    // Once past 2^63 it stays there; ten times that still fits.
    if (quotient <= Unsigned{kForever.ns}) quotient = quotient * 10 + remainder / whole;
    remainder %= whole;
  }
  return quotient > Unsigned{kForever.ns} ? kForever.ns : static_cast<std::int64_t>(quotient);
}

// Takes `cost` units at `now`, or says when that will be possible.
// Requires cost >= 0 and now in [0, 2^62).
constexpr BucketStep take(const BucketShape& shape, BucketState state, Instant now,
                          std::int64_t cost) noexcept {
  if (cost > shape.burst) {
    return {{Verdict::kNever, kForever, saturating_sub(cost, level(shape, state, now))}, state};
  }
  const BucketState after = later_by(shape, settled(state, now), refill_time(shape, cost));
  const Instant earliest = solvent_at(shape, after);
  if (earliest > now && cost > 0) {
    const std::int64_t missing = saturating_sub(cost, level(shape, state, now));
    return {{Verdict::kDenied, earliest, missing}, state};
  }
  return {{Verdict::kAllowed, now, 0}, cost > 0 ? after : state};
}

// Books `cost` units at the first instant from `from` on at which they fit:
// `check.earliest` is the start, and the state remembers it. Those who come later
// are served after it. Never: more than the burst, or beyond the end of time.
constexpr BucketStep book(const BucketShape& shape, BucketState state, Instant from,
                          std::int64_t cost) noexcept {
  if (cost == 0) return {{Verdict::kAllowed, from, 0}, state};
  const BucketSpan span = cost > shape.burst ? BucketSpan{} : refill_time(shape, cost);
  const Instant start = later_of(from, solvent_at(shape, later_by(shape, state, span)));
  // Starts are whole nanoseconds. Rounded up, one may lie past the instant at
  // which the bucket is full, and what it would have gained since then is lost.
  const BucketState after = later_by(shape, settled(state, start), span);
  if (cost > shape.burst || after.full_at == kForever) {
    return {{Verdict::kNever, kForever, saturating_sub(cost, level(shape, state, from))}, state};
  }
  return {{Verdict::kAllowed, start, 0}, after};
}

// Debits `cost` units whatever is there: `check.earliest` is when the bucket is
// no longer in debt. Never, with the state untouched, only when that instant
// lies beyond the end of time.
constexpr BucketStep debit(const BucketShape& shape, BucketState state, Instant now,
                           std::int64_t cost) noexcept {
  // Both products are below 2^125. A span of 2^63 - 1 or more is refused before it
  // is divided, and later_by() says if the sum overflows.
  const bool fits = Wide{cost} * shape.den < Wide{kForever.ns} * shape.num;
  const BucketState after =
      fits ? later_by(shape, settled(state, now), refill_time(shape, cost)) : BucketState{kForever};
  if (after.full_at == kForever) {
    return {{Verdict::kNever, kForever, saturating_sub(cost, level(shape, state, now))}, state};
  }
  return {{Verdict::kAllowed, later_of(now, solvent_at(shape, after)), 0}, after};
}

// Gives `amount` units back; what would exceed the burst is lost.
// Requires 0 <= amount <= 2^62.
constexpr BucketState give_back(const BucketShape& shape, BucketState state, Instant now,
                                std::int64_t amount) noexcept {
  const Wide total = Wide{amount} * shape.den;
  if (total >= used_parts(shape, state, now)) {
    // Full, since `now` at the latest: at an earlier instant it still is as empty as it was.
    return state.full_at < now ? state : BucketState{now, 0};
  }
  const Division division = divide(total, shape.num);
  std::int64_t parts = state.full_at_parts - division.remainder;
  std::int64_t full_at_ns = state.full_at.ns - division.quotient;
  if (parts < 0) {
    parts += shape.num;
    full_at_ns -= 1;
  }
  return {Instant{full_at_ns}, parts};
}

// The same use under another shape. At the same rate it is kept exactly, since it is
// refilled at the same instant whatever the burst. At another rate it is rounded up to
// what the state can hold, the refill of 1/num of a nanosecond: so even a rate that
// changes all the time refills. A use larger than the new burst becomes debt.
constexpr BucketState reshape(const BucketShape& from, const BucketShape& to, BucketState state,
                              Instant now) noexcept {
  if (from.num == to.num && from.den == to.den) return state;
  const Wide parts = used_parts(from, state, now);
  // Whole units and the rest of one apart, so that each product is below 2^126.
  const Wide units = saturate(parts / from.den);
  const Wide span = units * to.den + ceil_div(parts % from.den * to.den, from.den);
  if (span / to.num >= kTermMax) return {Instant{saturate(Wide{now.ns} + kTermMax)}, 0};
  const Division division = divide(span, to.num);
  return later_by(to, {now, 0}, {division.quotient, division.remainder});
}

// A full bucket is indistinguishable from none.
constexpr bool is_initial(BucketState state, Instant now) noexcept {
  return state.full_at < now || (state.full_at == now && state.full_at_parts == 0);
}

// A bucket that knows when it was last charged.
struct TimedBucket {
  BucketState bucket;
  Instant charged_at{};
};

// As take, but a `now` before the last charge counts as no time passed.
constexpr Step<TimedBucket> take(const BucketShape& shape, TimedBucket timed, Instant now,
                                 std::int64_t cost) noexcept {
  const Instant at = later_of(now, timed.charged_at);
  const BucketStep step = take(shape, timed.bucket, at, cost);
  return {step.check, step.allowed() && cost > 0 ? TimedBucket{step.state, at} : timed};
}
// And the others alike.
constexpr std::int64_t level(const BucketShape& shape, TimedBucket timed, Instant now) noexcept {
  return level(shape, timed.bucket, later_of(now, timed.charged_at));
}
constexpr Step<TimedBucket> book(const BucketShape& shape, TimedBucket timed, Instant from,
                                 std::int64_t cost) noexcept {
  const Instant at = later_of(from, timed.charged_at);
  const BucketStep step = book(shape, timed.bucket, at, cost);
  return {step.check, step.allowed() && cost > 0 ? TimedBucket{step.state, at} : timed};
}
constexpr Step<TimedBucket> debit(const BucketShape& shape, TimedBucket timed, Instant now,
                                  std::int64_t cost) noexcept {
  const Instant at = later_of(now, timed.charged_at);
  const BucketStep step = debit(shape, timed.bucket, at, cost);
  return {step.check, step.allowed() && cost > 0 ? TimedBucket{step.state, at} : timed};
}
constexpr TimedBucket give_back(const BucketShape& shape, TimedBucket timed, Instant now,
                                std::int64_t amount) noexcept {
  const Instant at = later_of(now, timed.charged_at);
  return {give_back(shape, timed.bucket, at, amount), timed.charged_at};
}

// As take, but a `now` before the last charge is an error, and nothing is taken.
Result<Step<TimedBucket>> take_strictly(const BucketShape& shape, TimedBucket timed, Instant now,
                                        std::int64_t cost) noexcept;

}  // namespace weir::meter
