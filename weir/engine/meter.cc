#include "weir/engine/meter.h"

#include <algorithm>
#include <type_traits>

namespace weir::engine {
namespace {

using meter::BucketShape;
using meter::BucketState;
using meter::LogShape;
using meter::SlotsShape;
using meter::TickerShape;
using meter::WindowShape;

template <typename Shape>
struct StateOf;
template <>
struct StateOf<BucketShape> {
  using type = meter::BucketState;
};
template <>
struct StateOf<TickerShape> {
  using type = meter::TickerState;
};
template <>
struct StateOf<WindowShape> {
  using type = meter::WindowState;
};
template <>
struct StateOf<LogShape> {
  using type = meter::LogState;
};
template <>
struct StateOf<SlotsShape> {
  using type = meter::SlotsState;
};

template <typename Shape>
typename StateOf<Shape>::type read(const Words& words) {
  return std::bit_cast<typename StateOf<Shape>::type>(words);
}

template <typename Shape>
constexpr bool kIsLog = std::is_same_v<Shape, LogShape>;
template <typename Shape>
constexpr bool kIsSlots = std::is_same_v<Shape, SlotsShape>;

// Calls `visitor` with the shape as its own type. Buckets, by far the most
// common, are tried first, without a jump table.
template <typename Visitor>
decltype(auto) visit(const MeterShape& shape, Visitor&& visitor) {
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) return visitor(*bucket);
  switch (shape.index()) {
    case 1:
      return visitor(*std::get_if<TickerShape>(&shape));
    case 2:
      return visitor(*std::get_if<WindowShape>(&shape));
    case 3:
      return visitor(*std::get_if<LogShape>(&shape));
    default:
      return visitor(*std::get_if<SlotsShape>(&shape));
  }
}

template <typename Shape>
Result<MeterShape> widen(Result<Shape> shape) {
  if (!shape) return std::move(shape).error();
  return MeterShape{*shape};
}

struct ShapeMaker {
  Result<MeterShape> operator()(const BucketSpec& spec) const {
    return widen(
        meter::make_bucket(spec.amount, spec.period, spec.burst == 0 ? spec.amount : spec.burst));
  }
  Result<MeterShape> operator()(const TickerSpec& spec) const {
    return widen(meter::make_ticker(spec.per_tick, spec.interval,
                                    spec.burst == 0 ? spec.per_tick : spec.burst, spec.start));
  }
  Result<MeterShape> operator()(const WindowSpec& spec) const {
    return widen(meter::make_window(spec.limit, spec.every));
  }
  Result<MeterShape> operator()(const CalendarSpec& spec) const {
    return widen(meter::make_calendar_window(spec.limit, spec.every));
  }
  Result<MeterShape> operator()(const LogSpec& spec) const {
    return widen(meter::make_log(spec.limit, spec.window));
  }
  Result<MeterShape> operator()(const SlotsSpec& spec) const {
    return widen(meter::make_slots(spec.limit, spec.queue, spec.hold));
  }
  Result<MeterShape> operator()(const GateRef&) const {
    return bad_argument("a gate has no meter");
  }
  Result<MeterShape> operator()(const std::shared_ptr<Gate>&) const {
    return bad_argument("a gate has no meter");
  }
};

bool is_later(const BucketState& a, const BucketState& b) {
  return a.full_at != b.full_at ? a.full_at > b.full_at : a.full_at_parts > b.full_at_parts;
}

// A bucket that owes `units`. What cannot be repaid before the end of time is owed as far ahead as
// can be told.
BucketState owing(const BucketShape& shape, Instant now, std::int64_t units) {
  const auto used = saturate(Wide{shape.burst} + units);
  const meter::BucketStep step = meter::debit(shape, BucketState{now, 0}, now, used);
  return step.allowed() ? step.state : BucketState{now + Duration{kTermMax}, 0};
}

// Units spent, for carrying them over to another kind of meter.
std::int64_t spent(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                   Instant now) {
  return saturating_sub(capacity(shape), level(shape, words, blocks, now));
}

// The k-th window after the one that contains `at`, k bounded for calendars.
Instant windows_later(const WindowShape& shape, Instant at, Wide windows) {
  constexpr int kCalendarStepsMax = 64;
  if (shape.length_ns > 0) {
    return Instant{saturate(Wide{meter::window_begin(shape, at).ns} + windows * shape.length_ns)};
  }
  for (int i = 0; i < kCalendarStepsMax && i < windows; ++i) at = meter::window_end(shape, at);
  return at;
}

// Of the last `limit` units at most that many pass in one window, so those before
// them passed a window earlier, and so on down to what fits at once.
Instant project_log(const LogShape& shape, const meter::LogState& state, meter::ConstLogRing ring,
                    Instant now, Wide wanted) {
  if (wanted <= 0) return now;
  if (shape.limit == 0) return kForever;
  const Wide windows = (wanted - 1) / shape.limit;
  const std::int64_t rest = saturate(wanted - windows * shape.limit);
  const Instant from = meter::check(shape, state, ring, now, rest).earliest;
  return Instant{saturate(Wide{from.ns} + windows * shape.window_ns)};
}

}  // namespace

Result<MeterShape> make_shape(const MeterSpec& spec) { return std::visit(ShapeMaker{}, spec); }

Words initial_words(const MeterShape& shape, Instant now) noexcept {
  if (const auto* ticker = std::get_if<TickerShape>(&shape)) {
    return std::bit_cast<Words>(meter::initial_ticker(*ticker, now));
  }
  return {};
}

bool is_initial(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                Instant now) noexcept {
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    const auto state = read<Shape>(words);
    if constexpr (kIsLog<Shape>) {
      return meter::is_initial(s, state, blocks.ring(state.block), now);
    } else if constexpr (kIsSlots<Shape>) {
      return meter::is_initial(state);
    } else if constexpr (std::is_same_v<Shape, BucketShape>) {
      return meter::is_initial(state, now);
    } else {
      return meter::is_initial(s, state, now);
    }
  });
}

Instant initial_from(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                     Instant now) noexcept {
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    const auto state = read<Shape>(words);
    if constexpr (std::is_same_v<Shape, BucketShape>) {
      return state.full_at;
    } else if constexpr (std::is_same_v<Shape, TickerShape>) {
      const meter::TickerStep full = meter::take(
          s, s.start == meter::TickerStart::kFull ? state : meter::empty_ticker(now), now, s.burst);
      return full.check.earliest;
    } else if constexpr (std::is_same_v<Shape, WindowShape>) {
      return meter::window_end(s, state.since);
    } else if constexpr (kIsLog<Shape>) {
      const std::int64_t used = meter::used(s, state, blocks.ring(state.block), now);
      if (used == 0) return now;
      return meter::newest(state, blocks.ring(state.block)) + Duration{s.window_ns};
    } else {
      return meter::is_initial(state) ? now : kForever;
    }
  });
}

meter::Check check(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                   Instant now, std::int64_t cost) noexcept {
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    const auto state = read<Shape>(words);
    if constexpr (kIsLog<Shape>) {
      return meter::check(s, state, blocks.ring(state.block), now, cost);
    } else {
      return meter::take(s, state, now, cost).check;
    }
  });
}

Taken take_other(const MeterShape& shape, Words& words, Instant now, std::int64_t cost) noexcept {
  return take_self_contained(shape, words, now, cost);
}

bool reserve_more(const LogShape& log, Words& words, LogBlocks& blocks, Instant now) {
  auto state = read<LogShape>(words);
  const std::uint32_t runs = meter::runs_needed(log, state, blocks.ring(state.block), now);
  const bool reserved = blocks.reserve(state, runs);
  words = std::bit_cast<Words>(state);
  return reserved;
}

Instant charge(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
               std::int64_t cost) noexcept {
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    auto state = read<Shape>(words);
    Instant charged_at = now;
    if constexpr (std::is_same_v<Shape, BucketShape>) {
      const meter::BucketStep step = meter::debit(s, state, now, cost);
      // What cannot be repaid before the end of time is owed as far ahead as can be told.
      state = step.allowed()
                  ? step.state
                  : meter::BucketState{later_of(state.full_at, now + Duration{kTermMax}), 0};
    } else if constexpr (std::is_same_v<Shape, TickerShape> || std::is_same_v<Shape, WindowShape>) {
      state = meter::debit(s, state, now, cost);
    } else if constexpr (kIsLog<Shape>) {
      charged_at = meter::stamp(s, now);
      state = meter::charge(s, state, blocks.ring(state.block), now, cost);
    } else {
      state.in_flight = saturate(Wide{state.in_flight} + cost);
    }
    words = std::bit_cast<Words>(state);
    return charged_at;
  });
}

Instant bookable_from(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                      Instant now, Instant from, std::int64_t cost) noexcept {
  meter::Check check{Verdict::kNever, kForever, cost};
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    check = meter::book(*bucket, read<BucketShape>(words), from, cost).check;
  } else if (const auto* ticker = std::get_if<TickerShape>(&shape)) {
    check = meter::book(*ticker, read<TickerShape>(words), now, from, cost).check;
  } else if (const auto* log = std::get_if<LogShape>(&shape)) {
    const auto state = read<LogShape>(words);
    check = meter::check(*log, state, blocks.ring(state.block), from, cost);
    if (check.earliest.ns > kInstantNsMax) return kForever;  // it has no stamp for that
  }
  return check.verdict == Verdict::kNever ? kForever : check.earliest;
}

Instant book(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now, Instant start,
             std::int64_t cost) noexcept {
  if (const auto* ticker = std::get_if<TickerShape>(&shape)) {
    words = std::bit_cast<Words>(
        meter::book(*ticker, read<TickerShape>(words), now, start, cost).state);
    return start;
  }
  if (const auto* log = std::get_if<LogShape>(&shape)) {
    if (cost == 0) return start;
    // What counts until the start is not forgotten before.
    auto state = read<LogShape>(words);
    const meter::LogRing ring = blocks.ring(state.block);
    const Instant stamp = meter::stamp(*log, start);
    state = meter::forget(*log, state, ring, now);
    words = std::bit_cast<Words>(meter::remember(state, ring, stamp, cost));
    return stamp;
  }
  return charge(shape, words, blocks, start, cost);
}

bool charge_overage(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
                    std::int64_t cost, std::int64_t most) noexcept {
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    const auto state = meter::settled(read<BucketShape>(words), now);
    const BucketState last = owing(*bucket, now, most);
    const meter::BucketStep step = meter::debit(*bucket, state, now, cost);
    const bool is_all = step.allowed() && !is_later(step.state, last);
    // It may owe more than that already: what is charged later may owe less.
    const BucketState clipped = is_later(state, last) ? state : last;
    words = std::bit_cast<Words>(is_all ? step.state : clipped);
    return is_all;
  }
  const Wide room = Wide{level(shape, words, blocks, now)} + most;
  const auto taken =
      static_cast<std::int64_t>(std::clamp(Wide{cost}, Wide{0}, std::max(room, Wide{0})));
  if (taken > 0) charge(shape, words, blocks, now, taken);
  return taken == cost;
}

void give_back(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
               Instant charged_at, std::int64_t amount) noexcept {
  visit(shape, [&]<typename Shape>(const Shape& s) {
    auto state = read<Shape>(words);
    if constexpr (std::is_same_v<Shape, WindowShape>) {
      state = meter::give_back(s, state, now, charged_at, amount);
    } else if constexpr (kIsLog<Shape>) {
      state = meter::give_back(state, blocks.ring(state.block), charged_at, amount);
    } else if constexpr (kIsSlots<Shape>) {
      state = meter::give_back(state, amount);
    } else {
      state = meter::give_back(s, state, now, amount);
    }
    words = std::bit_cast<Words>(state);
  });
}

std::int64_t level(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                   Instant now) noexcept {
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    const auto state = read<Shape>(words);
    if constexpr (kIsLog<Shape>) {
      return meter::level(s, state, blocks.ring(state.block), now);
    } else if constexpr (kIsSlots<Shape>) {
      return meter::level(s, state);
    } else {
      return meter::level(s, state, now);
    }
  });
}

std::int64_t capacity(const MeterShape& shape) noexcept {
  return visit(shape, []<typename Shape>(const Shape& s) {
    if constexpr (std::is_same_v<Shape, BucketShape> || std::is_same_v<Shape, TickerShape>) {
      return s.burst;
    } else {
      return s.limit;
    }
  });
}

Instant project(const MeterShape& shape, const Words& words, const LogBlocks& blocks, Instant now,
                std::int64_t ahead, std::int64_t cost) noexcept {
  const Wide wanted = Wide{ahead} + cost;
  return visit(shape, [&]<typename Shape>(const Shape& s) {
    const auto state = read<Shape>(words);
    if constexpr (std::is_same_v<Shape, BucketShape>) {
      const meter::BucketStep step = meter::debit(s, state, now, saturate(wanted));
      return step.check.earliest;
    } else if constexpr (std::is_same_v<Shape, TickerShape>) {
      const meter::TickerState current = meter::advance(s, state, now);
      const Wide missing = wanted - current.tokens;
      if (missing <= 0) return now;
      return Instant{
          saturate(Wide{current.last_tick.ns} + ceil_div(missing, s.per_tick) * s.interval_ns)};
    } else if constexpr (std::is_same_v<Shape, WindowShape>) {
      // What was used beyond the limit is not carried into the next window.
      const Wide missing = wanted - std::max<std::int64_t>(0, meter::level(s, state, now));
      if (missing <= 0) return now;
      if (s.limit == 0) return kForever;
      return windows_later(s, meter::advance(s, state, now).since, ceil_div(missing, s.limit));
    } else if constexpr (kIsLog<Shape>) {
      return project_log(s, state, blocks.ring(state.block), now, wanted);
    } else {
      return now;  // work may end at any moment
    }
  });
}

Words reshape(const MeterShape& from, const MeterShape& to, const Words& words, LogBlocks& blocks,
              Instant now) {
  if (from == to) return words;  // nothing to convert, so nothing to round
  // A meter in its initial state might have been forgotten an instant ago. So it becomes what a
  // key that was never seen has under the new shape.
  if (is_initial(from, words, blocks, now)) {
    release(from, words, blocks);
    return initial_words(to, now);
  }
  if (from.index() == to.index()) {
    return visit(to, [&]<typename Shape>(const Shape& s) {
      if constexpr (kIsSlots<Shape>) {
        return words;  // what is in flight means the same under any limit
      } else if constexpr (kIsLog<Shape>) {
        // Stamps mean the same under any limit, but those that no longer counted are
        // not called back by a longer window.
        const auto state = read<Shape>(words);
        return std::bit_cast<Words>(
            meter::forget(*std::get_if<Shape>(&from), state, blocks.ring(state.block), now));
      } else {
        return std::bit_cast<Words>(
            meter::reshape(*std::get_if<Shape>(&from), s, read<Shape>(words), now));
      }
    });
  }
  const std::int64_t units = is_slots(from) || is_slots(to)
                                 ? 0
                                 : std::max<std::int64_t>(0, spent(from, words, blocks, now));
  release(from, words, blocks);
  Words fresh = initial_words(to, now);
  if (units > 0 && reserve(to, fresh, blocks, now)) charge(to, fresh, blocks, now, units);
  return fresh;
}

void release(const MeterShape& shape, const Words& words, LogBlocks& blocks) noexcept {
  if (std::holds_alternative<LogShape>(shape)) blocks.release(read<LogShape>(words).block);
}

}  // namespace weir::engine
