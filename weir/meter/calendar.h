// Calendar: where days, weeks, months and years begin, in UTC.
//
// Weeks begin on Monday. There are no leap seconds in Unix time, so a day is
// always 86,400 seconds; months and years have the lengths of the Gregorian
// calendar. Defined for instants in [0, 2^62) ns.

#pragma once

#include <chrono>
#include <cstdint>

#include "weir/base/time.h"

namespace weir::meter {

enum class CalendarUnit : std::uint8_t { kDay, kWeek, kMonth, kYear };

// The first instant of the unit that contains `at`, and of the one after it.
struct CalendarSpan {
  Instant begin;
  Instant end;
};

CalendarSpan calendar_span(CalendarUnit unit, Instant at) noexcept;

}  // namespace weir::meter
