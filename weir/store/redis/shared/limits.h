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
// A limit with a lease is decided here, out of units drawn ahead (leases.h). Requests with a
// hold are decided in Redis all the same, so that any server can end them.
//
// While Redis cannot be asked (no connection, no answer within the timeout, LOADING, OOM, a
// wrong password ...) each limit's outage policy decides. After a few failures in a row
// nobody waits for the timeout any more; one request now and then, and a heartbeat, find out
// when Redis is back.
//
// If Redis loses its data, every meter counts as fully used at the instant the loss was
// noticed: a key under which the epoch of the data is kept is gone, or another one.
//
// A thread that runs an event loop asks fastest over a connection of its own:
//
//   Loop mine(io_context);       // the thread runs it
//   shared.attach(mine);         // ... and before it ends
//   shared.detach(mine);
//
// Thread safety: every function may be called from any thread. The engine and everybody who
// waits for an answer must outlive it: destroying it answers whatever is in flight.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/clock.h"
#include "weir/engine/shared.h"
#include "weir/store/redis/link/breaker.h"
#include "weir/store/redis/link/client.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/shared/leases.h"
#include "weir/store/redis/shared/stand_in.h"

namespace weir::store::redis {

constexpr unsigned kConnectionsMax = 64;

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
  // The same of heartbeats that fail though Redis is in reach: their key is somebody else's.
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

class SharedLimits final : public engine::SharedStore, private LeaseSource {
 public:
  SharedLimits(Loop& loop, SharedOptions options, Clock& clock);
  ~SharedLimits() override;

  void decide(const engine::SharedAsk& ask, engine::SharedCallback callback) override;
  bool decide_leased(std::span<const engine::LeasedItem> items, Instant now,
                     std::span<engine::SharedOutcome> outcomes) override;
  void end(HoldId hold, engine::HoldState as, std::span<const engine::Cost> actual,
           std::shared_ptr<const engine::RuleSet> rules, Instant now,
           engine::HoldStateCallback callback) override;
  void renew(HoldId hold, Duration ttl, Instant now, engine::HoldStateCallback callback) override;
  void inspect(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
               Instant now, engine::LevelCallback callback) override;
  void reset(const engine::SharedItem& item, const std::shared_ptr<const engine::RuleSet>& rules,
             Instant now, engine::StatusCallback callback) override;
  void later(Duration span, std::function<void(Instant)> work) override;

  // From now on, or no more, what is asked on the thread of `loop` is sent and answered there,
  // over a connection of its own; detach() answers what is in flight. A thread attaches to one
  // SharedLimits at a time. Both wait for that thread, which must be running.
  void attach(Loop& loop);
  void detach(Loop& loop);

  SharedCounts counts() const;
  std::vector<LeaseCounts> lease_counts();
  // Why Redis is not asked; empty: it is.
  std::string trouble() const;

 private:
  struct Asked;
  struct Batch;     // decisions that leave together (batch.cc)
  struct Attached;  // the connection that a thread has for itself
  struct Mixed;     // a request that meets a limit with a lease (leased.cc)
  struct Ending;

  static Attached*& attached_here();
  Client& client();
  std::string now_argument() const;
  // As last seen, and the id of a new one, should it be gone.
  struct Epoch {
    std::string seen;
    std::string fresh;
    std::uint64_t version = 0;     // another one with each change
    std::int64_t lost_at_us = -1;  // when data was lost; 0: never, -1: not known
  };
  // Valid until this thread asks again.
  const Epoch& epoch() const;
  void learn_epoch(std::string_view epoch);
  // The time of Redis, from an answer to somebody who knew the epoch in this version; 0: of no use.
  void hear_time(std::int64_t now_us, std::uint64_t version);
  // Whether the buckets of these have refilled since data was last lost, so that one without a
  // key is full. False as long as that is not known.
  bool have_refilled(std::span<const std::shared_ptr<Asked>> all, const Epoch& known) const;
  ClientOptions client_options() const;
  void decide_in_redis(const engine::SharedAsk& ask, engine::SharedCallback callback);
  void ask_buckets(std::shared_ptr<Asked> asked);
  void ask_one_bucket(const std::shared_ptr<Asked>& asked, const Epoch& known);
  void ask_together(std::vector<std::shared_ptr<Asked>> all);
  void on_decided_together(std::span<const std::shared_ptr<Asked>> all, const Answer& answer);
  // What this thread has gathered, if it is attached.
  void send_batch();
  void send_batch(Batch& batch);
  void ask_all(const std::shared_ptr<Asked>& asked, const Epoch& known);
  void on_decided(Asked& asked, const Answer& answer);
  // The answer to a decision that had timed out.
  void on_late(const Asked& asked, const Reply& reply);
  Result<engine::SharedAnswer> read_decision(const Asked& asked, const Reply& reply);
  // `numbers`: 1 or 0, now, and two for each limit.
  Result<engine::SharedAnswer> read_numbers(const Asked& asked,
                                            std::span<const std::int64_t> numbers);
  Result<engine::SharedAnswer> by_policy(std::span<const engine::SharedItem> items,
                                         std::span<const std::string> keys, Instant now,
                                         bool is_peek, const std::string& why);
  std::string why_not_asked() const;

  // Why one key cannot be looked at; nothing: it can (key_calls.cc).
  std::optional<Error> why_out_of_reach(Instant now);
  Error failed(const Failure& failure);

  void decide_mixed(const engine::SharedAsk& ask, engine::SharedCallback callback);
  void decide_without_leases(const std::shared_ptr<Mixed>& mixed);
  void peek_mixed(const engine::SharedAsk& ask, engine::SharedCallback callback);
  void finish_leases(const std::shared_ptr<Mixed>& mixed);
  void settle(const Mixed& mixed, bool is_used);
  void draw(const LeaseDraw& draw, DrawCallback callback) override;
  void give_back(const LeaseReturn& units, Instant now, ReturnCallback callback) override;
  // Has Redis take back what servers held whose leases have ended, as each draw does.
  void take_back_lapsed(const engine::SharedItem& item,
                        const std::shared_ptr<const engine::RuleSet>& rules, Instant now);
  Result<Drawn> read_draw(const Reply& reply, std::span<const std::int64_t> amounts,
                          std::string_view seen);
  void start_ticking();
  void tick();
  void end_leases();
  void read_hold(HoldId hold, std::function<void(Result<struct HoldRecord>)> next);
  void count_failure(FailureKind kind);
  void note_failure(const Failure& failure);
  void note_success();
  void beat();
  // Tells how the last beat went; empty: well.
  void tell_beat(std::string_view why);

  Loop& loop_;
  const SharedOptions options_;
  Clock& clock_;
  const std::string prefix_;
  const std::string epoch_key_;
  const std::string servers_key_;
  const std::string id_;  // of this server, for heartbeats
  std::mutex turn_lock_;  // while the breaker may turn
  Breaker breaker_;
  StandIn stand_in_;

  mutable std::mutex lock_;
  Epoch epoch_;
  std::atomic<std::uint64_t> epoch_version_;  // of epoch_
  std::string trouble_;                       // of the last failure
  std::atomic<std::int64_t> heard_at_us_{0};  // the time of Redis, heard with this epoch; 0: never

  std::atomic<std::uint64_t> asked_{0}, answered_{0}, by_policy_{0}, turns_{0}, losses_{0},
      servers_{1};
  std::array<std::atomic<std::uint64_t>, kFailureKinds> failed_by_{};
  Leases leases_;
  std::atomic<bool> is_ticking_{false};  // since the first lease
  std::vector<std::unique_ptr<Client>> clients_;
  std::map<Loop*, std::shared_ptr<Attached>> attached_;  // guarded by lock_
  std::unique_ptr<Timer> heart_;
  bool has_bad_beats_ = false;     // on the loop's thread
  std::unique_ptr<Timer> ticker_;  // of leases
  struct Timers;
  std::shared_ptr<Timers> timers_;  // of later(); on the loop's thread
};

}  // namespace weir::store::redis
