// Rules in force: which limits apply now, and which keys have parameters of their own.
//
//  1. Exactly one Active is in force. Its generation is one more than that of the Active
//     before it, and `generation()` says it without a lock.
//  2. An Active never changes. A thread that keeps one by shared pointer may use it. Under the
//     lock of what it is about to change it compares generations, to learn that it is old.
//  3. A gate has one seat, under whichever limit, for as long as a hold, a waiter or an old
//     plan refers to it. So one lock guards it all the time.
//  4. A row that a slot names exists. Rows are freed only when no slot names them.
//  5. `overridden_` names the keys whose slots carry the override flag, at most
//     `overrides_max`, each with a limit in force of the same kind of meter.
//  6. Reserved rows exist, used or not, until a rule set is put in force.
//
// Thread safety: safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/result.h"
#include "weir/engine/internal/counting.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/table.h"
#include "weir/engine/state.h"

namespace weir::engine {

// A key of a limit, as a call names it.
struct KeyedLimit {
  const ActiveLimit* limit;
  Print print;
};

class RulesInForce {
 public:
  RulesInForce(Ground& ground, Counting& counting) : ground_(ground), counting_(counting) {}

  // The rules in force, kept by this thread until it asks again.
  const Active& current(Local& mine) {
    if (mine.active == nullptr || !is_in_force(mine.active->generation)) [[unlikely]] {
      mine.outlines.clear();
      mine.active = current();
    }
    return *mine.active;
  }
  std::shared_ptr<const Active> current() const {
    const std::scoped_lock lock(lock_);
    return active_;
  }
  bool is_in_force(std::uint64_t generation) const noexcept {
    return generation_.load(std::memory_order_acquire) == generation;
  }
  const std::atomic<std::uint64_t>& generation() const noexcept { return generation_; }

  // Makes the rows that a rule set needs.
  Status reserve(const RuleSet& rules, Instant now);
  // Puts a rule set in force. An error leaves the old one in force; there is none if the rule
  // set was the last one reserved.
  Status activate(std::shared_ptr<const RuleSet> rules, Instant now);

  // The key that a call names. An error says what is wrong with the name.
  static Result<KeyedLimit> find_key(const Active& active, std::string_view limit,
                                     std::span<const std::string_view> key);
  // The same of a limit whose keys are in the table.
  static Result<KeyedLimit> find_own_key(const Active& active, std::string_view limit,
                                         std::span<const std::string_view> key);

  // Gives a key parameters of its own, or those of its limit again.
  Status override_key(std::string_view limit, std::span<const std::string_view> key,
                      const MeterSpec& meter, Instant now);
  Status clear_override(std::string_view limit, std::span<const std::string_view> key, Instant now);

  // Runs `work` with the rules that stay in force meanwhile.
  template <typename Work>
  auto locked(Work&& work) {
    const std::scoped_lock lock(lock_);
    return work(*active_);
  }

  // --- for records of an earlier process (collecting.cc)
  // Retires the limits of records that mean nothing under the rules in force.
  Status retire_strangers(std::span<const RowRecord> records, Instant now);
  // These two inside locked(). True: the override is counted. False: there are as many as there may
  // be.
  bool note_override(Print print, std::string_view limit);
  void forget_override(Print print);

 private:
  using KeyOfPrint = std::pair<std::uint64_t, std::uint64_t>;

  Status locked_reserve(const RuleSet& rules, Instant now);
  std::shared_ptr<GateSeat> seat_of(const std::shared_ptr<Gate>& gate);
  ActiveLimit active_limit(const Rule& rule, const RuleSet& rules);
  void compact_rows(const Active& active, Instant now);
  void share_table(const Active& next);
  void keep_heavy(const Active& before);
  void end_overrides(std::string_view limit);
  // Gives the key's slot the shape of `row`, and the override flag or not.
  Status change_row(const KeyedLimit& keyed, RowId row, bool overridden_now, Instant now);

  Ground& ground_;
  Counting& counting_;
  mutable std::mutex lock_;
  std::shared_ptr<const Active> active_;
  std::atomic<std::uint64_t> generation_{0};
  std::uint64_t next_seat_order_ = 1;
  std::map<const Gate*, std::weak_ptr<GateSeat>> seats_;  // a seat keeps its gate's address taken
  std::map<KeyOfPrint, std::string_view> overridden_;
  std::vector<RowId> reserved_;
};

// Adopt: a slot of older rules comes under those in force.
//
// A slot names the row (limit and shape) it was last written under. When a limit
// has changed since, its meters are converted as they are touched: what was used
// is kept, rounded up unless only a bucket's burst changed. Nothing is carried
// over from another era of the limit (it was gone meanwhile, or changed between slots
// and spending).

// The error for a key for which the limit's share of the table has no room.
Error share_full(std::string_view limit, const SettingNames& names);

// Whether the slot is of another era, and no waiter has a place there: then its key counts as one
// that was never seen, until it is charged.
inline bool is_left_over(const Rows& rows, const ActiveLimit& limit, const Slot& slot) noexcept {
  // While a limit is retired its row may be dead before newer rules are in force.
  if (slot.row() == limit.row) return false;
  return !rows.at(slot.row()).carries_over_to(rows.at(limit.row)) &&
         (slot.meta() & meta::kWaiters) == 0;
}

// The shape of the slot's meter under `limit`: the limit's own, to which it is
// converted if need be, or that of its override. Needs the shard's lock and rules
// in force.
const MeterShape& adopt(const Rows& rows, const ActiveLimit& limit, Table& table, Shard& shard,
                        Slot& slot, Instant now) noexcept;

}  // namespace weir::engine
