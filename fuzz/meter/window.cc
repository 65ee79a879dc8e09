#include "weir/meter/window.h"

#include "fuzz/meter/meters.h"

namespace weir::fuzz {
namespace {

using namespace weir::meter;

Result<WindowShape> any_shape(Input& input) {
  const int unit = input.choice(5);
  const std::int64_t limit = input.term();
  if (unit == 4) return make_window(limit, Duration{input.term()});
  return make_calendar_window(limit, static_cast<CalendarUnit>(unit));
}

// What holds for any state at any instant.
void require_sane(const WindowShape& shape, WindowState state, Instant now) {
  const std::int64_t left = level(shape, state, now);
  require(left <= shape.limit);
  require(left >= shape.limit - kTermMax);
  require(is_initial(shape, state, now) == (left == shape.limit));
  require(window_begin(shape, now) <= now);
  require(window_end(shape, now) > now);
  const WindowState current = advance(shape, state, now);
  require(advance(shape, current, now) == current);
  require(level(shape, current, now) == left);
}

WindowState take_once(const WindowShape& shape, WindowState state, Timeline& time, Instant now,
                      std::int64_t cost) {
  const std::int64_t left = level(shape, state, now);
  const WindowStep step = take(shape, state, now, cost);
  if (!step.allowed()) {
    require(step.state == state);
    require_refusal(step.check, now, [&](Instant at) { return take(shape, state, at, cost); });
    time.promise(step.check.earliest);
    return state;
  }
  require(level(shape, step.state, now) == left - cost);
  require(cost == 0 || left >= cost);
  if (now == time.latest()) {
    // Nobody came from later, so it can be given back at once.
    require(level(shape, give_back(shape, step.state, now, now, cost), now) == left);
  }
  return step.state;
}

}  // namespace

void run_window(Input& input) {
  const Result<WindowShape> made = any_shape(input);
  if (!made) return;
  WindowShape shape = *made;
  WindowState state;
  Instant charged;
  Timeline time;
  while (!input.empty()) {
    const int call = input.choice(5);
    const Instant now = time.next(input);
    const std::int64_t left = level(shape, state, now);
    if (call == 0) {
      state = take_once(shape, state, time, now, input.term());
      charged = now;
    } else if (call == 1) {
      const std::int64_t cost = input.term();
      state = debit(shape, state, now, cost);
      // What is used is cut off at 2^62.
      const Wide used = std::min(Wide{shape.limit} - left + cost, Wide{kTermMax});
      require(level(shape, state, now) == shape.limit - used);
      charged = now;
    } else if (call == 2 || call == 3) {
      if (call == 3) charged = Instant{std::min(input.term(), kInstantNsMax)};
      const std::int64_t amount = input.term();
      const WindowState after = give_back(shape, state, now, charged, amount);
      const std::int64_t now_left = level(shape, after, now);
      require(now_left == left || now_left == std::min(Wide{left} + amount, Wide{shape.limit}));
      if (window_begin(shape, now) > charged) require(after == state);
      state = after;
    } else if (const Result<WindowShape> other = any_shape(input)) {
      state = reshape(shape, *other, state, now);
      require(other->limit - level(*other, state, now) == shape.limit - left);
      shape = *other;
    }
    require_sane(shape, state, now);
  }
}

}  // namespace weir::fuzz
