// Leased decisions: requests that meet a limit with a lease.
//
// A request takes its leases first. The limits without a lease are then decided in Redis, all at
// once; if one of them refuses, the units go back into the leases. A request with a hold is decided
// in Redis altogether, so that any server can end it, after what is held here has gone back.
//
//   request ─► decide_now(): nothing but leases, and enough of each ─► answered at once
//                 │ not so
//                 ▼
//              decide(): takes, maybe after draws ─► the rest in Redis ─► units spent, or put back
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "weir/engine/shared.h"
#include "weir/store/redis/shared/decisions.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/redis_leases.h"

namespace weir::store::redis {

inline bool is_leased(const engine::SharedItem& item) {
  return item.rule->shared->lease.has_value();
}

class LeasedDecisions {
 public:
  LeasedDecisions(Loop& loop, const Fleet& fleet, Connections& connections, Outages& outages,
                  Decisions& decisions, RedisLeases& source, Leases& leases);

  // As SharedStore has it. Requires an item with a lease.
  void decide(const engine::SharedAsk& ask, engine::SharedCallback callback);
  // As SharedStore::decide_leased().
  bool decide_now(std::span<const engine::LeasedItem> items, Instant now,
                  std::span<engine::SharedOutcome> outcomes) {
    return leases_.take_now(items, now, outcomes);
  }

  // Gives everything back, and waits until Redis has heard of it, or a moment. Not on the loop's
  // thread.
  void end();

 private:
  struct Mixed;
  using MixedRef = std::shared_ptr<Mixed>;

  void take(const MixedRef& mixed);
  void decide_in_redis(const MixedRef& mixed);
  void peek(const engine::SharedAsk& ask, engine::SharedCallback callback);
  void on_taken(const MixedRef& mixed);
  Status decide_outages(Mixed& mixed);
  void settle(const Mixed& mixed, bool is_used);
  void start_ticking();
  void tick();

  Loop& loop_;
  const Fleet& fleet_;
  Connections& connections_;
  Outages& outages_;
  Decisions& decisions_;
  RedisLeases& source_;
  Leases& leases_;
  std::atomic<bool> is_ticking_{false};  // since the first lease
  std::unique_ptr<Timer> ticker_;        // on the loop's thread
};

}  // namespace weir::store::redis
