// Wakeup: when the engine wants to be called, and who is told that it is sooner.
//
//  1. `announced_` is never later than what the hook was last told, or than what advance() has
//     left behind.
//  2. The hook is called under `lock_`, so it is told of nothing once it has been replaced.
//
// Thread safety: safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>

#include "weir/base/time.h"

namespace weir::engine {

class EndingHolds;
class Waiting;

class Wakeup {
 public:
  Wakeup(const EndingHolds& ending, const Waiting& waiting) : ending_(ending), waiting_(waiting) {}

  // kForever: not at all.
  Instant next() const noexcept;
  // Something may be due sooner than it was.
  void announce();
  // advance() has been called: what was announced has come, or is gone.
  void advanced();
  void set_hook(std::function<void(Instant)> hook);

 private:
  void announce_next();  // requires lock_

  const EndingHolds& ending_;
  const Waiting& waiting_;
  std::mutex lock_;
  std::function<void(Instant)> hook_;
  std::atomic<bool> has_hook_{false};
  std::atomic<std::int64_t> announced_ns_{kForever.ns};
};

}  // namespace weir::engine
