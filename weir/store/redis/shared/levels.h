// Levels: what Redis has of one key of a shared limit, and forgetting that.
//
// Both calls are about Redis itself, so no outage policy stands in for it.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <memory>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/redis_leases.h"

namespace weir::store::redis {

class Levels {
 public:
  Levels(const Fleet& fleet, Connections& connections, Epochs& epochs, Outages& outages,
         RedisLeases& source, Leases& leases)
      : fleet_(fleet),
        connections_(connections),
        epochs_(epochs),
        outages_(outages),
        source_(source),
        leases_(leases) {}

  // As SharedStore has them.
  void inspect(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
               Instant now, engine::LevelCallback callback);
  void reset(const engine::SharedItem& item, Instant now, engine::StatusCallback callback);

 private:
  const Fleet& fleet_;
  Connections& connections_;
  Epochs& epochs_;
  Outages& outages_;
  RedisLeases& source_;
  Leases& leases_;
};

}  // namespace weir::store::redis
