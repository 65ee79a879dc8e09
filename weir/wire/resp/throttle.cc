#include "weir/wire/resp/throttle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "weir/base/time.h"

namespace weir::wire::resp {
namespace {

constexpr std::int64_t kMsPerSecond = 1'000;
constexpr std::size_t kEchoBytesMax = 64;  // of a bad argument, in the message about it

constexpr std::size_t kWordsMin = 4;
constexpr std::size_t kWordsMax = 5;

Error not_an_integer(std::string_view word) {
  return bad_argument(fmt::format("Cell error: Store error: Couldn't parse as integer: {}{}",
                                  word.substr(0, kEchoBytesMax),
                                  word.size() > kEchoBytesMax ? "..." : ""));
}

// A decimal number with nothing around it.
bool read_integer(std::string_view word, std::int64_t& value) noexcept {
  const char* const end = word.data() + word.size();
  const auto [stopped, failure] = std::from_chars(word.data(), end, value);
  return failure == std::errc{} && stopped == end;
}

Error below(std::string_view argument, std::int64_t found, int least, std::string_view write) {
  return bad_argument(fmt::format("BADARG {} is {}, but it must be {} or more; write {}", argument,
                                  found, least, write));
}

// As make_bucket(1, T, max_burst + 1), without its divisions: num is 1.
Result<meter::BucketShape> shape_of(std::int64_t max_burst, std::int64_t count,
                                    std::int64_t period_s) {
  if (count == 0 || period_s == 0) {
    return bad_argument("Cell error: Store error: Zero rates are not supported");
  }
  if (max_burst < 0) {
    return below("max_burst", max_burst, 0, "how many calls may pass at once beyond the first");
  }
  if (count < 0) return below("count", count, 1, "how many calls may pass per period");
  if (period_s < 0) return below("period", period_s, 1, "a number of seconds");

  // 2^63 * 10^9 is below 2^93, and divide() wants a quotient below 2^63.
  const Wide period_ns = Wide{period_s} * kNsPerSecond;
  if (period_ns < count) {
    return bad_argument(fmt::format(
        "BADARG count is {} in {} s, but at most one call may pass per nanosecond; write a count "
        "of at most {} or a longer period",
        count, period_s, static_cast<std::int64_t>(period_ns)));
  }
  const Wide limit = Wide{max_burst} + 1;
  const std::int64_t interval_ns =
      period_ns < Wide{count} * kTermMax ? divide(period_ns, count).quotient : kTermMax;
  if (limit * interval_ns >= kTermMax) {
    return bad_argument(fmt::format(
        "BADARG refilling a max_burst of {} at {} per {} s takes 2^62 ns (146 years) or more, "
        "which exact arithmetic does not cover; write a smaller max_burst or a higher rate",
        max_burst, count, period_s));
  }
  meter::BucketShape shape;
  shape.den = interval_ns;
  shape.burst = static_cast<std::int64_t>(limit);
  shape.fill = {shape.burst * interval_ns, 0};
  shape.unit = {interval_ns, 0};
  return shape;
}

}  // namespace

Result<ThrottleCall> read_throttle(std::span<const std::string_view> words) {
  if (words.size() < kWordsMin || words.size() > kWordsMax) {
    return bad_argument(
        "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> "
        "<period> [<quantity>]");
  }
  std::array<std::int64_t, kWordsMax - 1> numbers{0, 0, 0, 1};
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (!read_integer(words[i], numbers[i - 1])) return not_an_integer(words[i]);
  }
  const auto [max_burst, count, period_s, quantity] = numbers;
  Result<meter::BucketShape> shape = shape_of(max_burst, count, period_s);
  if (!shape) return std::move(shape).error();
  return ThrottleCall{words[0], *shape, quantity};
}

ThrottleReply reply_of(const ThrottleCall& call, const meter::BucketStep& step, Instant now,
                       Seconds seconds) noexcept {
  ThrottleReply reply;
  reply.limited = !step.allowed();
  reply.limit = call.shape.burst;
  // A call with a larger burst may have left more in use than this one's limit.
  reply.remaining = std::max<std::int64_t>(0, meter::level(call.shape, step.state, now));
  reply.retry_after_s = step.check.verdict == Verdict::kDenied
                            ? whole_seconds(step.check.earliest - now, seconds)
                            : -1;
  const Instant full_at = later_of(step.state.full_at, now);
  reply.reset_after_s = whole_seconds(full_at - now, seconds);
  return reply;
}

std::int64_t whole_seconds(Duration span, Seconds seconds) noexcept {
  const std::int64_t ns = span.count();
  if (seconds == Seconds::kCell) return ns / kNsPerSecond + (ns % kNsPerSecond > 0 ? 1 : 0);
  const std::int64_t ms = ns / kNsPerMs + (ns % kNsPerMs > 0 ? 1 : 0);
  return ms == 0 ? 0 : ms / kMsPerSecond + 1;
}

}  // namespace weir::wire::resp
