// Wakeup: tells a hook when the next instant to act at becomes earlier.
//
//   std::unique_lock lock(mutex);
//   const auto hook = wakeup.begin(next);      // nullptr: it knows of an instant as early
//   lock.unlock();
//   if (hook) { (*hook)(next); lock.lock(); wakeup.end(); }
//
// Thread safety: none; every function is called with the owner's lock held, the hook without.

#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "weir/base/time.h"

namespace weir::system::pool {

class Wakeup {
 public:
  using Hook = std::function<void(Instant)>;

  // Another hook, or none. Releases the lock until no call of the former one is running.
  void set(std::unique_lock<std::mutex>& lock, Hook hook);
  // The hook, if it is to be called now. A call that has begun must end().
  std::shared_ptr<const Hook> begin(Instant next);
  void end();

 private:
  std::shared_ptr<const Hook> hook_;
  Instant told_ = kForever;  // the last instant that the hook knows of
  int calls_ = 0;            // that are running
  std::condition_variable returned_;
};

}  // namespace weir::system::pool
