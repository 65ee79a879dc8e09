#include "weir/store/redis/shared/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "weir/engine/quantity.h"
#include "weir/meter/calendar.h"

namespace weir::store::redis {
namespace {

using meter::BucketShape;
using meter::LogShape;
using meter::SlotsShape;
using meter::TickerShape;
using meter::WindowShape;

// What a nanosecond's rate and a microsecond's have in common: gcd(1000*num, den), which
// is gcd(1000, den) because num and den have no divisor in common.
std::int64_t common_divisor(const BucketShape& shape) { return std::gcd(kNsPerUs, shape.den); }

struct MicroRate {
  std::int64_t num = 1;
  std::int64_t den = 1;
};

// Requires num <= 2^52.
MicroRate micro_rate(const BucketShape& shape) {
  const std::int64_t common = common_divisor(shape);
  return {shape.num * (kNsPerUs / common), shape.den / common};
}

struct MicroSpan {
  std::int64_t us = 0;
  std::int64_t parts = 0;
};

// How long `units` take to refill, at most 2^52 us: more is 142 years.
MicroSpan micro_span(const BucketShape& shape, std::int64_t units) {
  const MicroRate rate = micro_rate(shape);
  // Both factors are at most 2^62.
  const Wide total = Wide{units} * rate.den;
  if (total / rate.num >= kSharedTermMax) return {kSharedTermMax, 0};
  const Division division = divide(total, rate.num);
  return {division.quotient, division.remainder};
}

// Of what a script has, at most 2^53 either way, so that a thousand times it fits.
constexpr std::int64_t kScriptNumberMax = std::int64_t{1} << 53;

meter::BucketState in_ns(const BucketShape& shape, SharedState state) {
  // The fraction is second/num' us = second*common/num ns, below 1000 ns.
  const std::int64_t parts = std::max<std::int64_t>(0, state.second);
  const Division division = divide(Wide{parts} * common_divisor(shape), shape.num);
  return {Instant{saturating_add(state.first * kNsPerUs, division.quotient)}, division.remainder};
}

Instant from_us(std::int64_t us) { return us < 0 ? kForever : Instant{us * kNsPerUs}; }

// Of a charge or a tick: calendars know no later one.
Instant charged_at(std::int64_t us) { return earlier_of(from_us(us), Instant{kInstantNsMax}); }

Error not_whole(std::string_view what, std::int64_t ns) {
  return bad_argument(fmt::format(
      "{} is {}, but a shared limit is decided on the clock of Redis, in microseconds; write a "
      "whole number of microseconds",
      what, engine::duration_text(Duration{ns})));
}

Error too_large(std::string_view what) {
  return bad_argument(fmt::format(
      "{} exceeds 2^52, the most that a shared limit can count exactly; write a smaller one",
      what));
}

struct Checker {
  Status operator()(const BucketShape& shape) const {
    // First, so that the product below cannot overflow.
    if (shape.num > kSharedTermMax || micro_rate_is_large(shape)) {
      return bad_argument(
          "the rate is too fine or too fast for a shared limit: in lowest terms its amount a "
          "microsecond exceeds 2^52; write a rounder rate");
    }
    if (shape.fill.ns / kNsPerUs >= kSharedTermMax / 2)
      return too_large("the time to fill, in us,");
    return weir::Done{};
  }
  Status operator()(const TickerShape& shape) const {
    if (shape.interval_ns % kNsPerUs != 0) return not_whole("interval", shape.interval_ns);
    if (shape.burst > kSharedTermMax) return too_large("the burst");
    return weir::Done{};
  }
  Status operator()(const WindowShape& shape) const {
    if (shape.length_ns % kNsPerUs != 0) return not_whole("the window", shape.length_ns);
    if (shape.limit > kSharedTermMax) return too_large("the limit");
    return weir::Done{};
  }
  Status operator()(const LogShape& shape) const {
    if (shape.window_ns % kNsPerUs != 0) return not_whole("the window", shape.window_ns);
    if (shape.grain_ns != 1 && shape.grain_ns % kNsPerUs != 0) {
      return bad_argument(fmt::format(
          "more than {} units in {} need stamps finer than a microsecond, which a shared limit "
          "does not have; write a longer window or a smaller limit",
          meter::kRunsMax, engine::duration_text(Duration{shape.window_ns})));
    }
    if (shape.limit > kSharedTermMax) return too_large("the limit");
    return weir::Done{};
  }
  Status operator()(const SlotsShape& shape) const {
    if (shape.limit > kSharedTermMax) return too_large("the limit");
    return weir::Done{};
  }

 private:
  static bool micro_rate_is_large(const BucketShape& shape) {
    return Wide{shape.num} * (kNsPerUs / common_divisor(shape)) > kSharedTermMax;
  }
};

using Numbers = std::array<std::int64_t, 6>;

// Any cost above the limit is refused, so one more than the limit stands for it:
// what scripts add up stays exact.
std::int64_t within(std::int64_t cost, std::int64_t limit) { return std::min(cost, limit + 1); }

struct NumberMaker {
  std::int64_t cost;
  Instant about;
  bool is_bounded;  // false: an amount to settle, which may exceed the limit

  Numbers operator()(const BucketShape& shape) const {
    const MicroSpan span = micro_span(shape, is_bounded ? within(cost, shape.burst) : cost);
    const MicroSpan fill = micro_span(shape, shape.burst);
    return {span.us, span.parts, fill.us, fill.parts, micro_rate(shape).num};
  }
  Numbers operator()(const TickerShape& shape) const {
    return {amount(shape.burst), shape.burst, shape.interval_ns / kNsPerUs, shape.per_tick,
            shape.start == meter::TickerStart::kEmpty ? 1 : 0};
  }
  Numbers operator()(const WindowShape& shape) const {
    if (shape.length_ns > 0) return {amount(shape.limit), shape.limit, shape.length_ns / kNsPerUs};
    // The windows before, around and after: the clock of Redis need not agree with ours.
    const meter::TimeSpan now = meter::calendar_span(shape.unit, about);
    const Instant before = now.begin.ns <= 0
                               ? now.begin
                               : meter::calendar_span(shape.unit, now.begin - Duration{1}).begin;
    const Instant after = meter::calendar_span(shape.unit, now.end).end;
    return {amount(shape.limit),
            shape.limit,
            std::max<std::int64_t>(0, before.ns) / kNsPerUs,
            std::max<std::int64_t>(0, now.begin.ns) / kNsPerUs,
            now.end.ns / kNsPerUs,
            after.ns / kNsPerUs};
  }
  Numbers operator()(const LogShape& shape) const {
    return {amount(shape.limit), shape.limit, shape.window_ns / kNsPerUs,
            std::max<std::int64_t>(1, shape.grain_ns / kNsPerUs)};
  }
  Numbers operator()(const SlotsShape& shape) const {
    return {amount(shape.limit), shape.limit, ceil_us(shape.hold_ns)};
  }

 private:
  std::int64_t amount(std::int64_t limit) const {
    return is_bounded ? within(cost, limit) : std::min(cost, kSharedTermMax);
  }
  static std::int64_t ceil_us(std::int64_t ns) {
    return std::min(kSharedTermMax, ns / kNsPerUs + (ns % kNsPerUs != 0 ? 1 : 0));
  }
};

void append_double(std::string& out, std::int64_t value) {
  // Exact: at most 2^53. Big-endian, as the scripts read it.
  auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
  std::array<char, 8> bytes;
  for (std::size_t i = bytes.size(); i-- > 0; bits >>= 8) bytes[i] = static_cast<char>(bits & 0xff);
  out.append(bytes.data(), bytes.size());
}

template <typename Shape, typename State>
SharedCheck taken(const Shape& shape, const State& state, Instant now, std::int64_t cost) {
  const auto step = meter::take(shape, state, now, cost);
  return {step.check, meter::level(shape, state, now), meter::level(shape, step.state, now)};
}

struct Judge {
  SharedState state;
  Instant now;
  std::int64_t cost;

  SharedCheck operator()(const BucketShape& shape) const {
    return taken(shape, in_ns(shape, state), now, cost);
  }
  SharedCheck operator()(const TickerShape& shape) const {
    return taken(shape, meter::TickerState{state.first, charged_at(state.second)}, now, cost);
  }
  SharedCheck operator()(const WindowShape& shape) const {
    return taken(shape, meter::WindowState{charged_at(state.first), state.second}, now, cost);
  }
  SharedCheck operator()(const LogShape& shape) const {
    const std::int64_t left = shape.limit - state.first;
    const Wide missing = Wide{cost} - left;
    if (cost > shape.limit) return {{Verdict::kNever, kForever, saturate(missing)}, left, left};
    if (missing <= 0 || cost == 0) {
      return {{Verdict::kAllowed, now, 0}, left, left - cost};
    }
    return {{Verdict::kDenied, from_us(state.second), saturate(missing)}, left, left};
  }
  SharedCheck operator()(const SlotsShape& shape) const {
    const meter::SlotsState held{state.first, 0};
    const meter::SlotsStep step = meter::take(shape, held, now, cost);
    return {step.check, meter::level(shape, held), meter::level(shape, step.state)};
  }
};

}  // namespace

std::int64_t whole_us(Duration ttl) {
  return std::clamp<std::int64_t>(ttl.count() / kNsPerUs, 1, kSharedTermMax / 2);
}

Status check_shareable(const engine::MeterShape& shape) { return std::visit(Checker{}, shape); }

char kind_of(const engine::MeterShape& shape) {
  constexpr std::array<char, 5> kKinds = {'b', 't', 'w', 'l', 's'};
  return kKinds[shape.index()];
}

void append_blob(std::string& out, const engine::MeterShape& shape, std::int64_t cost, char flag,
                 Instant about) {
  const auto* window = std::get_if<WindowShape>(&shape);
  const bool is_calendar = window != nullptr && window->length_ns == 0;
  const bool is_bounded = flag != '+' && flag != '-';
  out += is_calendar ? 'c' : kind_of(shape);
  out += flag;
  for (const std::int64_t number : std::visit(NumberMaker{cost, about, is_bounded}, shape)) {
    append_double(out, number);
  }
}

void append_debt(std::string& out, const engine::MeterShape& shape, std::int64_t overage) {
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    // Both are at most 2^62.
    const MicroSpan span = micro_span(*bucket, saturate(Wide{bucket->burst} + overage));
    append_double(out, span.us);
    append_double(out, span.parts);
    return;
  }
  append_double(out, std::min(overage, kSharedTermMax));
  append_double(out, 0);
}

void append_amount(std::string& out, const engine::MeterShape& shape, std::int64_t units) {
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    const MicroSpan span = micro_span(*bucket, within(units, bucket->burst));
    append_double(out, span.us);
    append_double(out, span.parts);
    return;
  }
  append_double(out, within(units, engine::capacity(shape)));
  append_double(out, 0);
}

std::int64_t read_double(std::string_view bytes) {
  std::uint64_t bits = 0;
  for (const char byte : bytes.substr(0, 8)) bits = bits << 8 | static_cast<unsigned char>(byte);
  const double number = std::bit_cast<double>(bits);
  // Scripts stay below 2^53; anything else, which no script of ours gives, is no number.
  constexpr double kMost = 1LL << 62;
  return number > -kMost && number < kMost ? static_cast<std::int64_t>(number) : -1;
}

std::optional<Instant> instant_of(std::int64_t us) {
  if (us < 0 || us > kInstantNsMax / kNsPerUs) return std::nullopt;
  return Instant{us * kNsPerUs};
}

SharedCheck judge(const engine::MeterShape& shape, SharedState state, Instant now,
                  std::int64_t cost) {
  const auto exact = [](std::int64_t number) {
    return std::clamp(number, -kScriptNumberMax, kScriptNumberMax);
  };
  return std::visit(Judge{{exact(state.first), exact(state.second)}, now, cost}, shape);
}

}  // namespace weir::store::redis
