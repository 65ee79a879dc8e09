// Period: ISO-8601 durations, as contracts write them.
//
//   PT1M  PT744H  P31D  PT1H30M  PT0.5S       PT0S: a fixed quota
//
// Days, hours, minutes and seconds in that order; days are 24 hours; only seconds
// may have a fraction, of up to nine digits. Each part may have a sign, and so may
// the whole: reading allows negative periods, policies do not.
//
// Thread safety: every function is pure.

#pragma once

#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"

namespace weir::system::contract {

constexpr std::size_t kPeriodBytesMax = 64;

// Refused: anything else, and what does not fit in 63 bits of nanoseconds.
Result<Duration> parse_period(std::string_view text);

// In hours, minutes and seconds: `PT744H` for 31 days, `PT0S` for nothing.
// Requires a period of 0 or more.
std::string period_text(Duration period);

// Nanoseconds between two units: floor(period / capacity). A fixed quota and a
// capacity of 0 never refill: kNeverRefills. Requires period >= 0 and capacity >= 0.
// 0: faster than a unit per nanosecond, which a policy refuses.
constexpr std::int64_t kNeverRefills = kForever.ns;
constexpr std::int64_t refill_interval(Duration period, std::int64_t capacity) noexcept {
  return period.count() == 0 || capacity == 0 ? kNeverRefills : period.count() / capacity;
}

}  // namespace weir::system::contract
