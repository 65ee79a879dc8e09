// Guarded: something that several callers share, one at a time.
//
//   Guarded<Worker> worker(std::in_place, settings);
//   const std::scoped_lock lock(worker);
//   worker.locked().admit(portal, cost_micro, now);
//
// A system that is also a gate is locked this way: the engine takes the lock through the
// gate, from the check to the charge, and everything that the gate uses in between is
// reached through locked(). So it stands at each use that the lock is needed, and the lock
// is taken once.
//
// Thread safety: lock() and unlock() as a mutex; locked() requires the lock.

#pragma once

#include <mutex>
#include <utility>

namespace weir {

template <typename T>
class Guarded {
 public:
  template <typename... Given>
  explicit Guarded(std::in_place_t, Given&&... given) : value_(std::forward<Given>(given)...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  void lock() const noexcept { mutex_.lock(); }
  void unlock() const noexcept { mutex_.unlock(); }

  T& locked() noexcept { return value_; }
  const T& locked() const noexcept { return value_; }

 private:
  mutable std::mutex mutex_;
  T value_;
};

}  // namespace weir
