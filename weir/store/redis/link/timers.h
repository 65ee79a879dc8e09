// Timers: calls back once after a while, as often as asked.
//
// Thread safety: every function may be called from any thread. Callbacks run on the loop's.

#pragma once

#include <functional>
#include <memory>

#include "weir/base/time.h"
#include "weir/store/redis/link/loop.h"

namespace weir::store::redis {

class Timers {
 public:
  explicit Timers(Loop& loop);
  ~Timers() { end(); }

  // What has not run yet never runs. Not from a callback.
  void end();

  // Runs `work` after `span`.
  void after(Duration span, std::function<void()> work);

 private:
  struct Running;

  Loop& loop_;
  std::shared_ptr<Running> running_;  // on the loop's thread
};

}  // namespace weir::store::redis
