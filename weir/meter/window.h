// Window: at most `limit` units in each fixed window.
//
// Windows are aligned to the Unix epoch (any length) or to the UTC calendar
// (day, week, month, year). The count is sticky: it stays until the window turns,
// whenever the work ends, and can be given back only in the window that was
// charged.
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

// The window is named by its first instant.
struct WindowState {
  Instant begin{};
  std::int64_t count = 0;

  friend constexpr bool operator==(const WindowState&, const WindowState&) = default;
};

using WindowStep = Step<WindowState>;

// Refused, with a message, unless limit and length are between 1 and 2^62 (a
// limit of 0 is allowed: it admits nothing).
Result<WindowShape> make_window(std::int64_t limit, Duration length);
Result<WindowShape> make_calendar_window(std::int64_t limit, CalendarUnit unit);

constexpr Instant window_begin(const WindowShape& shape, Instant now) noexcept {
  // The week of the epoch began before it; no state is older than 0.
  if (shape.length_ns == 0) return later_of(calendar_span(shape.unit, now).begin, Instant{0});
  return Instant{now.ns - now.ns % shape.length_ns};
}

constexpr Instant window_end(const WindowShape& shape, Instant now) noexcept {
  if (shape.length_ns == 0) return calendar_span(shape.unit, now).end;
  return window_begin(shape, now) + Duration{shape.length_ns};
}

// The state at `now`: the count of the window that contains it.
constexpr WindowState advance(const WindowShape& shape, WindowState state, Instant now) noexcept {
  const Instant begin = window_begin(shape, now);
  return begin > state.begin ? WindowState{begin, 0} : state;
}

// Units left; negative after the limit was lowered or an overage settled.
constexpr std::int64_t level(const WindowShape& shape, WindowState state, Instant now) noexcept {
  return shape.limit - advance(shape, state, now).count;  // neither exceeds 2^62
}

// Takes `cost` at `now`, or says when the next window begins.
// Requires cost >= 0 and now in [0, 2^62).
constexpr WindowStep take(const WindowShape& shape, WindowState state, Instant now,
                          std::int64_t cost) noexcept {
  WindowState after = advance(shape, state, now);
  const std::int64_t left = shape.limit - after.count;  // neither exceeds 2^62
  if (cost > left && cost > 0) [[unlikely]] {
    const std::int64_t missing = saturating_sub(cost, left);
    if (cost > shape.limit) return {{Verdict::kNever, kForever, missing}, state};
    // Of the window around `now` that takes no other division. One charged under another
    // length, or at a later instant, may begin anywhere.
    const bool is_around_now = shape.length_ns != 0 && after.begin == window_begin(shape, now);
    const Instant end =
        is_around_now ? after.begin + Duration{shape.length_ns} : window_end(shape, after.begin);
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

// Gives `amount` back if the window that was charged, named by its first
// instant, is still the current one at `now`; otherwise changes nothing.
constexpr WindowState give_back(const WindowShape& shape, WindowState state, Instant now,
                                Instant charged, std::int64_t amount) noexcept {
  if (state.begin != charged || window_begin(shape, now) > charged) return state;
  state.count = std::max<std::int64_t>(0, state.count - amount);
  return state;
}

// What was used in the current window stays used in the new one that contains it.
constexpr WindowState reshape(const WindowShape& from, const WindowShape& to, WindowState state,
                              Instant now) noexcept {
  const WindowState current = advance(from, state, now);
  return {window_begin(to, later_of(now, current.begin)), current.count};
}

constexpr bool is_initial(const WindowShape& shape, WindowState state, Instant now) noexcept {
  return advance(shape, state, now).count == 0;
}

}  // namespace weir::meter
