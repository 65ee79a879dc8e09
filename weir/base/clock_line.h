// Clock line: how a free-running counter becomes an Instant, as pure arithmetic.
//
// Time is a bent line over the counter. Readers use `before` up to the bend and
// `after` from there on, and the two meet at the bend:
//
//     ns |                          __/   after: slope chosen so that the line
//        |                     ____/      meets the wall clock again at `due`
//        |              ______/
//        |        _____/ bend, kBendLead after the sample
//        |   ____/
//        |  /   before: the line in force until now, untouched
//        +--|----|------|-------------------|--------|----> counter
//              sample  bend                due      until
//
// A discipline samples three clocks at once. The monotonic clock tells the
// counter's rate, the wall clock is the aim, and whatever moved the one against
// the other between two samples is a step of the wall clock. The bend lies in
// the future, so threads that still read by the old lines agree with those
// that already read by the new ones; every slope is positive, so the line never
// falls. It leaves the counter's own rate by at most 1 / kSlewPart, and that
// bounds how fast a step is followed.
//
// From `until` on the lines say nothing: no thread may read by them before the
// next discipline. Therefore a clock that was not read for a while may start a
// fresh line wherever it could have slewed to in the meantime.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "weir/base/integer.h"
#include "weir/base/time.h"

namespace weir {

constexpr Duration kDisciplineAfter{750'000'000};  // a discipline is due
constexpr Duration kDisciplineBy{1'000'000'000};   // and without one, no thread reads on
constexpr Duration kBendLead{1'000'000};           // from the sample to the bend
constexpr Duration kStepMin{1'000'000};            // smaller moves of the wall clock are drift
constexpr std::int64_t kSlewPart = 20;             // slew by 1/20 at most: 50 ms in a second

// A processor may read its counter a little ahead of the loads around it. That
// much below the first line is still answered: with its first instant.
constexpr std::uint64_t kCounterSkewMax = 1U << 16;

// Rates outside 1 MHz to 16 GHz are not believed, and a plan moves its rate by
// 1/1000 at a time, so one bad measurement costs less than a millisecond.
constexpr std::int64_t kOneNsPerCount = std::int64_t{1} << 32;
constexpr std::int64_t kRateMin = kOneNsPerCount / 16;
constexpr std::int64_t kRateMax = kOneNsPerCount * 1000;
constexpr std::int64_t kRateChangePart = 1000;

struct ClockLine {
  std::uint64_t counter = 0;
  std::int64_t ns = 0;                 // since the Unix epoch, at `counter`
  std::int64_t ns_per_count_2_32 = 0;  // in units of 2^-32 ns

  // Rounds down, so a rising line never falls from one count to the next. The
  // product of 64 by 64 bits fits in 128.
  constexpr std::int64_t at(std::uint64_t count) const noexcept {
    const auto since = static_cast<std::int64_t>(count - counter);
    return ns + static_cast<std::int64_t>((Wide{since} * ns_per_count_2_32) >> 32);
  }
};

// What the lines can say about a count.
enum class Standing : std::uint8_t {
  kFresh,  // read on
  kDue,    // read on, but one thread should discipline the clock
  kStale,  // nothing: too long without discipline, or the counter restarted
};

struct ClockLines {
  ClockLine before;         // up to after.counter
  ClockLine after;          // from there on
  std::uint64_t due = 0;    // from here on a discipline is wanted
  std::uint64_t until = 0;  // from here on it is needed

  constexpr Standing standing(std::uint64_t count) const noexcept {
    if (count >= until) return Standing::kStale;
    if (count >= due) return Standing::kDue;
    // Sleep to memory clears the cycle counter of some machines.
    if (count < before.counter && before.counter - count > kCounterSkewMax) {
      return Standing::kStale;
    }
    return Standing::kFresh;
  }

  // Never decreases with `count`. Requires standing(count) != kStale; at `until`
  // itself it tells what no reader has reached.
  constexpr std::int64_t at(std::uint64_t count) const noexcept {
    return count < after.counter ? before.at(std::max(count, before.counter)) : after.at(count);
  }
};

// Three clocks read at one moment.
struct ClockSample {
  std::uint64_t counter = 0;
  std::int64_t monotonic_ns = 0;
  std::int64_t wall_ns = 0;
};

struct ClockPlan {
  ClockLines lines;
  ClockSample sample;     // the last one
  std::int64_t rate = 0;  // of the counter itself, in 2^-32 ns per count
  Duration step{0};       // of the wall clock, found by the last discipline; 0: none
};

// The counter's rate between two samples, rounded down, or 0 if it is not to be
// believed. An error of 100 ns in 750 ms is one of 0.13 ppm.
constexpr std::int64_t measured_rate(const ClockSample& from, const ClockSample& to) noexcept {
  if (to.counter <= from.counter || to.monotonic_ns <= from.monotonic_ns) return 0;
  const Wide span = Wide{to.monotonic_ns} - from.monotonic_ns;
  const Wide rate = floor_div(span * kOneNsPerCount, Wide{to.counter - from.counter});
  return rate < kRateMin || rate > kRateMax ? 0 : static_cast<std::int64_t>(rate);
}

// The rate to go by from now on: the measured one, as far as it is credible.
constexpr std::int64_t learned_rate(std::int64_t rate, std::int64_t measured) noexcept {
  if (measured == 0) return rate;
  const std::int64_t most = rate / kRateChangePart;
  return std::clamp(measured, rate - most, rate + most);
}

// How many counts pass in `span`, rounded down. Requires rate >= kRateMin.
constexpr std::uint64_t counts_in(Duration span, std::int64_t rate) noexcept {
  return static_cast<std::uint64_t>(floor_div(Wide{span.count()} * kOneNsPerCount, rate));
}

// The slope that removes `error` over `span`, or as much of it as the slew
// bound allows. Always positive, since rate >= kRateMin. Rounds down.
constexpr std::int64_t slewing_rate(std::int64_t rate, Duration span, Duration error) noexcept {
  const Duration most = span / kSlewPart;
  const Duration correction = std::clamp(error, -most, most);
  return static_cast<std::int64_t>(
      floor_div(Wide{rate} * (span + correction).count(), span.count()));
}

// A fresh line from `first` at the sample's count, aimed at the wall clock.
// Counts that come from shortly before it read as `first`.
constexpr ClockLines fresh_lines(const ClockSample& sample, Instant first,
                                 std::int64_t rate) noexcept {
  const Duration error = Instant{sample.wall_ns} - first;
  ClockLines lines;
  lines.before = ClockLine{sample.counter, first.ns, 0};
  lines.after = ClockLine{sample.counter, first.ns, slewing_rate(rate, kDisciplineAfter, error)};
  lines.due = sample.counter + counts_in(kDisciplineAfter, rate);
  lines.until = sample.counter + counts_in(kDisciplineBy, rate);
  return lines;
}

// The line in force, bent at kBendLead after the sample.
constexpr ClockLines bent_lines(const ClockLines& lines, const ClockSample& sample,
                                std::int64_t rate) noexcept {
  const std::uint64_t bend = sample.counter + counts_in(kBendLead, rate);
  const std::int64_t bend_ns = lines.at(bend);
  const Duration error = Instant{sample.wall_ns} + kBendLead - Instant{bend_ns};
  ClockLines bent;
  bent.before = lines.after;
  bent.after = ClockLine{bend, bend_ns, slewing_rate(rate, kDisciplineAfter - kBendLead, error)};
  bent.due = sample.counter + counts_in(kDisciplineAfter, rate);
  bent.until = sample.counter + counts_in(kDisciplineBy, rate);
  return bent;
}

// Where a clock that could not be read since `until` may start again: at the wall
// clock, if slewing all the time could have brought it there; else as near to
// it as that. Never before the last instant that was readable.
constexpr Instant resumed_at(const ClockPlan& plan, const ClockSample& sample) noexcept {
  const Instant last{plan.lines.at(plan.lines.until)};
  const Duration elapsed = Instant{sample.monotonic_ns} - Instant{plan.sample.monotonic_ns};
  const Duration idle = std::max(elapsed - kDisciplineBy, Duration{0});
  const Duration slew = idle / kSlewPart;
  return std::clamp(Instant{sample.wall_ns}, last + (idle - slew), last + (idle + slew));
}

// The first plan of a clock: at the wall clock, at the given rate.
constexpr ClockPlan first_plan(const ClockSample& sample, std::int64_t rate) noexcept {
  return ClockPlan{fresh_lines(sample, Instant{sample.wall_ns}, rate), sample, rate, Duration{0}};
}

// The plan that follows `plan`, given what the clocks say now.
//
// Requires a sample from after the last bend, or from a counter that restarted.
// A plan that bends must be in readers' hands before the count reaches the bend.
constexpr ClockPlan discipline(const ClockPlan& plan, const ClockSample& sample) noexcept {
  const std::int64_t rate = learned_rate(plan.rate, measured_rate(plan.sample, sample));
  const Duration wall_moved = Instant{sample.wall_ns} - Instant{plan.sample.wall_ns};
  const Duration elapsed = Instant{sample.monotonic_ns} - Instant{plan.sample.monotonic_ns};
  const Duration apart = wall_moved - elapsed;

  ClockPlan next{{}, sample, rate, std::chrono::abs(apart) > kStepMin ? apart : Duration{0}};
  next.lines = plan.lines.standing(sample.counter) == Standing::kStale
                   ? fresh_lines(sample, resumed_at(plan, sample), rate)
                   : bent_lines(plan.lines, sample, rate);
  return next;
}

}  // namespace weir
