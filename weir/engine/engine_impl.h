// The inside of the engine: what its source files share.
//
// Order of locks: room.lock, shared_room.lock or ending_lock, rules_lock, shards by number, gates
// by order; then, with nothing but a sketch's or a tally's under them, those of holds, locals, the
// stages of the table and the blocks of logs. The wake-up hook is called under wakeup_lock.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "weir/engine/attempt.h"
#include "weir/engine/engine.h"
#include "weir/engine/heavy.h"
#include "weir/engine/holds.h"
#include "weir/engine/outline.h"
#include "weir/engine/owned_request.h"
#include "weir/engine/plan.h"
#include "weir/engine/rows.h"
#include "weir/engine/shared.h"
#include "weir/engine/table.h"
#include "weir/engine/tallies.h"
#include "weir/engine/wait_room.h"

namespace weir::engine {

// Waiters that have left the room, and what they are told.
using Answers = std::vector<std::pair<std::unique_ptr<Waiter>, Result<Decision>>>;

// What one thread keeps of one engine: the rules it last saw, the kinds of requests
// it met under them, its sketch, and the answers it has to deliver.
struct Local {
  Local(std::size_t heavy_places, std::uint32_t sample_every, std::uint64_t seed)
      : random(static_cast<std::minstd_rand::result_type>(seed)),
        until_sample(until_next(sample_every)),
        heavy(heavy_places) {}

  // Decisions until the next sample: `every` in the mean, and at random, so that traffic with a
  // rhythm is not always met at the same beat.
  std::uint32_t until_next(std::uint32_t every) {
    const std::uint64_t twice = 2 * static_cast<std::uint64_t>(every);
    const auto next = std::uniform_int_distribution<std::uint64_t>(1, twice - 1)(random);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(next, ~std::uint32_t{0}));
  }

  std::shared_ptr<const Active> active;  // the thread's own: no other one reads it
  Outlines outlines;
  std::minstd_rand random;
  std::uint32_t until_sample;
  Tallies tallies;
  std::mutex lock;  // of the sketch
  HeavyKeys heavy;
  std::atomic<bool> is_gone{false};  // the engine
  std::deque<std::pair<Answers, Instant>> deliveries;
  bool is_delivering = false;
};

// The engine this thread used last; engine ids are never used twice.
struct LastUsed {
  std::uint64_t engine = 0;
  Local* local = nullptr;
};
extern constinit thread_local LastUsed last_used;

// Which meters of a shard a store asks for.
enum class Collect : std::uint8_t { kChanged, kWhole };

struct Prepared::Impl {
  explicit Impl(const Request& asked) : request(asked) {}

  OwnedRequest request;
  std::shared_ptr<const Active> active;
  Plan plan;
};

inline bool is_acceptable(Instant now) noexcept { return now.ns >= 0 && now.ns <= kInstantNsMax; }

enum class AskStage : std::uint8_t;  // asking.h

struct Engine::Impl {
  explicit Impl(const EngineOptions& given);
  ~Impl();

  enum class Mode : std::uint8_t {
    kCharge,
    kAhead,  // charge; an admission is not the last word: it is not counted
    kTry,    // charge; a denial is not the last word: it is neither counted nor told to gates
    kPeek,
  };

  // --- rules and threads (engine.cc)
  Local& local() { return last_used.engine == id ? *last_used.local : find_local(); }
  Local& find_local();
  // The rules in force, kept by this thread until it asks again.
  const Active& current(Local& mine) {
    if (mine.active == nullptr ||
        mine.active->generation != generation.load(std::memory_order_acquire)) [[unlikely]] {
      mine.outlines.clear();
      mine.active = current_shared();
    }
    return *mine.active;
  }
  std::shared_ptr<const Active> current_shared() const;
  Status activate(std::shared_ptr<const RuleSet> rules, Instant now);
  std::shared_ptr<GateSeat> seat_of(const std::shared_ptr<Gate>& gate);
  void compact_rows(const Active& active, Instant now);
  void end_overrides(std::string_view limit);
  // Looks at one decision in so many for the heavy keys.
  void sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
              const Request& request) {
    if (mine.until_sample > 1) [[likely]] {
      mine.until_sample -= 1;
    } else {
      take_sample(mine, rules, items, request);
    }
  }
  void take_sample(Local& mine, const Active& rules, std::span<const PlanItem> items,
                   const Request& request);

  // Counts a decision at the limits that made it (tally_calls.cc).
  static void count(Local& mine, const Plan& plan, const Decision& decision);
  // The same of a plan that was decided directly: no limit of it is in shadow.
  static void count_direct(Local& mine, const Plan& plan, const Decision& decision) {
    if (plan.count != 1 && !decision.allowed()) return count(mine, plan, decision);
    for (const PlanItem& item : plan.limits()) {
      mine.tallies.add(item.limit->tally, static_cast<std::size_t>(decision.verdict));
    }
  }
  // The same, some time after the plan was made.
  void count(const Decision& decision);
  // Requires rules_lock.
  std::uint32_t tally_of(std::string_view limit);

  // --- one key (key_calls.cc)
  struct KeyedLimit {
    const ActiveLimit* limit;
    Print print;
  };
  static Result<KeyedLimit> find_key(const Active& active, std::string_view limit,
                                     std::span<const std::string_view> key);
  // The same of a limit whose keys are in the table.
  static Result<KeyedLimit> find_own_key(const Active& active, std::string_view limit,
                                         std::span<const std::string_view> key);
  // Gives the key's slot the shape of `row`, and the override flag or not.
  Status change_row(const KeyedLimit& keyed, RowId row, bool overridden_now, Instant now);

  // --- one decision (decide.cc the short way, resolve.cc the long way)
  enum class Attempted : std::uint8_t {
    kDone,
    kMetWaiters,  // try again with room.lock
    kStale,       // newer rules are in force: plan again
  };
  void decide(const Request& request, Instant now, Result<Decision>& answer);
  void acquire(const Request& request, const AcquireOptions& asked, Mode mode, Instant now,
               Result<Decision>& answer);
  // False: newer rules are in force, plan again.
  bool decide(const Plan& plan, const Request& request, const AcquireOptions& asked, Mode mode,
              Instant now, Result<Decision>& answer);
  // The short way, for a plain decision over meters whose keys are known, neither
  // waited for nor overridden. False: go the long way.
  bool decide_directly(const Plan& plan, Instant now, Decision& decision);
  // The long way. False: newer rules are in force, plan again.
  bool decide_at_length(const Plan& plan, const Request& request, Instant now,
                        Result<Decision>& answer);
  // The whole plan of a request that meets one limit without conditions. False: it takes more.
  [[gnu::always_inline]] static inline bool plan_one(Local& mine, const Active& rules,
                                                     const Request& request, PlanItem& item);
  void decide_batch(std::span<const Request> requests, Instant now,
                    std::span<Result<Decision>> answers);
  [[gnu::always_inline]] inline bool decide_one(const PlanItem& item, std::uint64_t planned_under,
                                                Instant now, Decision& decision);
  bool deny_unlocked(const Shard& shard, const PlanItem& item, std::uint64_t planned_under,
                     Instant now, Decision& decision);
  bool decide_several(const Plan& plan, Instant now, Decision& decision);
  Attempted attempt_once(const Plan& plan, const Request& request, const AcquireOptions& asked,
                         Mode mode, Instant now, bool in_room, Result<Decision>& answer);
  // The part between lock and unlock. `ticket`: that of a waiter, or kNewcomer.
  // Requires room.lock if somebody waits at a gate of the plan.
  Status resolve(Attempt& attempt, const Plan& plan, const Request& request,
                 const AcquireOptions& asked, Mode mode, std::uint64_t ticket, Decision& decision);

  Result<AdHocStep> take_ad_hoc(AdHocKey key, const meter::BucketShape& shape, std::int64_t cost,
                                Instant now);  // ad_hoc_calls.cc

  // Decides from what the store has drawn ahead. False: it must be asked.
  bool decide_leased(const Plan& plan, Instant now, Decision& decision);

  // --- limits that are kept elsewhere (shared_calls.cc)
  // Says that ask() is to be called, or that there is no store.
  void point_elsewhere(const Plan& plan, Result<Decision>& answer) const;
  struct Asking;
  void ask(const Request& request, const AcquireOptions& asked, Instant now, Instant deadline,
           WaitCallback callback);
  void ask(const std::shared_ptr<Asking>& asking, Instant now);
  void ask_store(const std::shared_ptr<Asking>& asking, const Request& request, Instant now);
  // Of the slots of a plan, with what keys have of their own.
  Duration shortest_hold(const Plan& plan);
  static void set_want(Asking& asking, std::int64_t want);
  static bool lower_want(Asking& asking, const SharedAnswer& said);
  bool charge_local(Asking& asking, const Request& request, Instant now);
  void answer_shared(const std::shared_ptr<Asking>& asking, Result<SharedAnswer> said, Instant now);
  void end_local(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now);
  void finish(const std::shared_ptr<Asking>& asking, const Result<Decision>& answer);
  void end_shared(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now,
                  HoldCallback callback);

  // --- waiting for limits that are kept elsewhere (shared_waiting.cc)
  // Gives a request that may wait its ticket.
  void enter(const std::shared_ptr<Asking>& asking);
  // Whether it waits because somebody older does. If it may not wait so long, what it is behind
  // is noted instead.
  bool waits_behind(const std::shared_ptr<Asking>& asking, Instant now);
  // Whether a refused request is tried again later, because it may wait that long.
  bool try_later(const std::shared_ptr<Asking>& asking, Decision& decision, Instant now);
  // Gives up its places; whoever is next there is tried.
  void leave(Asking& asking);
  // Takes a place, if there is one left. Requires shared_room.lock, as do the next three.
  bool take_shared_place(Waiter& waiter, const PlanItem& item);
  void stay(Asking& asking, Waiter& waiter, AskStage stage, Instant until, Instant now);
  void set_alarm(Instant now);
  void wake(std::uint64_t ticket);
  void ring(Instant alarm, Instant now);
  bool waits_somebody(const Plan& plan);
  std::size_t shared_waiting_at(Print print);
  void try_shared_waiters(Print print);

  // --- holds (hold_calls.cc)
  // What is wrong with the actual costs of a hold, if something is.
  std::optional<Error> check_settlement(HoldId hold, std::span<const Cost> actual, Instant now);
  HoldState end_hold(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now);
  void expire_holds(Instant now);
  // Gives one charge back to a keyed limit (an overage: back < 0). True: somebody
  // waits there.
  bool give_back(const HoldCharge& charge, std::int64_t back, Instant now);
  // Returns the prints of gates where somebody waits for what came back.
  std::vector<Print> give_back(const HoldCharges& charges, HoldState as,
                               std::span<const Cost> actual, Instant now);

  // --- waiting (wait_calls.cc)
  Result<WaitStart> wait(const Request& request, const WaitOptions& options, Instant now,
                         WaitCallback callback);
  // Tries a waiter once. False: `answer` is final. True: it waits on, at a gate.
  bool keeps_waiting(Waiter& waiter, Instant now, Result<Decision>& answer);
  bool keeps_waiting(Waiter& waiter, Attempt& attempt, Result<Decision>& answer);
  // Plans again if newer rules are in force, or says what they find wrong.
  std::unique_ptr<Error> follow_rules(Waiter& waiter);
  // After a change of rules: keeps the places at limits that the request still meets.
  void keep_places(Waiter& waiter);
  // Gives up all places; whoever is next at one of them is added to `next`.
  void leave_places(Waiter& waiter, std::set<std::uint64_t>& next);
  void leave_place(Waiter& waiter, const Waiter::Held& held);
  // Tries waiters, oldest first, and whoever moves up because of them.
  Answers serve(std::set<std::uint64_t> tickets, Instant now);
  void serve_gates(const std::vector<Print>& prints, Instant now);
  void serve_due(Instant now);
  void serve_everybody(Instant now);
  void deliver(Answers answers, Instant now);
  void deliver(Waiter& waiter, const Result<Decision>& answer, Instant now);

  // --- state that outlives the process (state_calls.cc)
  Result<RestoreReport> restore(const MeterChanges& meters, Instant now);
  Result<RestoreReport> restore(const HoldChanges& holds, Instant now);
  // Retires the limits of records that mean nothing under the rules in force.
  Status retire_strangers(std::span<const RowRecord> records, Instant now);
  void collect(std::size_t shard, Collect which, Instant now, MeterChanges& out);
  Status restore_meter(const MeterChanges& meters, const MeterRecord& record,
                       std::span<const RowId> row_ids, Instant now, RestoreReport& report);
  // Puts back what a hold keeps in flight.
  Status restore_in_flight(const ActiveLimit& limit, Print print, std::int64_t amount, Instant now);

  Instant next_instant() const noexcept;
  // Tells the hook if the next instant is earlier than it knows.
  void announce();
  void announce_next();  // requires wakeup_lock

  const EngineOptions options;
  const Secret secret;
  const std::uint64_t id;
  Rows rows;
  Table table;
  Holds holds;
  WaitRoom room;

  const Print ad_hoc_seed;
  const RowId ad_hoc_row;

  mutable std::mutex rules_lock;  // active, rows, seats and overridden
  std::shared_ptr<const Active> active;
  std::atomic<std::uint64_t> generation{0};
  std::uint64_t next_seat_order = 1;
  std::map<const Gate*, std::weak_ptr<GateSeat>> seats;  // a seat keeps its gate's address taken
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string_view> overridden;  // print to limit
  std::map<std::string, std::uint32_t, std::less<>> tally_places;

  // Held together by those who end holds, until what they were charged has come back; by a
  // reset alone, so that nothing charged before it comes back after.
  std::shared_mutex ending_lock;

  std::mutex locals_lock;
  std::vector<std::shared_ptr<Local>> locals;
  HeavyKeys departed;  // of threads that have ended
  TallySums departed_tallies;

  std::mutex wakeup_lock;
  std::function<void(Instant)> wakeup;
  std::atomic<bool> has_wakeup{false};
  std::atomic<std::int64_t> announced_ns{kForever.ns};

  std::atomic<std::size_t> sweep_shard{0};
  std::atomic<SharedStore*> shared_store{nullptr};
  // Those who wait for the store. Their timers are the room's, with one alarm for all.
  WaitRoom shared_room;
  std::map<std::uint64_t, std::shared_ptr<Asking>> asking_by_ticket;  // guarded by its lock
  Instant shared_alarm = kForever;                                    // guarded by its lock
  std::atomic<std::size_t> shared_waiters{0};
};

// Places in tallies that are no limit's: ad-hoc buckets, and limits beyond the bound.
constexpr std::uint32_t kAdHocTally = 0;
constexpr std::uint32_t kOtherTally = 1;
constexpr std::uint32_t kTalliesMax = 65'536;

constexpr std::uint64_t kNewcomer = ~std::uint64_t{0};

// What is wrong with options, if something is.
std::optional<Error> check_options(const AcquireOptions& options, const Request& request);
// The cost in a unit; 0 if there is none.
std::int64_t wanted(const Request& request, std::string_view unit);

// The error for a shared limit without a store.
Error no_store(std::string_view limit);

// The error for an instant outside what meters accept.
Error unacceptable_instant(Instant now);

}  // namespace weir::engine
