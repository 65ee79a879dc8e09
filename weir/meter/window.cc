#include "weir/meter/window.h"

#include <fmt/format.h>

namespace weir::meter {
namespace {

Result<WindowShape> checked(WindowShape shape) {
  if (shape.limit < 0 || shape.limit > kTermMax) {
    return bad_argument(fmt::format(
        "window limit is {}, but it must be between 0 and 2^62; write how many units fit in one "
        "window",
        shape.limit));
  }
  return shape;
}

}  // namespace

Result<WindowShape> make_window(std::int64_t limit, Duration length) noexcept {
  if (length.count() < 1 || length.count() > kTermMax) {
    return bad_argument(fmt::format(
        "window length is {} ns, but it must be between 1 ns and 2^62 ns; write a duration such as "
        "'1m' or '1d'",
        length.count()));
  }
  return checked({limit, length.count(), CalendarUnit::kDay});
}

Result<WindowShape> make_calendar_window(std::int64_t limit, CalendarUnit unit) noexcept {
  return checked({limit, 0, unit});
}

}  // namespace weir::meter
