// Engine: one atomic decision over any mix of limits.
//
// An engine holds a rule set and the meters of every key it has seen. It reads
// no clock: every call takes `now`. next_instant() says when it wants to be called
// again. So a server's timers, a test's manual clock and a simulation all drive the
// same code; driver.h has a thread that does it for embedders.
//
//   auto rules = compile({.limits = {{.name = "per-client",
//                                     .per = {"client"},
//                                     .meter = BucketSpec{100, 1s, 200}}}});
//   auto engine = Engine::create(*rules);
//   const Attribute who[] = {{"client", "acme"}};
//   Result<Decision> decision = (*engine)->decide({.attributes = who}, clock.now());
//   if (decision && decision->allowed()) ...
//
// A refusal is a Decision; an Error means that nothing was decided and nothing charged.
//
// Time. Instants lie in [0, 2^62) ns. With any other `now`, kForever among them, a call that
// answers is an error, and the others do nothing. The engine takes `now` at its word, even for a
// peek: holds whose time has come by then have ended. A `now` earlier than the last charge of the
// same keys counts as the instant of that charge.
//
// Answers. What lives in memory is answered before the call returns. What waits, or lives in a
// store, is answered later (ask.h). A callback runs on the thread whose call brought it about. No
// lock is held then, so it may call the engine. What it brings about in turn is delivered after it
// has returned.
//
// No exception leaves the engine. If memory for a few bytes cannot be had, or a callback throws,
// the process ends.
//
// Thread safety: every function may be called from any number of threads, except the destructor.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"
#include "weir/engine/counts.h"
#include "weir/engine/options.h"
#include "weir/engine/request.h"
#include "weir/engine/rules.h"

namespace weir::engine {

class SharedStore;

// How many holds of one key were ended.
struct EndedHolds {
  std::size_t count = 0;
  std::uint64_t record = 0;  // as that of a Decision

  friend bool operator==(const EndedHolds&, const EndedHolds&) = default;
};
constexpr std::size_t kHoldsEndedMax = 10'000;  // by one call; there may be more

using EndedHoldsCallback = std::function<void(const Result<EndedHolds>&)>;

// A request planned once and decided often. Owns copies of everything; used by
// one thread at a time. Follows changes of the rules by itself.
class WEIR_EXPORT Prepared {
 public:
  Prepared(Prepared&&) noexcept;
  Prepared& operator=(Prepared&&) noexcept;
  ~Prepared();

  struct Impl;

 private:
  friend class Engine;
  explicit Prepared(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class WEIR_EXPORT Engine {
 public:
  // Fails only if the machine refuses the addresses for keys_max, or an option is
  // out of range.
  static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const RuleSet> rules,
                                                EngineOptions options = {}) noexcept;
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Answers every ask exactly once, on the stack or later (ask.h). Asks are decided in order, at
  // one instant; several together cost less than one by one where there are many keys.
  //
  // An ask that may wait is kDenied at once if it cannot pass by `wait_until` behind those that
  // wait already; `earliest` is then when it could. It is kOverloaded if a queue is full.
  void ask(std::span<const Ask> asks, Instant now, Answers& answers) noexcept;
  // Gives up an answer that comes later. True: it will not come. False: it has come, or is on its
  // way.
  bool give_up(std::uint64_t ticket, Instant now) noexcept;

  // For programs whose limits live in memory: decides, charges all or nothing, and answers on the
  // stack. An ask that may wait, or meets a limit that a store must be asked for, is an error.
  Result<Decision> decide(const Request& request, Instant now) noexcept;
  Result<Decision> decide(const Ask& ask, Instant now) noexcept;
  Result<Decision> decide(Prepared& prepared, Instant now) noexcept;
  // Decides many requests at one instant, in order. Requires as many answers as requests.
  void decide(std::span<const Request> requests, Instant now,
              std::span<Result<Decision>> answers) noexcept;
  // What decide() would say, charging nothing.
  Result<Decision> peek(const Request& request, Instant now) noexcept;
  Result<Prepared> prepare(const Request& request) noexcept;

  // Ends a hold: `actual` costs replace the charged ones in the units named, slots come back. Says
  // how the hold stands; only the first call changes anything.
  //
  // A part of a shared hold is kept in the store, so any engine may end it; the part of another
  // engine ends at its time. Such a call is answered when the store has answered, the others before
  // they return. A callback may be left out.
  void settle(HoldId hold, std::span<const Cost> actual, Instant now,
              HoldCallback answered = {}) noexcept;
  // Ends a hold and gives back what it was charged: slots whole, to windows and logs what still
  // counts, to buckets and tickers at most what they have had in use ever since (holds.md).
  void cancel(HoldId hold, Instant now, HoldCallback answered = {}) noexcept;
  // Lets an active hold last `ttl` from now. kActive, or how it has ended.
  void renew(HoldId hold, Duration ttl, Instant now, HoldCallback answered = {}) noexcept;

  // What one key has left. It is given as the values of the limit's key attributes, in their order.
  // Of a shared limit the store is asked.
  void inspect(std::string_view limit, std::span<const std::string_view> key, Instant now,
               InspectCallback answered) noexcept;
  // Forgets what one key has used, and what holds have been charged there: ended later, they
  // change nothing of it. Slots are not used but held: they come back when the work ends or
  // its hold is cancelled.
  void reset(std::string_view limit, std::span<const std::string_view> key, Instant now,
             StatusCallback answered = {}) noexcept;
  // Gives one key parameters of its own, or with std::nullopt those of its limit again. The kind of
  // meter stays, and so does what was used. kNotFound: there are none to take away.
  Status set_override(std::string_view limit, std::span<const std::string_view> key,
                      const std::optional<MeterSpec>& meter, Instant now) noexcept;

  // Puts another rule set in force, whole. Meters of limits that still exist keep
  // what was used. An error leaves the old rules in force.
  Status swap(std::shared_ptr<const RuleSet> rules, Instant now) noexcept;
  // Keeps room for a rule set, so that the next swap() cannot fail if it is to this one. For a
  // caller that changes more than the engine, all of it or nothing. Changes no decision.
  Status reserve(const RuleSet& rules, Instant now) noexcept;
  std::shared_ptr<const RuleSet> rules() const noexcept;

  // Tries every waiter. For when a gate of the rules has room again, or another size, and the
  // engine had no part in that.
  void try_waiters(Instant now) noexcept;
  // When the engine wants advance() to be called. kForever: not at all.
  Instant next_instant() const noexcept;
  // Expires holds, answers waiters, sweeps a bounded part of the table.
  void advance(Instant now) noexcept;
  // `hook` is told when next_instant() becomes earlier. Without a hook, the former one is forgotten
  // and told nothing more. The hook is called with a lock of the engine held, so it must not call
  // the engine: it wakes a thread, which asks next_instant(). That one has the last word, since two
  // threads may tell the hook in the wrong order.
  void set_wakeup(std::function<void(Instant)> hook) noexcept;

  // The keys that asked most of a limit, heaviest first, at most `count`.
  std::vector<HeavyKey> heaviest(std::string_view limit, std::size_t count) const noexcept;
  // What was decided so far. Peeks are not counted, waits when they end.
  Counts counts() const noexcept;
  Usage usage() const noexcept;

 private:
  friend class AdHoc;                                                  // ad_hoc.h
  friend class Collector;                                              // state.h
  friend void set_store(Engine& engine, SharedStore* store) noexcept;  // shared.h
  friend void end_holds(Engine& engine, std::string_view limit,
                        std::span<const std::string_view> key, Instant now,
                        EndedHoldsCallback answered) noexcept;
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// For who runs the program rather than asks it: cancels the holds that were charged at one key,
// wherever else they were charged too, and then does what Engine::reset() does. Of more than
// kHoldsEndedMax as many are ended, which the answer tells: call again. Of shared limits only slots
// know their holds: at others it is an error.
WEIR_EXPORT void end_holds(Engine& engine, std::string_view limit,
                           std::span<const std::string_view> key, Instant now,
                           EndedHoldsCallback answered = {}) noexcept;

}  // namespace weir::engine
