#include "weir/meter/calendar.h"

namespace weir::meter {
namespace {

using std::chrono::days;
using std::chrono::sys_days;

Instant first_instant(sys_days day) {
  return Instant{std::chrono::duration_cast<Duration>(day.time_since_epoch()).count()};
}

}  // namespace

CalendarSpan calendar_span(CalendarUnit unit, Instant at) noexcept {
  const sys_days today{std::chrono::floor<days>(Duration{at.ns})};
  const std::chrono::year_month_day date{today};
  switch (unit) {
    case CalendarUnit::kDay:
      return {first_instant(today), first_instant(today + days{1})};
    case CalendarUnit::kWeek: {
      const sys_days monday = today - (std::chrono::weekday{today} - std::chrono::Monday);
      return {first_instant(monday), first_instant(monday + days{7})};
    }
    case CalendarUnit::kMonth: {
      const std::chrono::year_month month{date.year(), date.month()};
      return {first_instant(sys_days{month / 1}),
              first_instant(sys_days{(month + std::chrono::months{1}) / 1})};
    }
    case CalendarUnit::kYear: {
      const std::chrono::year year = date.year();
      return {first_instant(sys_days{year / std::chrono::January / 1}),
              first_instant(sys_days{(year + std::chrono::years{1}) / std::chrono::January / 1})};
    }
  }
  return {at, kForever};
}

}  // namespace weir::meter
