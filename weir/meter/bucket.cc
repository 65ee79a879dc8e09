#include "weir/meter/bucket.h"

#include <fmt/format.h>

#include <numeric>

namespace weir::meter {

Result<BucketShape> make_bucket(std::int64_t amount, Duration period, std::int64_t burst) noexcept {
  if (amount < 1 || amount > kTermMax) {
    return bad_argument(fmt::format(
        "rate amount is {}, but it must be between 1 and 2^62; write a rate such as '100/s'",
        amount));
  }
  if (period.count() < 1 || period.count() > kTermMax) {
    return bad_argument(fmt::format(
        "rate period is {} ns, but it must be between 1 ns and 2^62 ns; write a duration such as "
        "'1s' or '15m'",
        period.count()));
  }
  if (burst < 1 || burst > kTermMax) {
    return bad_argument(fmt::format(
        "burst is {}, but it must be between 1 and 2^62; write at least the largest cost of one "
        "request",
        burst));
  }
  const std::int64_t common = std::gcd(amount, period.count());
  BucketShape shape;
  shape.num = amount / common;
  shape.den = period.count() / common;
  shape.burst = burst;
  if (Wide{burst} * shape.den / shape.num >= kTermMax) {
    return bad_argument(fmt::format(
        "filling a burst of {} at {} per {} ns takes 2^62 ns (146 years) or more, which exact "
        "arithmetic does not cover; write a smaller burst or a higher rate",
        burst, amount, period.count()));
  }
  const Division fill = divide(Wide{burst} * shape.den, shape.num);
  shape.fill = {fill.quotient, fill.remainder};
  shape.unit = {shape.den / shape.num, shape.den % shape.num};
  return shape;
}

Result<Step<TimedBucket>> take_strictly(const BucketShape& shape, TimedBucket timed, Instant now,
                                        std::int64_t cost) noexcept {
  if (now < timed.charged_at) {
    return bad_argument(fmt::format(
        "time is {} ns, but this bucket was already charged at {} ns; pass instants that never "
        "decrease",
        now.ns, timed.charged_at.ns));
  }
  return take(shape, timed, now, cost);
}

}  // namespace weir::meter
