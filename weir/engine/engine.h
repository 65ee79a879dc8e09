// Engine: one atomic decision over any mix of limits.
//
// An engine holds a rule set and the meters of every key it has seen. It reads
// no clock: every call takes `now`, and next_instant() says when it wants to be
// called again, so a server's timers, a test's manual clock and a simulation all
// drive the same code. driver.h has a thread that does it for embedders.
//
//   auto rules = compile({.limits = {{.name = "per-client",
//                                     .per = {"client"},
//                                     .meter = BucketSpec{100, 1s, 200}}}});
//   auto engine = Engine::create(*rules);
//   const Attribute who[] = {{"client", "acme"}};
//   Result<Decision> decision = (*engine)->decide({.attributes = who}, clock.now());
//   if (decision && decision->allowed()) ...
//
// A refusal is a Decision; an Error means that nothing was decided and nothing
// charged. Instants lie in [0, 2^62) ns. At any other `now`, kForever among them, a
// call that returns a Result or a Status is an error, and advance(), try_waiters(),
// cancel() and cancel_wait() do nothing. A `now` earlier than the last charge of the
// same keys counts as that instant. What a call is given as `now` has come, be it only a
// peek(): holds that end by then have ended, and meters of changed limits are converted.
//
// No exception leaves it: where memory for a few bytes is not to be had, or a
// callback throws, the process ends.
//
// Thread safety: every function may be called from any number of threads, except
// the destructor. Callbacks run on the thread whose call
// brought them about, with no lock held, so they may call the engine; what they bring
// about in turn is delivered when they have returned.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/holds.h"
#include "weir/engine/limit.h"
#include "weir/engine/print.h"
#include "weir/engine/request.h"
#include "weir/engine/rules.h"
#include "weir/engine/state.h"
#include "weir/engine/table.h"
#include "weir/meter/bucket.h"

namespace weir::engine {

struct EngineOptions {
  std::size_t keys_max = 10'000'000;       // meters in the table
  WhenFull when_full = WhenFull::kRefuse;  // what happens to one key more
  std::size_t log_runs_max = 16'000'000;   // 16 bytes each
  std::size_t holds_max = 1'000'000;
  std::size_t waiters_max = 65'536;
  std::size_t overrides_max = 65'536;
  std::size_t heavy_keys = 64;            // kept for each limit, with their texts
  std::uint32_t heavy_sample_every = 64;  // decisions for each one looked at
  std::optional<Secret> secret{};         // of the prints; none: a fresh one
  std::optional<std::uint64_t> owner{};   // in the ids of its holds; none: a fresh one
  bool durable = false;                   // changes are kept until a store has collected them
};

struct AcquireOptions {
  Duration hold{};         // keep a hold this long; 0: only if a limit counts slots
  std::string up_to{};     // a unit: grant as much of its cost as there is, at least 1
  Duration book_within{};  // accept a start up to this far in the future
};

struct WaitOptions {
  Instant deadline{};  // the last instant at which an admission is of use
  Duration hold{};
};

// The final answer to a wait: a decision (allowed, denied at the deadline, never,
// overloaded), or an error.
using WaitCallback = std::function<void(const Result<Decision>&)>;

struct WaitStart {
  Decision decision;         // kQueued, or final
  std::uint64_t ticket = 0;  // for cancel_wait; 0: the decision is final
};

// A key of an ad-hoc bucket, and what became of a call for it.
struct AdHocKey {
  Print print;
};
struct AdHocStep {
  meter::BucketStep step;
  Instant at;  // the instant it was decided at: as given, or that of the last charge if later
};

// What one key has left.
struct Inspection {
  std::int64_t remaining = 0;  // negative in debt
  std::int64_t capacity = 0;
  bool overridden = false;  // has parameters of its own
  std::size_t waiters = 0;
  // Of a shared limit with a lease: units drawn ahead that this engine holds beside `remaining`.
  std::optional<std::int64_t> leased{};
};

// How often a limit decided, since the engine was made. A request that is admitted counts
// at every limit it met; one that is refused, at those that refused it.
struct LimitCounts {
  std::string limit;
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t never = 0;
  std::uint64_t overloaded = 0;     // a queue was full
  std::uint64_t shadow_denied = 0;  // would have been refused
};
struct Counts {
  std::vector<LimitCounts> limits;  // those in force, in the order of the rules
  std::uint64_t ad_hoc_allowed = 0;
  std::uint64_t ad_hoc_denied = 0;
};

struct HeavyKey {
  std::string key;         // `client=acme env=prod`
  std::int64_t units = 0;  // asked for, estimated from samples
};

// A request planned once and decided often. Owns copies of everything; used by
// one thread at a time. Follows changes of the rules by itself.
class Prepared {
 public:
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;
  ~Prepared();

 private:
  friend class Engine;
  struct Impl;
  explicit Prepared(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class SharedStore;  // shared.h

class Engine {
 public:
  // Fails only if the machine refuses the addresses for keys_max, or an option is
  // out of range.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const RuleSet> rules,
                                                EngineOptions options = {}) noexcept;
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Decides and charges, all or nothing.
  Result<Decision> decide(const Request& request, Instant now) noexcept;
  Result<Decision> decide(Prepared& prepared, Instant now) noexcept;
  Result<Decision> acquire(const Request& request, const AcquireOptions& options,
                           Instant now) noexcept;

  // What decide() would say, charging nothing.
  Result<Decision> peek(const Request& request, Instant now) noexcept;

  // Decides many requests at one instant, in order; several times cheaper than
  // one by one where there are many keys. Requires as many answers as requests.
  void decide(std::span<const Request> requests, Instant now,
              std::span<Result<Decision>> answers) noexcept;

  Result<Prepared> prepare(const Request& request) noexcept;

  // Buckets without a limit in the rules, whose parameters come with each call: a key
  // and what it has used are all that is kept, so a call may name another shape. Only
  // shapes with num = 1, in which a state means the same whatever the rate. A negative
  // cost gives back. ad_hoc_key() works out where the key's state lies and has it
  // fetched meanwhile.
  AdHocKey ad_hoc_key(std::string_view key) const noexcept;
  Result<AdHocStep> take_ad_hoc(AdHocKey key, const meter::BucketShape& shape, std::int64_t cost,
                                Instant now) noexcept;

  // Ends a hold: `actual` costs replace the charged ones in the units named, slots
  // come back. The answer says how the hold stands; only the first call changes
  // anything.
  Result<HoldState> settle(HoldId hold, std::span<const Cost> actual, Instant now) noexcept;
  // Ends a hold and gives everything back, as far as the meters allow. kActive: `now` is
  // no instant, and nothing has changed.
  HoldState cancel(HoldId hold, Instant now) noexcept;
  // Lets an active hold last `ttl` from now. kActive, or how it has ended.
  Result<HoldState> renew(HoldId hold, Duration ttl, Instant now) noexcept;

  // Decides, or queues first come first served and answers through `callback`.
  // Fails at once if the deadline cannot be met with those already ahead, with
  // the instant it would have taken; kOverloaded if a queue is full. The callback
  // is not called when the returned decision is final.
  Result<WaitStart> wait(const Request& request, const WaitOptions& options, Instant now,
                         WaitCallback callback) noexcept;
  // Gives up a place in the queue; its callback is not called. False: it has been
  // answered already, or waits for a limit that is kept elsewhere now and will be, or `now`
  // is no instant and the place is kept.
  bool cancel_wait(std::uint64_t ticket, Instant now) noexcept;

  // Asks again where decide(), acquire(), peek() or wait() said kElsewhere: limits of this
  // engine are charged first, then the store is asked, and `callback` is given the decision,
  // maybe before this returns. A request that local limits refuse is not asked of the store.
  // `book_within` is not offered there, nor `up_to` together with a deadline. With a deadline
  // after `now` the store is asked again when the request may fit, up to that instant; within
  // this engine, first come first served at each key of a shared limit.
  void ask(const Request& request, const AcquireOptions& options, Instant now, Instant deadline,
           WaitCallback callback) noexcept;
  void ask_peek(const Request& request, Instant now, WaitCallback callback) noexcept;
  // The same for a shared hold (HoldId::is_shared), whichever engine made it. Another
  // engine's own part of it ends at its time.
  void ask_settle(HoldId hold, std::span<const Cost> actual, Instant now,
                  std::function<void(Result<HoldState>)> callback) noexcept;
  void ask_cancel(HoldId hold, Instant now,
                  std::function<void(Result<HoldState>)> callback) noexcept;
  void ask_renew(HoldId hold, Duration ttl, Instant now,
                 std::function<void(Result<HoldState>)> callback) noexcept;
  // inspect() and reset() of a limit that may be shared; of one that is not, `callback` is
  // called before this returns.
  void ask_inspect(std::string_view limit, std::span<const std::string_view> key, Instant now,
                   std::function<void(Result<Inspection>)> callback) noexcept;
  void ask_reset(std::string_view limit, std::span<const std::string_view> key, Instant now,
                 std::function<void(Status)> callback) noexcept;
  // Cancels a hold, shared or not, that nobody has a use for; how that ends is not told.
  void abandon(HoldId hold, Instant now) noexcept;
  // Where shared limits are kept; it must outlive every call. None: requests that meet one
  // fail.
  void set_shared_store(SharedStore* store) noexcept;

  // A gate of the rules has room again, or another size, without the engine having had a
  // part in it: everybody who waits is tried.
  void try_waiters(Instant now) noexcept;

  // When the engine wants advance() to be called; kForever: not at all, which is no
  // instant to call it with.
  Instant next_instant() const noexcept;
  // Expires holds, answers waiters, sweeps a bounded part of the table.
  void advance(Instant now) noexcept;
  // `hook` is told when next_instant() becomes earlier; none: forget it. Told by two threads, it
  // may hear of the later instant last, so it asks for next_instant() itself, though not from
  // within: a lock of its own is held, so that it is told of nothing once it is forgotten.
  void set_wakeup(std::function<void(Instant)> hook) noexcept;

  // Puts another rule set in force, whole. Meters of limits that still exist keep
  // what was used. An error leaves the old rules in force.
  Status swap(std::shared_ptr<const RuleSet> rules, Instant now) noexcept;
  std::shared_ptr<const RuleSet> rules() const noexcept;

  // Parameters of its own for one key, given as the values of the limit's key
  // attributes in their order. The kind of meter stays; what was used is kept.
  Status set_override(std::string_view limit, std::span<const std::string_view> key,
                      const MeterSpec& meter, Instant now) noexcept;
  Status clear_override(std::string_view limit, std::span<const std::string_view> key,
                        Instant now) noexcept;

  Result<Inspection> inspect(std::string_view limit, std::span<const std::string_view> key,
                             Instant now) noexcept;
  // Forgets what one key has used, and what holds have been charged there: ended later, they
  // change nothing of it. Slots are not used but held: they come back when the work ends or
  // its hold is cancelled.
  Status reset(std::string_view limit, std::span<const std::string_view> key, Instant now) noexcept;

  // The keys that asked most of a limit, heaviest first, at most `count`.
  std::vector<HeavyKey> heaviest(std::string_view limit, std::size_t count) noexcept;

  // What was decided so far. Peeks are not counted, waits when they end.
  Counts counts() const noexcept;

  // State that outlives the process (state.h). Collecting is for one caller at a time,
  // of an engine made with `durable`; it locks one shard, or the holds, for a bounded
  // time, and what it returns counts as unchanged from then on. When it could not be
  // stored, mark_changed() undoes that.
  //
  // First the holds, then the shards, then the ended holds: so a hold is never stored
  // without its charges, nor what it gave back without its end.
  std::size_t shards() const noexcept;
  // At most kHoldsPerCollection new or renewed ones. True: there are more.
  bool collect_holds(Instant now, HoldChanges& out) noexcept;
  void collect_changed(std::size_t shard, Instant now, MeterChanges& out) noexcept;
  // All of a shard's meters, but for those in their initial state that had not changed:
  // whoever has these needs no earlier record of the shard.
  void collect_whole(std::size_t shard, Instant now, MeterChanges& out) noexcept;
  void collect_ended_holds(HoldChanges& out) noexcept;
  void mark_changed(std::span<const Print> prints) noexcept;
  void mark_changed(const HoldChanges& holds) noexcept;
  // Limits that were gone for a while, or changed between slots and spending: nothing
  // that was collected of them in another era counts. To be asked after collecting.
  std::vector<EraRecord> eras() const noexcept;

  // Brings back what an earlier engine with the same secret and owner collected, on an
  // engine with its rules in force, before any other call. May be called several
  // times: later records replace earlier ones of the same meter; holds come after all
  // meters, each of them once.
  // A limit that is gone is skipped, one that has changed is converted when touched.
  // After an error the engine is not to be used.
  Result<RestoreReport> restore(const MeterChanges& meters, Instant now) noexcept;
  Result<RestoreReport> restore(const HoldChanges& holds, Instant now) noexcept;

  std::size_t keys() const noexcept;  // meters in the table
  std::size_t table_bytes() const noexcept;
  std::size_t holds() const noexcept;  // active ones
  std::size_t waiters() const noexcept;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::engine
