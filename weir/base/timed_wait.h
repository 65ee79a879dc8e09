// Timed wait: waits for a condition, or until a Clock has come to an instant.
//
//   std::unique_lock lock(lock_);
//   if (!wait_by(told_, lock, clock_, clock_.now() + 10s, [this] { return is_told_; })) ...
//
// A condition variable has the machine's time for its own. So one that waits for a deadline looks
// at its clock in between, every kLookAtClock: a clock that moves when told ends the wait as well.
//
// Thread safety: the caller holds the lock, as for a condition variable.

#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "weir/base/clock.h"
#include "weir/base/time.h"

namespace weir {

constexpr Duration kLookAtClock = std::chrono::milliseconds{20};

// True: the condition is met. False: it is not, and `deadline` has come.
template <typename Condition>
bool wait_by(std::condition_variable& told, std::unique_lock<std::mutex>& lock, Clock& clock,
             Instant deadline, Condition is_met) {
  while (!is_met()) {
    const Instant now = clock.now();
    if (now >= deadline) return false;
    told.wait_for(lock, std::min(deadline - now, kLookAtClock), is_met);
  }
  return true;
}

}  // namespace weir
