// Elsewhere: limits that are kept in a store. Charge what is here under a hold, ask the store,
// then keep the hold or cancel it.
//
//   ask ─► planned ─► behind an older one? ─► local limits, held ─► store ─► answer
//                        │ place                 │ refused              │ refused
//                        └──────────◄────────────┴─── until it may fit ─┘
//
//  1. An asking is answered once, or given up once. Until then its ticket is in `by_ticket_`,
//     from the moment at which it may wait or is answered late.
//  2. One thread at a time moves an asking on: the one that set its stage to kAsking, under the
//     lock. The others only look at it, under the lock.
//  3. What it has charged here is held (`held`) only while its stage is kAsking. When the store
//     refuses or cannot be asked, that hold is cancelled. An asking that was given up while the
//     store admitted it keeps nothing that has a hold; charges without one stay.
//  4. An asking that meets a limit where an older one has a place is not asked of the store: it
//     takes a place behind it, or is refused.
//  5. An asking that leaves lets the next one at each of its places be asked.
//
// Instants of the store are told as this process counts, so that what is left to wait is right
// whatever the clocks say.
//
// Thread safety: safe from any thread.

#pragma once

#include <atomic>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/shared.h"

namespace weir::engine {

// Where an asking is. Guarded by the lock.
enum class AskStage : std::uint8_t {
  kAsking,  // it is being decided
  kTimed,   // it was refused, and is tried again at an instant
  kBehind,  // an older one has a place where it has one
};

// One ask on its way to the store and back.
struct Asking {
  explicit Asking(const Request& asked) : request(asked) {}

  // The ask it was made of, whose `up_to` is this object's.
  Ask ask() const noexcept {
    return {.request = request.view(), .hold = hold, .up_to = up_to, .wait_until = wait_until};
  }
  // Its request, with what it wants now of the unit it takes a part of.
  Request lowered(boost::container::small_vector<Cost, 8>& costs) const;

  OwnedRequest request;
  Duration hold{};
  std::string up_to{};
  Instant wait_until{};
  bool is_peek = false;
  Instant asked_at{};

  // Who is told. Until it is late, `answers`, on the stack of the call that asked.
  Answers* answers = nullptr;
  std::size_t place = 0;
  LateAnswer late;

  std::shared_ptr<const Active> active;
  Plan plan;                              // all limits
  Result<Decision> local{std::in_place};  // what those of this engine said
  HoldId held{};                          // their charges
  bool wants_hold = false;
  Duration ttl{};

  std::int64_t want = 0;  // of up_to
  int lowered_times = 0;

  std::uint64_t ticket = 0;
  AskStage stage = AskStage::kAsking;
  bool is_waiting = false;   // it counts as a waiter
  bool is_given_up = false;  // its answer is not told
  // Limits of the plan at which an older one waits, a bit each: it is refused there, and
  // nothing is charged.
  std::uint32_t behind = 0;
  Instant behind_until{};  // not before then, as far as is known
  bool is_overloaded = false;
};

class Elsewhere {
 public:
  Elsewhere(Ground& ground, RulesInForce& rules, Counting& counting, Resolver& resolver,
            EndingHolds& ending)
      : ground_(ground),
        rules_(rules),
        counting_(counting),
        resolver_(resolver),
        ending_(ending),
        room_(ground.next_ticket) {}

  // Where shared limits are kept; it outlives every call. nullptr: there is none.
  void set_store(SharedStore* store) noexcept { store_.store(store, std::memory_order_release); }
  SharedStore* store() const noexcept { return store_.load(std::memory_order_acquire); }
  std::size_t waiters() const noexcept { return waiters_.load(std::memory_order_relaxed); }

  // Decides from what the store has drawn ahead. True: `decision` is final, and counted. False: the
  // store must be asked.
  bool decide_leased(const Plan& plan, Instant now, Decision& decision);
  // An ask whose plan, of these rules, meets a shared limit.
  void ask(const Ask& ask, std::shared_ptr<const Active> active, const Plan& plan, Instant now,
           std::size_t i, Answers& answers);
  // Takes a waiter of the memory's room over, with its ticket; start() goes on with it.
  std::shared_ptr<Asking> adopt(Waiter& waiter, Instant now);
  void start(const std::shared_ptr<Asking>& asking, Instant now) { go_on(asking, now); }
  // Gives up an answer that comes later. True: it will not come. False: no such ticket waits here.
  bool give_up(std::uint64_t ticket);

  // Ends or renews a hold of which a part is kept in the store, whichever engine made it.
  void end(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now,
           HoldCallback callback);
  void renew(HoldId hold, Duration ttl, Instant now, HoldCallback callback);
  // A hold that is kept here was ended: the store may know it, too.
  void ended_here(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now) {
    if (SharedStore* const store = this->store()) store->ended_here(hold, as, actual, now);
  }
  // One key of a shared limit of these rules.
  void inspect(const std::shared_ptr<const Active>& rules, const KeyedLimit& keyed,
               std::span<const std::string_view> key, Instant now, InspectCallback callback);
  void reset(const std::shared_ptr<const Active>& rules, const KeyedLimit& keyed,
             std::span<const std::string_view> key, Instant now, StatusCallback callback);
  // The holds of one key of a shared limit of these rules, at most `most`.
  void holds(const KeyedLimit& keyed, std::span<const std::string_view> key, std::size_t most,
             HoldsCallback callback);

 private:
  // --- one asking
  void go_on(const std::shared_ptr<Asking>& asking, Instant now);
  // Charges the limits of this engine, under a hold. True: `local` is what they said. False: newer
  // rules are in force, plan again.
  bool charge_local(Asking& asking, const Request& request, Instant now);
  void ask_store(const std::shared_ptr<Asking>& asking, const Request& request, Instant now);
  void hear(const std::shared_ptr<Asking>& asking, Result<SharedAnswer> said, Instant now);
  void admit(const std::shared_ptr<Asking>& asking, const SharedAnswer& said,
             Result<Decision>& answer, Instant now);
  void tell(const std::shared_ptr<Asking>& asking, const Result<Decision>& answer, Instant now);
  bool is_given_up(Asking& asking);
  void count(const Decision& decision) { counting_.count(*rules_.current(), decision); }
  // Of the slots of a plan, with what keys have of their own.
  Duration shortest_hold(const Plan& plan);
  // Answers the record that tells of it; 0: none.
  std::uint64_t end_local(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now);

  // --- waiting; those below require the lock
  // Makes it late, if it is not yet, so that it can be given up.
  void make_late(const std::shared_ptr<Asking>& asking);
  // Whether it waits because an older one does. If it may not wait so long, what it is behind
  // is noted instead.
  bool waits_behind(const std::shared_ptr<Asking>& asking, Instant now);
  // Whether a refused request is tried again later, because it may wait that long.
  bool try_later(const std::shared_ptr<Asking>& asking, Decision& decision, Instant now);
  void leave(Asking& asking);
  bool take_place(Waiter& waiter, const PlanItem& item);
  void stay(const std::shared_ptr<Asking>& asking, Waiter& waiter, AskStage stage, Instant until,
            Instant now);
  void set_alarm(Instant now);
  void wake(std::uint64_t ticket);
  void ring(Instant alarm, Instant now);
  bool is_waited_for(const Plan& plan);
  std::size_t waiting_at(Print print);
  void try_waiters(Print print);

  Ground& ground_;
  RulesInForce& rules_;
  Counting& counting_;
  Resolver& resolver_;
  EndingHolds& ending_;
  std::atomic<SharedStore*> store_{nullptr};
  // Those that may wait; its lock is the one of all that follows. Their timers have one alarm.
  WaitRoom room_;
  boost::unordered_flat_map<std::uint64_t, std::shared_ptr<Asking>> by_ticket_;
  Instant alarm_ = kForever;
  std::atomic<std::size_t> waiters_{0};
};

// The error for a shared limit without a store.
Error no_store(std::string_view limit);
// The error for a call that answers on the stack and meets a limit that lives in a store.
Error needs_store(const Plan& plan);

}  // namespace weir::engine
