// Slots: how much may be in flight at once.
//
// Units are taken when work starts and given back when it ends, or when its
// hold expires (the engine keeps the holds). A bounded number of units may queue
// behind a full limit, first come first served; beyond that is `overloaded`.
// Lowering the limit below what is in flight leaves a debt: nothing starts until
// enough has ended.
//
// When a full limit frees is not known, so the earliest instant of a refusal is
// kForever: "unknown", unlike `never`.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/step.h"

namespace weir::meter {

struct SlotsShape {
  std::int64_t limit = 1;    // units in flight
  std::int64_t queue = 0;    // requests that may wait
  std::int64_t hold_ns = 1;  // how long an admission lasts that is not ended

  friend constexpr bool operator==(const SlotsShape&, const SlotsShape&) = default;
};

struct SlotsState {
  std::int64_t in_flight = 0;
  std::int64_t queued = 0;

  friend constexpr bool operator==(const SlotsState&, const SlotsState&) = default;
};

using SlotsStep = Step<SlotsState>;

// Refused, with a message, unless limit is 0..2^62, queue 0..2^31 and the hold
// between 1 ns and 2^61 ns.
Result<SlotsShape> make_slots(std::int64_t limit, std::int64_t queue, Duration hold) noexcept;

// Units free; negative while a lowered limit waits for work to end.
constexpr std::int64_t level(const SlotsShape& shape, SlotsState state) noexcept {
  return shape.limit - state.in_flight;
}

// Takes `cost` units if they are free. Requires cost >= 0.
constexpr SlotsStep take(const SlotsShape& shape, SlotsState state, Instant now,
                         std::int64_t cost) noexcept {
  const Wide missing = Wide{state.in_flight} + cost - shape.limit;
  if (cost > shape.limit) return {{Verdict::kNever, kForever, saturate(missing)}, state};
  if (missing > 0 && cost > 0) return {{Verdict::kDenied, kForever, saturate(missing)}, state};
  state.in_flight += cost;
  return {{Verdict::kAllowed, now, 0}, state};
}

// One more request waits, unless the queue is full: then kOverloaded.
constexpr SlotsStep enqueue(const SlotsShape& shape, SlotsState state) noexcept {
  if (state.queued >= shape.queue) return {{Verdict::kOverloaded, kForever, 1}, state};
  state.queued += 1;
  return {{Verdict::kQueued, kForever, 0}, state};
}

// One request less waits: it was admitted, or it left.
constexpr SlotsState dequeue(SlotsState state) noexcept {
  state.queued = std::max<std::int64_t>(0, state.queued - 1);
  return state;
}

constexpr SlotsState give_back(SlotsState state, std::int64_t amount) noexcept {
  state.in_flight = std::max<std::int64_t>(0, state.in_flight - amount);
  return state;
}

constexpr bool is_initial(SlotsState state) noexcept { return state == SlotsState{}; }

}  // namespace weir::meter
