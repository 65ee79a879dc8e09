// What the meter tests share: instants written as spans since the epoch, values
// that print, and a log that keeps its own ring.

#pragma once

#include <chrono>
#include <cstdint>
#include <ostream>
#include <vector>

#include "tests/support/print.h"
#include "weir/base/decision.h"
#include "weir/base/time.h"
#include "weir/meter/bucket.h"
#include "weir/meter/log.h"
#include "weir/meter/slots.h"
#include "weir/meter/step.h"
#include "weir/meter/ticker.h"
#include "weir/meter/window.h"

namespace weir::meter {

using namespace std::chrono_literals;

constexpr Instant kEpoch{};
constexpr Instant kStart{1'700'000'000'000'000'000};  // 2023-11-14, a whole second
constexpr Instant kLastInstant{kInstantNsMax};

inline std::ostream& operator<<(std::ostream& out, const Check& check) {
  return out << "{" << check.verdict << ", earliest " << check.earliest << ", shortfall "
             << check.shortfall << "}";
}

inline std::ostream& operator<<(std::ostream& out, const BucketShape& shape) {
  return out << "{" << shape.num << " per " << shape.den << " ns, burst " << shape.burst << "}";
}

inline std::ostream& operator<<(std::ostream& out, const BucketState& state) {
  return out << "{full at " << state.full_at << " + " << state.full_at_parts << " parts}";
}

inline std::ostream& operator<<(std::ostream& out, const TickerShape& shape) {
  return out << "{" << shape.per_tick << " every " << shape.interval_ns << " ns, burst "
             << shape.burst << (shape.start == TickerStart::kFull ? ", full}" : ", empty}");
}

inline std::ostream& operator<<(std::ostream& out, const TickerState& state) {
  return out << "{" << state.tokens << " tokens, last tick " << state.last_tick << "}";
}

inline std::ostream& operator<<(std::ostream& out, const WindowShape& shape) {
  out << "{" << shape.limit << " per ";
  if (shape.length_ns > 0) return out << shape.length_ns << " ns}";
  return out << "calendar unit " << static_cast<int>(shape.unit) << "}";
}

inline std::ostream& operator<<(std::ostream& out, const WindowState& state) {
  return out << "{" << state.count << " since " << state.since << "}";
}

inline std::ostream& operator<<(std::ostream& out, const LogShape& shape) {
  return out << "{" << shape.limit << " in any " << shape.window_ns << " ns, grain "
             << shape.grain_ns << " ns}";
}

inline std::ostream& operator<<(std::ostream& out, const SlotsShape& shape) {
  return out << "{limit " << shape.limit << ", queue " << shape.queue << "}";
}

inline std::ostream& operator<<(std::ostream& out, const SlotsState& state) {
  return out << "{" << state.in_flight << " in flight, " << state.queued << " queued}";
}

// A log and its ring. The ring has exactly the room that runs_needed asked for,
// so that one run too many is a write outside it.
struct KeptLog {
  explicit KeptLog(const LogShape& log_shape) : shape(log_shape) {}

  std::int64_t used(Instant now) const { return meter::used(shape, state, ring, now); }
  std::int64_t level(Instant now) const { return meter::level(shape, state, ring, now); }
  Instant next_free(Instant now) const { return meter::next_free(shape, state, ring, now); }
  bool is_initial(Instant now) const { return meter::is_initial(shape, state, ring, now); }
  Check check(Instant now, std::int64_t cost) const {
    return meter::check(shape, state, ring, now, cost);
  }

  // Remembers `cost`, fitting or not, and returns the stamp to give it back under.
  Instant charge(Instant now, std::int64_t cost) {
    const std::uint32_t needed = runs_needed(shape, state, ring, now);
    if (ring.size() < needed) {
      std::vector<LogRun> larger(needed);
      state = move_runs(state, ring, larger);
      ring = std::move(larger);
    }
    state = meter::charge(shape, state, ring, now, cost);
    return stamp(shape, now);
  }

  // Checks, and charges what was allowed.
  Check take(Instant now, std::int64_t cost) {
    const Check answer = check(now, cost);
    if (answer.allowed()) charge(now, cost);
    return answer;
  }

  void give_back(Instant stamped, std::int64_t amount) {
    state = meter::give_back(state, ring, stamped, amount);
  }
  void forget(Instant now) { state = meter::forget(shape, state, ring, now); }

  // The runs, oldest first.
  std::vector<LogRun> runs() const {
    std::vector<LogRun> ordered(state.size);
    move_runs(state, ring, ordered);
    return ordered;
  }

  LogShape shape;
  LogState state;
  std::vector<LogRun> ring;
};

}  // namespace weir::meter
