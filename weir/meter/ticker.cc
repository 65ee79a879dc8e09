#include "weir/meter/ticker.h"

#include <fmt/format.h>

namespace weir::meter {

Result<TickerShape> make_ticker(std::int64_t per_tick, Duration interval, std::int64_t burst,
                                TickerStart start) noexcept {
  if (interval.count() < 1 || interval.count() > kTermMax) {
    return bad_argument(fmt::format(
        "tick interval is {} ns, but it must be between 1 ns and 2^62 ns; write a duration such as "
        "'100ms'",
        interval.count()));
  }
  if (per_tick < 1 || per_tick > kTermMax) {
    return bad_argument(fmt::format(
        "a tick gains {}, but it must gain between 1 and 2^62; write at least 1", per_tick));
  }
  if (burst < per_tick || burst > kTermMax) {
    return bad_argument(fmt::format(
        "burst is {}, but it must be between one tick's gain ({}) and 2^62; write a {} burst",
        burst, per_tick, burst < per_tick ? "larger" : "smaller"));
  }
  if (ceil_div(burst, per_tick) * interval.count() >= kTermMax) {
    return bad_argument(fmt::format(
        "filling a burst of {} at {} per {} ns takes 2^62 ns (146 years) or more, which exact "
        "arithmetic does not cover; write a smaller burst or a shorter interval",
        burst, per_tick, interval.count()));
  }
  return TickerShape{interval.count(), per_tick, burst, start};
}

}  // namespace weir::meter
