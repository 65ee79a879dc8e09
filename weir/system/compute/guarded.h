// Guarded: something that several threads share, one at a time.
//
//   const std::scoped_lock lock(*worker);
//   worker->locked().admit(...);

#pragma once

#include <mutex>
#include <utility>

namespace weir::system::compute {

template <typename T>
class Guarded {
 public:
  template <typename... Given>
  explicit Guarded(std::in_place_t, Given&&... given) : value_(std::forward<Given>(given)...) {}

  void lock() noexcept { mutex_.lock(); }
  void unlock() noexcept { mutex_.unlock(); }

  // Requires the lock.
  T& locked() noexcept { return value_; }

 private:
  std::mutex mutex_;
  T value_;
};

}  // namespace weir::system::compute
