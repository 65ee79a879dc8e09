// Attempt: one try to pass all the gates of a plan, all or nothing.
//
// Construction locks every gate of the plan in the global order (shards by
// number, then system gates by order) and looks its meters up; destruction
// unlocks. In between the caller asks check(), and if everything fits and no older
// request waits, charge(). No gate is ever charged unless all enforced ones fit.
//
// Meters see one instant: `now`, or the last charge of any of the locked shards
// if that is later, so that time running backwards counts as no time passed.
//
// Thread safety: one thread uses an attempt; it holds locks, so keep it short.

#pragma once

#include <array>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <span>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/engine/internal/holds.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/table.h"
#include "weir/engine/options.h"

namespace weir::engine {

// Shards, locked. First each as it comes: a thread that only tries a lock waits for none, so
// it needs no order. If one is taken, all are let go and locked one by one, in order. One that
// is named twice is locked once.
class LockedShards {
 public:
  explicit LockedShards(std::span<Shard* const> shards) noexcept {
    std::size_t count = 0;
    for (Shard* const shard : shards) {
      if (!shard->try_lock()) [[unlikely]] {
        count_ = count;
        unlock();
        lock_in_order(shards);
        return;
      }
      shards_[count++] = shard;
    }
    count_ = count;
  }
  ~LockedShards() { unlock(); }
  LockedShards(const LockedShards&) = delete;
  LockedShards& operator=(const LockedShards&) = delete;

  // `now`, or the last charge of any of them if that is later.
  Instant at_least(Instant now) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) now = shards_[i]->at_least(now);
    return now;
  }
  void charged_at(Instant now) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      shards_[i]->latest_ns.store(now.ns, std::memory_order_relaxed);
    }
  }

 private:
  void lock_in_order(std::span<Shard* const> shards) noexcept;
  void unlock() noexcept {
    for (std::size_t i = 0; i < count_; ++i) shards_[i]->unlock();
    count_ = 0;
  }

  std::array<Shard*, kLimitsPerRequestMax> shards_;  // distinct
  std::size_t count_ = 0;
};

// What the checks of several limits amount to. The limit that keeps the request
// waiting longest is the one that binds; `never` binds before everything.
struct Ruling {
  explicit Ruling(Instant now) noexcept : earliest(now) {}

  void add(std::size_t limit, const meter::Check& check) noexcept {
    if (check.allowed()) return;
    const bool worse =
        check.verdict == verdict ? check.earliest > earliest : check.verdict == Verdict::kNever;
    if (binding >= 0 && !worse) return;
    verdict = check.verdict;
    binding = static_cast<int>(limit);
    earliest = check.earliest;
    shortfall = check.shortfall;
  }
  bool allowed() const noexcept { return verdict == Verdict::kAllowed; }

  void write_to(Decision& decision) const noexcept {
    decision.verdict = verdict;
    decision.binding_index = static_cast<std::int8_t>(binding);
    decision.earliest = earliest;
    decision.shortfall = shortfall;
  }

  Verdict verdict = Verdict::kAllowed;
  int binding = -1;
  Instant earliest;
  std::int64_t shortfall = 0;  // of the limit that binds
};

class Attempt {
 public:
  using Items = std::bitset<kLimitsPerRequestMax>;

  Attempt(Table& table, const Rows& rows, const std::atomic<std::uint64_t>& generation,
          const SettingNames& names, const Plan& plan, const Request& request,
          Instant now) noexcept;
  ~Attempt();
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Instant now() const noexcept { return now_; }

  // Newer rules are in force than the plan was made under. Nothing was looked up,
  // and nothing else may be asked.
  bool is_stale() const noexcept { return stale_; }

  // Where a request queues at the gate of item `i`: those with the same place do so
  // behind one another.
  Print place(std::size_t i) const noexcept { return items_[i].place; }

  // Whether a waiter may have a place at the gate of item `i`, or of any item.
  bool has_waiters(std::size_t i) const noexcept;
  bool has_waiters() const noexcept;

  // Whether the request takes nothing of item `i`, so that it passes all who wait there. What a
  // cost of nothing means to a gate is the gate's to say.
  bool takes_nothing(std::size_t i) const noexcept {
    return seat(i) == nullptr && items_[i].cost == 0;
  }

  // Lowers the cost in `unit` to the most that every limit counting it can give
  // now, at least 1 unit, at most `want`. Returns it; 0: nothing is left, and the
  // cost is that of one unit.
  std::int64_t limit_to_available(std::string_view unit, std::int64_t want) noexcept;

  // Asks every gate. Takes nothing.
  void check() noexcept;

  // What follows is asked for a waiter: gates that give places go by the one it has.
  void enter(std::uint64_t ticket) noexcept;
  bool gives_places(std::size_t i) const noexcept {
    return seat(i) != nullptr && seat(i)->gate->gives_places();
  }
  // Lets the waiter take its places at gates that give them, all at one start, if no other limit
  // keeps it waiting longer; or leave them. Requires that the attempt does not pass.
  Items settle_places(std::uint64_t ticket) noexcept;

  // Item `i` is refused because an older waiter is there, at least until
  // `earliest`. After check().
  void refuse(std::size_t i, Instant earliest) noexcept;

  // Whether every enforced limit fits. After check().
  bool passes() const noexcept { return ruling_.allowed(); }

  // Whether it is refused only for now. After check().
  bool may_pass_later() const noexcept { return ruling_.verdict == Verdict::kDenied; }

  // The item that binds. Requires that the attempt does not pass.
  std::size_t binding() const noexcept { return static_cast<std::size_t>(ruling_.binding); }

  // When the whole request fits, all limits considered together.
  Instant earliest() const noexcept { return ruling_.earliest; }

  // When it is worth trying again if nothing is freed before: earliest(), or when the item
  // that binds would pass by itself if gates cannot agree on an instant. Requires that the
  // attempt does not pass.
  Instant try_again_at() const noexcept {
    return earliest() != kForever ? earliest() : alone_at(binding());
  }

  // When item `i` alone would pass; kForever: unknown. After check().
  Instant alone_at(std::size_t i) const noexcept { return items_[i].check.earliest; }

  // The first item that takes something and cannot be booked ahead, or the plan's count: every
  // enforced one can. Meters that can say when a cost fits can be booked, and gates that say so.
  std::size_t unbookable() const noexcept;

  // Finds the first start up to `latest` at which all enforced limits fit. Requires that all can be
  // booked; after check(), instead of passes().
  bool find_booking(Instant latest) noexcept;

  // Takes the costs, at now() or at the start that find_booking() found. An error
  // means that a bound of the process is reached; then nothing is charged. `held`: the
  // work keeps a hold.
  Status charge(bool held);

  // The request is refused for good: tells the gates that have refused it themselves.
  void tell_refused() noexcept;

  // A meter that starts empty begins to fill when it is first asked. An error: there is
  // no room for one, so it would begin anew with every request.
  Status start_fresh_tickers();

  // For when no hold can be kept, so that nothing in flight would ever come back. True: slots in
  // shadow are left out of what is charged. False: a limit that is enforced has slots.
  bool leave_out_slots() noexcept;

  // When the charged work starts: now(), or the booked start.
  Instant start() const noexcept { return start_; }

  // Appended to `charges`, which is empty.
  HoldCharges charges(HoldCharges charges) const;
  Duration shortest_slots_hold() const noexcept;

  // A lower bound on when item `i` can pass if `ahead` units pass there first.
  Instant projected(std::size_t i, std::int64_t ahead) const noexcept;

  // Requests that may wait at item `i`.
  std::size_t queue_max(std::size_t i) const noexcept;

  // One more request waits at item `i`, whether or not its queue is full. True: it is counted
  // there. False: there is no room for the key.
  bool enqueue(std::size_t i);

  void report(Decision& decision) const noexcept;

 private:
  struct Item {
    Slot* slot;  // nullptr: never seen, or a gate
    Print place;
    const MeterShape* shape;
    Words words;  // before; after charge(), what was stored
    Words taken;  // of a self-contained meter: the words if check() allows it
    bool is_self_contained;
    bool is_concern;  // of the gate
    bool gate_refused;
    std::int64_t cost;
    meter::Check check;
    Instant charged_at;
    std::uint64_t receipt;  // of a gate, or the mark of an ebb
  };

  const PlanItem& planned(std::size_t i) const noexcept { return plan_.items[i]; }
  GateSeat* seat(std::size_t i) const noexcept { return planned(i).limit->seat; }
  Shard& shard(std::size_t i) const noexcept { return table_.shard_of(planned(i).print); }
  void look_up(std::size_t i) noexcept;
  void leave_out_unbooked() noexcept;
  Slot* slot_for(std::size_t i);
  bool needs_slot(std::size_t i) const noexcept;
  bool starts_empty(std::size_t i) const noexcept;
  std::size_t make_slots(Items needed);
  Status need_slots(Items needed);
  void charge_item(std::size_t i, bool held) noexcept;
  Error table_full(std::size_t i) const;
  Error logs_full(std::size_t i) const;
  std::int64_t available(std::size_t i) const noexcept;
  void judge() noexcept;
  void settle_earliest() noexcept;
  bool can_book(std::size_t i) const noexcept;
  Instant bookable_from(std::size_t i, Instant from) const noexcept;

  Table& table_;
  const SettingNames& names_;
  const Rows& rows_;
  const Plan& plan_;
  const Request& request_;
  LockedShards shards_;
  Instant now_;
  Instant start_;  // now_, or the booked start
  Ruling ruling_;
  std::uint64_t record_ = 0;  // that tells of what gates were charged
  bool stale_ = false;
  bool charged_ = false;
  bool booked_ = false;
  Items left_out_;  // in shadow, and not charged
  union {
    std::array<Item, kLimitsPerRequestMax> items_;  // written up to plan_.count
  };
};

}  // namespace weir::engine
