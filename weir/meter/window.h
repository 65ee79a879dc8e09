// Window: at most `limit` units in each fixed window.
//
// Windows are aligned to the Unix epoch (any length) or to the UTC calendar
// (day, week, month, year). The count is sticky: it stays until the window turns,
// whenever the work ends, and can be given back only in the window that was
// charged. A charge is named by its instant: whatever lengths windows have had
// since, it is in the count if that goes back as far.
//
//        limit 3   xxx|x    |xx   |      a window's count forgets nothing
//                  ---+-----+-----+-->   until the next window begins
//
// Time running backwards counts as no time passed: the window is remembered.
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/calendar.h"
#include "weir/meter/step.h"

namespace weir::meter {

struct WindowShape {
  std::int64_t limit = 1;
  std::int64_t length_ns = 1;  // 0: the calendar unit instead
  CalendarUnit unit = CalendarUnit::kDay;

  friend constexpr bool operator==(const WindowShape&, const WindowShape&) = default;
};

struct WindowState {
  Instant since{};  // lies in the window that is counted; charges from here on are in `count`
  std::int64_t count = 0;

  friend constexpr bool operator==(const WindowState&, const WindowState&) = default;
};

using WindowStep = Step<WindowState>;

// Refused, with a message, unless limit and length are between 1 and 2^62 (a
// limit of 0 is allowed: it admits nothing).
Result<WindowShape> make_window(std::int64_t limit, Duration length) noexcept;
Result<WindowShape> make_calendar_window(std::int64_t limit, CalendarUnit unit) noexcept;

// The window that contains `now`.
constexpr TimeSpan window_around(const WindowShape& shape, Instant now) noexcept {
  if (shape.length_ns == 0) return calendar_span(shape.unit, now);
  const Instant begin{now.ns - now.ns % shape.length_ns};
  return {begin, begin + Duration{shape.length_ns}};
}
constexpr Instant window_begin(const WindowShape& shape, Instant now) noexcept {
  return window_around(shape, now).begin;
}
constexpr Instant window_end(const WindowShape& shape, Instant now) noexcept {
  return window_around(shape, now).end;
}

// The state at `now`, given the window around it: the count of that window.
constexpr WindowState advance(TimeSpan window, WindowState state, Instant now) noexcept {
  const bool is_new = state.count == 0 || window.begin > state.since;
  return is_new ? WindowState{later_of(now, state.since), 0} : state;
}
constexpr WindowState advance(const WindowShape& shape, WindowState state, Instant now) noexcept {
  return advance(window_around(shape, now), state, now);
}

// Units left; negative after the limit was lowered or an overage settled.
constexpr std::int64_t level(const WindowShape& shape, WindowState state, Instant now) noexcept {
  return shape.limit - advance(shape, state, now).count;  // neither exceeds 2^62
}

// Takes `cost` at `now`, or says when the next window begins.
// Requires cost >= 0 and now in [0, 2^62).
constexpr WindowStep take(const WindowShape& shape, WindowState state, Instant now,
                          std::int64_t cost) noexcept {
  const TimeSpan window = window_around(shape, now);
  WindowState after = advance(window, state, now);
  const std::int64_t left = shape.limit - after.count;  // neither exceeds 2^62
  if (cost > left && cost > 0) [[unlikely]] {
    const std::int64_t missing = saturating_sub(cost, left);
    if (cost > shape.limit) return {{Verdict::kNever, kForever, missing}, state};
    // A window that was charged at a later instant than `now` ends later.
    const Instant end = after.since < window.end ? window.end : window_end(shape, after.since);
    return {{Verdict::kDenied, end, missing}, state};
  }
  after.count += cost;
  return {{Verdict::kAllowed, now, 0}, cost > 0 ? after : state};
}

// Counts `cost` whatever is left.
constexpr WindowState debit(const WindowShape& shape, WindowState state, Instant now,
                            std::int64_t cost) noexcept {
  WindowState after = advance(shape, state, now);
  after.count = saturate(std::min(Wide{after.count} + cost, Wide{kTermMax}));
  return after;
}

// Gives back `amount` of what was taken at `charged`, if that is in the count and its window is the
// current one at `now`; otherwise changes nothing.
constexpr WindowState give_back(const WindowShape& shape, WindowState state, Instant now,
                                Instant charged, std::int64_t amount) noexcept {
  if (charged < state.since || window_begin(shape, now) > state.since) return state;
  state.count = std::max<std::int64_t>(0, state.count - amount);
  return state;
}

// What was used in the current window stays used in the new one that contains it. What was taken
// before that begins can no longer be given back.
constexpr WindowState reshape(const WindowShape& from, const WindowShape& to, WindowState state,
                              Instant now) noexcept {
  const WindowState current = advance(from, state, now);
  const Instant begin = window_begin(to, later_of(now, current.since));
  return {later_of(current.since, begin), current.count};
}

constexpr bool is_initial(const WindowShape& shape, WindowState state, Instant now) noexcept {
  return advance(shape, state, now).count == 0;
}

}  // namespace weir::meter
