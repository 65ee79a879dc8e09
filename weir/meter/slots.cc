#include "weir/meter/slots.h"

#include <fmt/format.h>

namespace weir::meter {

constexpr std::int64_t kQueueMax = std::int64_t{1} << 31;
constexpr std::int64_t kHoldNsMax = std::int64_t{1} << 61;

Result<SlotsShape> make_slots(std::int64_t limit, std::int64_t queue, Duration hold) noexcept {
  if (limit < 0 || limit > kTermMax) {
    return bad_argument(fmt::format(
        "slots limit is {}, but it must be between 0 and 2^62; write how many may run at once",
        limit));
  }
  if (queue < 0 || queue > kQueueMax) {
    return bad_argument(fmt::format(
        "slots queue is {}, but it must be between 0 and 2^31; write how many may wait", queue));
  }
  if (hold.count() < 1 || hold.count() > kHoldNsMax) {
    return bad_argument(fmt::format(
        "slots hold is {} ns, but it must be between 1 ns and 2^61 ns; write how long work may run "
        "before its slot is taken back, such as '60s'",
        hold.count()));
  }
  return SlotsShape{limit, queue, hold.count()};
}

}  // namespace weir::meter
