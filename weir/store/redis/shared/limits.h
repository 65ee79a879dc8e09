// Shared limits: one limit for a whole fleet, decided in Redis.
//
// A SharedStore for the engine. Each decision is one script in one round trip, however many
// limits it has; requests in flight from any number of threads share a few connections. Redis
// tells the time.
//
//   Loop loop;
//   SharedLimits shared(loop, {.address = *parse_address("redis://localhost")}, clock);
//   set_store(engine, &shared);
//
// A limit with a lease is decided here, out of units drawn ahead (leased.h). Requests with a
// hold are decided in Redis all the same, so that any server can end them.
//
// While Redis cannot be asked (no connection, no answer within the timeout, LOADING, OOM, a
// wrong password ...) each limit's outage policy decides (outages.h). After a few failures in a
// row no request waits for the timeout any more; one now and then, and a heartbeat, find out
// when Redis is back.
//
// If Redis loses its data, every meter counts as fully used at the instant the loss was
// noticed: a key under which the epoch of the data is kept is gone, or another one (epochs.h).
//
// A thread that runs an event loop asks fastest at a desk of its own (connections.h):
//
//   Loop mine(io_context);       // the thread runs it
//   shared.attach(mine);         // ... and before it ends
//   shared.detach(mine);
//
// Thread safety: every function may be called from any thread. The engine and all who wait for
// an answer must outlive it: destroying it answers what is in flight.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/clock.h"
#include "weir/engine/shared.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/link/timers.h"
#include "weir/store/redis/shared/connections.h"
#include "weir/store/redis/shared/decisions.h"
#include "weir/store/redis/shared/epochs.h"
#include "weir/store/redis/shared/fleet.h"
#include "weir/store/redis/shared/heart.h"
#include "weir/store/redis/shared/holds.h"
#include "weir/store/redis/shared/leased.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/levels.h"
#include "weir/store/redis/shared/outages.h"
#include "weir/store/redis/shared/redis_leases.h"

namespace weir::store::redis {

struct SharedOptions {
  Address address{};
  std::string name = "weir";  // of the keys; servers that share limits use the same one
  Duration timeout = std::chrono::milliseconds{20};
  unsigned connections = 1;
  BreakerShape breaker{};
  Clock* redis_clock = nullptr;  // for tests: instead of the time of Redis
  // Told each time Redis goes out of reach, and why; each time it is back, empty. From any thread,
  // but one at a time and in order, so it asks nothing of this store.
  std::function<void(std::string_view why)> on_turn{};
  // The same when what answers is a replica, a sentinel or a node of a cluster, so that every
  // decision is an error; empty when it is one Redis by itself again.
  std::function<void(std::string_view why)> on_topology{};
  // The same of heartbeats that fail though Redis is in reach: another program uses their key.
  std::function<void(std::string_view why)> on_beat{};
};

struct SharedCounts {
  std::uint64_t asked = 0;                               // decisions sent
  std::uint64_t answered = 0;                            // and answered in time
  std::uint64_t failed = 0;                              // and not
  std::array<std::uint64_t, kFailureKinds> failed_by{};  // the same by FailureKind
  std::uint64_t by_policy = 0;                           // decided, or refused, by outage policies
  std::uint64_t turns = 0;                               // the breaker opened or closed
  std::uint64_t losses = 0;                              // of data, as seen here
  std::uint64_t servers = 1;                             // alive, as last heard
  bool is_out = false;
};

class SharedLimits final : public engine::SharedStore {
 public:
  SharedLimits(Loop& loop, SharedOptions options, Clock& clock);
  ~SharedLimits() override;

  void decide(const engine::SharedAsk& ask, engine::SharedCallback callback) override;
  bool decide_leased(std::span<const engine::LeasedItem> items, Instant now,
                     std::span<engine::SharedOutcome> outcomes) override;
  void end(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual,
           std::shared_ptr<const engine::RuleSet> rules, Instant now,
           engine::SharedEndCallback callback) override;
  void renew(HoldId hold, Duration ttl, Instant now, engine::HoldStateCallback callback) override;
  void ended_here(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual,
                  Instant now) override {
    doubtful_.ended(hold, as, actual, now);
  }
  void inspect(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
               Instant now, engine::LevelCallback callback) override;
  void reset(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
             Instant now, engine::StatusCallback callback) override;
  void holds(const engine::SharedItem& item, std::size_t most,
             engine::HoldsCallback callback) override;
  void later(Duration span, std::function<void(Instant)> work) override;

  // From now on, or no more, what is asked on the thread of `loop` is sent and answered there,
  // over a connection of its own; detach() answers what is in flight. Both wait for that thread,
  // which must be running.
  void attach(Loop& loop) { connections_.attach(loop); }
  void detach(Loop& loop);

  // Waits for the first word of Redis, or for the first attempt to reach it to fail, but no longer
  // than `patience`. An error if it has said that it is not one Redis by itself.
  Status first_word(Duration patience) {
    return connections_.first_word(fleet_.clock, fleet_.clock.now() + patience);
  }

  SharedCounts counts() const;
  std::vector<LeaseCounts> lease_counts();
  // Why Redis is not asked; empty: it is.
  std::string trouble() const { return outages_.trouble(); }

 private:
  Loop& loop_;
  Fleet fleet_;
  Epochs epochs_;
  Outages outages_;
  Connections connections_;
  SharedHolds holds_;
  DoubtfulHolds doubtful_{holds_};
  Decisions decisions_;
  RedisLeases source_;
  Leases leases_;
  LeasedDecisions leased_;
  Levels levels_;
  std::unique_ptr<Heart> heart_;  // on the loop's thread
  Timers timers_;
};

}  // namespace weir::store::redis
