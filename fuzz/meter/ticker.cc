#include "weir/meter/ticker.h"

#include "fuzz/meter/meters.h"

namespace weir::fuzz {
namespace {

using namespace weir::meter;

Result<TickerShape> any_shape(Input& input) {
  const std::int64_t per_tick = input.term();
  const Duration interval{input.term()};
  const std::int64_t burst = input.term();
  return make_ticker(per_tick, interval, burst,
                     input.choice(2) == 0 ? TickerStart::kFull : TickerStart::kEmpty);
}

// What holds for any state at any instant.
void require_sane(const TickerShape& shape, TickerState state, Instant now) {
  const TickerState current = advance(shape, state, now);
  require(level(shape, state, now) == current.tokens);
  require(current.tokens <= shape.burst);
  require(current.tokens >= -kTermMax);
  // Ticks never shift, and an earlier instant sees the last one again.
  require(current.last_tick >= state.last_tick);
  require((current.last_tick.ns - state.last_tick.ns) % shape.interval_ns == 0);
  require(next_tick(shape, state, now) > now);
  if (is_initial(shape, state, now)) require(current.tokens == shape.burst);
}

// Within half a nanosecond for each token of what was to be spread.
void spread_once(Duration period, std::int64_t amount) {
  const std::int64_t interval_ns = tick_interval_ns(period, amount);
  require(interval_ns >= 0);
  if (amount == 0) return require(interval_ns == 0);
  const Wide off = Wide{interval_ns} * amount - period.count();
  require((off < 0 ? -off : off) * 2 <= amount);
}

}  // namespace

void run_ticker(Input& input) {
  const Result<TickerShape> made = any_shape(input);
  if (!made) return;
  TickerShape shape = *made;
  Timeline time;
  TickerState state = initial_ticker(shape, time.next(input));
  while (!input.empty()) {
    const int call = input.choice(5);
    const Instant now = time.next(input);
    const std::int64_t left = level(shape, state, now);
    if (call == 0) {
      const std::int64_t cost = input.term();
      const TickerStep step = take(shape, state, now, cost);
      if (step.allowed()) {
        require(level(shape, step.state, now) == left - cost);
        require(cost == 0 || left >= cost);
      } else {
        require(step.state == state);
        require_refusal(step.check, now, [&](Instant at) { return take(shape, state, at, cost); });
        time.promise(step.check.earliest);
      }
      state = step.state;
    } else if (call == 1) {
      const std::int64_t cost = input.term();
      state = debit(shape, state, now, cost);
      require(level(shape, state, now) == std::max(Wide{left} - cost, -Wide{kTermMax}));
      time.promise(tick_of(shape, state, std::max<std::int64_t>(left, 0)));
    } else if (call == 2) {
      const std::int64_t amount = input.term();
      state = give_back(shape, state, now, amount);
      require(level(shape, state, now) == std::min(Wide{left} + amount, Wide{shape.burst}));
    } else if (call == 3) {
      const Duration period{input.term()};
      spread_once(period, input.term());
    } else if (const Result<TickerShape> other = any_shape(input)) {
      state = reshape(shape, *other, state, now);
      shape = *other;
      // Time that has passed since the last tick counts for the next; if that is due, it comes.
      require(level(shape, state, now) >= std::min(left, shape.burst));
    }
    require_sane(shape, state, now);
  }
}

}  // namespace weir::fuzz
