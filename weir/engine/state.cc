#include "weir/engine/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "weir/base/integer.h"

namespace weir::engine {
namespace {

using meter::BucketShape;
using meter::LogShape;
using meter::SlotsShape;
using meter::TickerShape;
using meter::WindowShape;

template <typename Shape>
Result<MeterShape> same_as(Result<Shape> made, const ShapeRecord& record) {
  if (made && record_of(MeterShape{*made}) == record) return MeterShape{*made};
  return bad_argument(fmt::format("a meter of kind {} cannot have the terms {}, {}, {}, {}",
                                  static_cast<int>(record.kind), record.terms[0], record.terms[1],
                                  record.terms[2], record.terms[3]));
}

Instant back_by(Instant at, std::int64_t ahead_ns) {
  return later_of(at - Duration{ahead_ns}, Instant{0});
}

}  // namespace

ShapeRecord record_of(const MeterShape& shape) noexcept {
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    return {MeterKind::kBucket, {bucket->num, bucket->den, bucket->burst, 0}};
  }
  if (const auto* ticker = std::get_if<TickerShape>(&shape)) {
    return {MeterKind::kTicker,
            {ticker->interval_ns, ticker->per_tick, ticker->burst,
             static_cast<std::int64_t>(ticker->start)}};
  }
  if (const auto* window = std::get_if<WindowShape>(&shape)) {
    return {MeterKind::kWindow,
            {window->limit, window->length_ns, static_cast<std::int64_t>(window->unit), 0}};
  }
  if (const auto* log = std::get_if<LogShape>(&shape)) {
    return {MeterKind::kLog, {log->limit, log->window_ns, log->grain_ns, 0}};
  }
  const auto& slots = *std::get_if<SlotsShape>(&shape);
  return {MeterKind::kSlots, {slots.limit, slots.queue, slots.hold_ns, 0}};
}

Result<MeterShape> shape_of(const ShapeRecord& record) {
  const auto& [a, b, c, d] = record.terms;
  switch (record.kind) {
    case MeterKind::kBucket:
      return same_as(meter::make_bucket(a, Duration{b}, c), record);
    case MeterKind::kTicker:
      return same_as(
          meter::make_ticker(b, Duration{a}, c,
                             d == 0 ? meter::TickerStart::kFull : meter::TickerStart::kEmpty),
          record);
    case MeterKind::kWindow:
      if (b > 0) return same_as(meter::make_window(a, Duration{b}), record);
      if (c < 0 || c > static_cast<std::int64_t>(meter::CalendarUnit::kYear)) break;
      return same_as(meter::make_calendar_window(a, static_cast<meter::CalendarUnit>(c)), record);
    case MeterKind::kLog:
      return same_as(meter::make_log(a, Duration{b}), record);
    case MeterKind::kSlots:
      return same_as(meter::make_slots(a, b, Duration{c}), record);
  }
  return same_as(Result<SlotsShape>(Error{}), record);
}

void MeterChanges::clear() {
  rows.clear();
  meters.clear();
  runs.clear();
  places.clear();
}

bool is_sound(const MeterShape& shape, const MeterRecord& record,
              std::span<const meter::LogRun> runs) noexcept {
  if (!runs.empty() && !is_log(shape)) return false;
  if (const auto* bucket = std::get_if<BucketShape>(&shape)) {
    const auto state = std::bit_cast<meter::BucketState>(record.words);
    return state.full_at.ns >= 0 && state.full_at_parts >= 0 && state.full_at_parts < bucket->num;
  }
  if (std::holds_alternative<TickerShape>(shape)) {
    const auto state = std::bit_cast<meter::TickerState>(record.words);
    return state.last_tick.ns >= 0 && state.last_tick.ns <= kInstantNsMax &&
           state.tokens >= -kTermMax && state.tokens <= kTermMax;
  }
  if (std::holds_alternative<WindowShape>(shape)) {
    const auto state = std::bit_cast<meter::WindowState>(record.words);
    return state.since.ns >= 0 && state.since.ns <= kInstantNsMax && state.count >= 0 &&
           state.count <= kTermMax;
  }
  if (runs.size() > meter::kRunsMax) return false;
  Instant before{-1};
  Wide held = 0;
  for (const meter::LogRun& run : runs) {
    if (run.at <= before || run.units < 1) return false;
    before = run.at;
    held += run.units;
  }
  return held <= kTermMax && before.ns <= kTermMax + kTermMax / 2;  // stamps are rounded up
}

bool is_forgettable(const MeterShape& shape, const MeterRecord& record,
                    std::span<const meter::LogRun> runs, Instant now) noexcept {
  if (record.overridden) return false;
  if (is_slots(shape)) return true;  // what is in flight is known from the holds
  if (const auto* log = std::get_if<LogShape>(&shape)) {
    return runs.empty() || Wide{runs.back().at.ns} + log->window_ns <= now.ns;
  }
  static const LogBlocks no_blocks(0);
  return is_initial(shape, record.words, no_blocks, now);
}

std::uint32_t HoldChanges::place_of(std::string_view name) {
  // A handful of limits and units, and the last ones are the likeliest.
  for (std::size_t i = names.size(); i > 0; --i) {
    if (names[i - 1] == name) return static_cast<std::uint32_t>(i - 1);
  }
  names.emplace_back(name);
  return static_cast<std::uint32_t>(names.size() - 1);
}

RestoreReport& RestoreReport::operator+=(const RestoreReport& other) noexcept {
  meters += other.meters;
  initial += other.initial;
  skipped += other.skipped;
  no_room += other.no_room;
  moved += other.moved;
  holds += other.holds;
  expired += other.expired;
  return *this;
}

void move_back(const MeterShape& shape, MeterRecord& record, std::vector<meter::LogRun>& runs,
               Instant as_of, Instant now) {
  const std::int64_t ahead_ns = as_of.ns - now.ns;
  if (std::holds_alternative<BucketShape>(shape)) {
    auto state = std::bit_cast<meter::BucketState>(record.words);
    if (state.full_at <= now) return;
    state.full_at = back_by(state.full_at, ahead_ns);
    record.words = std::bit_cast<Words>(state);
  } else if (const auto* ticker = std::get_if<TickerShape>(&shape)) {
    auto state = std::bit_cast<meter::TickerState>(record.words);
    state = meter::advance(*ticker, state, as_of);
    if (state.last_tick > now) {
      // Rounded up to whole ticks, so that the last one is not after `now`.
      const Wide ticks = ceil_div(Wide{state.last_tick.ns} - now.ns, ticker->interval_ns);
      const Wide last_ns = Wide{state.last_tick.ns} - ticks * ticker->interval_ns;
      state.last_tick = Instant{saturate(std::max(last_ns, Wide{0}))};
    }
    record.words = std::bit_cast<Words>(state);
  } else if (const auto* window = std::get_if<WindowShape>(&shape)) {
    auto state = meter::advance(*window, std::bit_cast<meter::WindowState>(record.words), as_of);
    state.since = now;
    record.words = std::bit_cast<Words>(state);
  } else if (const auto* log = std::get_if<LogShape>(&shape)) {
    std::vector<meter::LogRun> moved;
    for (const meter::LogRun& run : runs) {
      // What was booked then is still to come.
      const bool is_booked = run.at > meter::stamp(*log, as_of);
      const Instant then = back_by(run.at, ahead_ns);
      const Instant at = meter::stamp(*log, is_booked ? then : earlier_of(now, then));
      if (moved.empty() || moved.back().at != at) {
        moved.push_back({at, run.units});
      } else {
        moved.back().units += run.units;  // the sum of all runs fits
      }
    }
    runs = std::move(moved);
  }
}

}  // namespace weir::engine
