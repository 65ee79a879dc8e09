// Shared store: where a server keeps its shared limits, and its connections to there.
//
// Each loop asks Redis over a connection of its own, unless the configuration names a number of
// connections for all; then a thread of the store has them.
//
// Thread safety: limits() from any thread. attach() once, leave() once, by one thread.

#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/loop.h"
#include "weir/server/readiness.h"
#include "weir/server/turns.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/shared/limits.h"

namespace weir::server {

class SharedStore {
 public:
  SharedStore(const config::RedisSettings& settings, Clock& clock, const Turns& turns,
              Readiness& readiness);

  // An error if what answers there is not one Redis by itself. That it does not answer is none.
  Status check();

  store::redis::SharedLimits& limits() noexcept { return *limits_; }

  // The loops run.
  void attach(const std::vector<std::unique_ptr<Loop>>& loops);
  // Takes the loops' connections away. What is not answered any more is no outage.
  void leave();

 private:
  const bool has_own_connections_;
  std::atomic<bool> is_leaving_{false};
  store::redis::Loop loop_;
  std::vector<std::unique_ptr<store::redis::Loop>> loops_;  // of the server's loops
  std::unique_ptr<store::redis::SharedLimits> limits_;      // ends before the loops it asks over
};

}  // namespace weir::server
