// Meter: any of the five, as the table keeps it.
//
// The table gives every meter 16 bytes of state, whatever its kind. These
// functions read those two words as the state of the shape at hand and forward
// to weir/meter; logs also need the shard's blocks. Nothing here decides anything.
//
//   Words words = initial_words(shape, now);           // a key that was never seen
//   if (check(shape, words, blocks, now, cost).allowed() && reserve(shape, words, blocks, now)) {
//     charge(shape, words, blocks, now, cost);
//   }
//
// Words mean something only together with the shape that they were made under; reshape()
// makes those of one shape into those of another.
//
// Thread safety: none; the shard's lock covers words and blocks.

#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <variant>

#include "weir/base/result.h"
#include "weir/engine/log_blocks.h"
#include "weir/engine/rules.h"
#include "weir/meter/bucket.h"
#include "weir/meter/log.h"
#include "weir/meter/slots.h"
#include "weir/meter/ticker.h"
#include "weir/meter/window.h"

namespace weir::engine {

using MeterShape = std::variant<meter::BucketShape, meter::TickerShape, meter::WindowShape,
                                meter::LogShape, meter::SlotsShape>;
using Words = std::array<std::uint64_t, 2>;

// The shape for a meter's parameters. Requires that `spec` is not a gate.
Result<MeterShape> make_shape(const MeterSpec& spec);

// The state of a key that was never seen. All zeros but for tickers, which have
// a phase.
Words initial_words(const MeterShape& shape, Instant now) noexcept;

// Whether `words` would come back the same if they were forgotten.
bool is_initial(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                Instant now) noexcept;

// An instant from which the meter is in its initial state if it is left alone.
Instant initial_from(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                     Instant now) noexcept;

// Whether `cost` fits at `now`, and if not, when. Takes nothing.
meter::Check check(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                   Instant now, std::int64_t cost) noexcept;

// What a meter said to a cost, and what is left of it then: a refusal takes nothing.
struct Taken {
  meter::Check check;
  std::int64_t left;
};

// Takes `cost` in one step, for a meter whose whole state is its words: any but logs and slots.
// Of a bucket, by far the most common:
inline Taken take(const meter::BucketShape& bucket, Words& words, Instant now,
                  std::int64_t cost) noexcept {
  const auto [check, state] =
      meter::take(bucket,
                  meter::BucketState{Instant{static_cast<std::int64_t>(words[0])},
                                     static_cast<std::int64_t>(words[1])},
                  now, cost);
  // Field by field, so that everything stays in registers: copied whole, a struct
  // is written in parts and read back at once, which stalls.
  words[0] = static_cast<std::uint64_t>(state.full_at.ns);
  words[1] = static_cast<std::uint64_t>(state.full_at_parts);
  // A refusal has already worked it out: the cost less what was missing.
  const std::int64_t left =
      check.allowed() ? meter::level(bucket, state, now) : cost - check.shortfall;
  return {{check.verdict, check.earliest, check.shortfall}, left};
}
// Of a ticker or a window:
template <typename State, typename Shape>
inline Taken take_as(const Shape& shape, Words& words, Instant now, std::int64_t cost) noexcept {
  const auto [check, state] = meter::take(shape, std::bit_cast<State>(words), now, cost);
  words = std::bit_cast<Words>(state);
  return {check, check.allowed() ? meter::level(shape, state, now) : cost - check.shortfall};
}
// Of any of the three:
[[gnu::always_inline]] inline Taken take_self_contained(const MeterShape& shape, Words& words,
                                                        Instant now, std::int64_t cost) noexcept {
  if (const auto* bucket = std::get_if<meter::BucketShape>(&shape)) {
    return take(*bucket, words, now, cost);
  }
  if (const auto* ticker = std::get_if<meter::TickerShape>(&shape)) {
    return take_as<meter::TickerState>(*ticker, words, now, cost);
  }
  return take_as<meter::WindowState>(*std::get_if<meter::WindowShape>(&shape), words, now, cost);
}
// The same, not inlined: for callers that have a bucket almost always.
Taken take_other(const MeterShape& shape, Words& words, Instant now, std::int64_t cost) noexcept;

// The same for a log in two steps. The first forgets what no longer counts, the second takes what
// it has allowed, once reserve() has made room.
inline Taken check_log(const meter::LogShape& log, Words& words, const LogBlocks& blocks,
                       Instant now, std::int64_t cost) noexcept {
  auto state = std::bit_cast<meter::LogState>(words);
  const meter::ConstLogRing ring = blocks.ring(state.block);
  state = meter::forget(log, state, ring, now);
  words = std::bit_cast<Words>(state);
  // Both are at most 2^62, and what is held may exceed the limit by as much.
  const std::int64_t left = log.limit - state.held;
  if (cost <= left) [[likely]]
    return {{Verdict::kAllowed, now, 0}, left - cost};
  const meter::Check check = meter::check(log, state, ring, now, cost);
  return {check, check.allowed() ? left - cost : cost - check.shortfall};
}
inline void charge_log(const meter::LogShape& log, Words& words, LogBlocks& blocks, Instant now,
                       std::int64_t cost) noexcept {
  if (cost == 0) return;
  const auto state = std::bit_cast<meter::LogState>(words);
  words = std::bit_cast<Words>(
      meter::remember(state, blocks.ring(state.block), meter::stamp(log, now), cost));
}

// Makes room for charge(). True: it will find room. False: the blocks are exhausted.
bool reserve_more(const meter::LogShape& log, Words& words, LogBlocks& blocks, Instant now);
inline bool reserve(const meter::LogShape& log, Words& words, LogBlocks& blocks, Instant now) {
  const auto state = std::bit_cast<meter::LogState>(words);
  return state.size < blocks.ring(state.block).size() || reserve_more(log, words, blocks, now);
}
inline bool reserve(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now) {
  const auto* log = std::get_if<meter::LogShape>(&shape);
  return log == nullptr || reserve(*log, words, blocks, now);
}

// Takes `cost`, which check() has just allowed, or any cost as an overage.
// Returns the instant under which it was charged, for give_back().
Instant charge(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
               std::int64_t cost) noexcept;

// Whether a start can be booked ahead: of meters whose state can tell from when on a cost fits, and
// remember it until then. A window counts the present one only, and work in slots ends when it
// ends.
inline bool can_book(const MeterShape& shape) noexcept;

// The first start from `from` on at which `cost` could be booked; kForever: none. Requires
// can_book() and from >= now.
Instant bookable_from(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                      Instant now, Instant from, std::int64_t cost) noexcept;

// Books `cost` at a start that bookable_from() gave, once reserve() has made room. Returns the
// instant under which it was charged, for give_back().
Instant book(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now, Instant start,
             std::int64_t cost) noexcept;

// Takes `cost` as an overage, as far as no more than `most` is owed afterwards. False: a part of
// it was clipped. Requires what charge() requires, and cost >= 0, most >= 0.
bool charge_overage(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
                    std::int64_t cost, std::int64_t most) noexcept;

// Gives back what was charged at `charged_at`, at most what is in use. Of a hold on a bucket or
// ticker less may come back: its ebbs say how much (internal/ebbs.h). Requires amount >= 0.
void give_back(const MeterShape& shape, Words& words, LogBlocks& blocks, Instant now,
               Instant charged_at, std::int64_t amount) noexcept;

// Units left, negative in debt.
std::int64_t level(const MeterShape& shape, const Words& words, const LogBlocks& blocks,
                   Instant now) noexcept;

// The most it can ever hold.
std::int64_t capacity(const MeterShape& shape) noexcept;

// A lower bound on when `cost` can pass if `ahead` units pass first.
Instant project(const MeterShape& shape, const Words& words, const LogBlocks& blocks, Instant now,
                std::int64_t ahead, std::int64_t cost) noexcept;

// The same use under another shape, of the same kind or another. Slots count
// what is in flight and the others what was spent, so between these nothing is kept.
Words reshape(const MeterShape& from, const MeterShape& to, const Words& words, LogBlocks& blocks,
              Instant now);

// Gives up what the words own outside the table.
void release(const MeterShape& shape, const Words& words, LogBlocks& blocks) noexcept;

// In the order of MeterShape. Stores write these numbers down.
enum class MeterKind : std::uint8_t { kBucket, kTicker, kWindow, kLog, kSlots };
inline MeterKind kind_of(const MeterShape& shape) noexcept {
  return static_cast<MeterKind>(shape.index());
}

inline bool is_log(const MeterShape& shape) noexcept {
  return std::holds_alternative<meter::LogShape>(shape);
}

inline bool is_slots(const MeterShape& shape) noexcept {
  return std::holds_alternative<meter::SlotsShape>(shape);
}

inline bool can_book(const MeterShape& shape) noexcept {
  return kind_of(shape) == MeterKind::kBucket || kind_of(shape) == MeterKind::kTicker ||
         is_log(shape);
}

// Whether the words alone say everything: no runs elsewhere, no holds to expire.
inline bool is_self_contained(const MeterShape& shape) noexcept {
  return !is_log(shape) && !is_slots(shape);
}

}  // namespace weir::engine
