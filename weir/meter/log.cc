#include "weir/meter/log.h"

#include <fmt/format.h>

#include "weir/base/time.h"

namespace weir::meter {

Result<LogShape> make_log(std::int64_t limit, Duration window) noexcept {
  if (limit < 0 || limit > kTermMax) {
    return bad_argument(fmt::format(
        "log limit is {}, but it must be between 0 and 2^62; write how many units any window may "
        "hold",
        limit));
  }
  if (window.count() < 1 || window.count() > kTermMax / 2) {
    return bad_argument(fmt::format(
        "log window is {} ns, but it must be between 1 ns and 2^61 ns; write a duration such as "
        "'1h'",
        window.count()));
  }
  const bool exact = limit <= std::int64_t{kRunsMax};
  auto grain_ns = static_cast<std::int64_t>(ceil_div(window.count(), kRunsMax - 2));
  // In whole microseconds, if it is as long as one: a store whose clock is no finer stamps
  // the same.
  if (grain_ns >= kNsPerUs) {
    grain_ns = static_cast<std::int64_t>(ceil_div(grain_ns, kNsPerUs)) * kNsPerUs;
  }
  return LogShape{limit, window.count(), exact ? 1 : grain_ns};
}

}  // namespace weir::meter
