// Calendar: where days, weeks, months and years begin, in UTC.
//
// Weeks begin on Monday. There are no leap seconds in Unix time, so a day is
// always 86,400 seconds; months and years have the lengths of the Gregorian
// calendar. Defined for instants in [0, 2^62) ns.
//
//   kMonth at 2026-02-17 08:00   2026-02-01 00:00 .. 2026-03-01 00:00
//   kWeek  at 1970-01-01 00:00   1969-12-29 00:00 .. 1970-01-05 00:00, so a
//                                beginning may be negative
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <chrono>
#include <cstdint>

#include "weir/base/time.h"

namespace weir::meter {

enum class CalendarUnit : std::uint8_t { kDay, kWeek, kMonth, kYear };

// From its first instant up to the first instant of the next span: every instant
// lies in exactly one.
struct TimeSpan {
  Instant begin;
  Instant end;  // the first instant after it
};

// The unit that contains `at`.
constexpr TimeSpan calendar_span(CalendarUnit unit, Instant at) noexcept {
  using std::chrono::days;
  using std::chrono::sys_days;
  const auto from = [](sys_days first, sys_days next) {
    const auto instant = [](sys_days day) {
      return Instant{std::chrono::duration_cast<Duration>(day.time_since_epoch()).count()};
    };
    return TimeSpan{instant(first), instant(next)};
  };
  const sys_days today{std::chrono::floor<days>(Duration{at.ns})};
  if (unit == CalendarUnit::kDay) return from(today, today + days{1});
  if (unit == CalendarUnit::kWeek) {
    const sys_days monday = today - (std::chrono::weekday{today} - std::chrono::Monday);
    return from(monday, monday + days{7});
  }
  const std::chrono::year_month_day date{today};
  if (unit == CalendarUnit::kMonth) {
    const std::chrono::year_month month = date.year() / date.month();
    return from(sys_days{month / 1}, sys_days{(month + std::chrono::months{1}) / 1});
  }
  const std::chrono::year_month january = date.year() / std::chrono::January;
  return from(sys_days{january / 1}, sys_days{(january + std::chrono::years{1}) / 1});
}

}  // namespace weir::meter
