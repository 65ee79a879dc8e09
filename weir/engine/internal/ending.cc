// Ending, inside. The header says what holds; this is how a charge comes back:
//
//  1. The book gives the charges of a hold to one call only. From then on they are this call's, and
//     it gives back each of them, to its meter or its gate.
//  2. A charge goes to the meter that its limit has now: same name, same key, under the rules that
//     are in force under the shard's lock. A limit that is gone, or came back in another era, gets
//     nothing. Nor does a window or a log get what another kind of meter was charged.
//  3. What is to come back depends on how the hold ended. Cancelled: everything. Settled: the
//     difference to the actual cost, which may be an overage. Expired: nothing. Slots always come
//     back whole. Of that a bucket or ticker gets at most the ebb of the charge (ebbs.h).
//  4. An overage is taken whatever is there, so a meter may go into debt. Only a log without room
//     for another run loses it.
//  5. Holds whose time has come are ended by expire(). They are over before it comes to them: every
//     other call asks the book, and the book looks at the time.

#include "weir/engine/internal/ending.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "weir/engine/internal/elsewhere.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/internal/waiting.h"
#include "weir/engine/quantity.h"

namespace weir::engine {
namespace {

// What the charge would have been had the actual costs been known. Units that
// are not named keep what was charged.
std::int64_t actual_amount(const HoldCharge& charge, std::span<const Cost> actual) {
  const std::optional<std::int64_t> amount = amount_in(actual, charge.unit);
  // check_actual() has seen to it that the product is at most 2^62; a reset meanwhile makes
  // the weight 0.
  return amount ? *amount * charge.weight : charge.amount;
}

Ending ending_of(HoldState as) {
  if (as == HoldState::kSettled) return Ending::kSettled;
  return as == HoldState::kCancelled ? Ending::kCancelled : Ending::kExpired;
}

// A unit is known if the rules know it, or the hold was charged in it. The units of a hold that has
// ended are forgotten: then any unit will do, and the answer is how the hold ended.
std::optional<Error> check_actual(const Active& active, Holds& holds, HoldId hold,
                                  std::span<const Cost> actual, Instant now) {
  const RuleSet& rules = *active.rules;
  const bool is_active = holds.state(hold, now) == HoldState::kActive;
  for (const Cost& cost : actual) {
    const auto is_same = [&](const Cost& other) { return other.unit == cost.unit; };
    if (std::count_if(actual.begin(), actual.end(), is_same) > 1) {
      return bad_argument(
          fmt::format("settle: the actual cost in '{}' is given twice; write their sum once",
                      cost.unit.substr(0, kNameBytesMax)));
    }
    const std::optional<Holds::Weighed> charged = holds.charged_in(hold, cost.unit);
    const auto where = [&] {
      return charged ? fmt::format("limit '{}'", charged->limit) : "settle";
    };
    if (is_active && !charged && rules.units().find(cost.unit) == rules.units().size()) {
      return bad_argument(fmt::format(
          "settle: unit '{}' is unknown; known are {}; correct the name, or {}",
          cost.unit.substr(0, kNameBytesMax), rules.units().joined(), active.names.declare_unit));
    }
    if (cost.amount < 0 || cost.amount > kTermMax) {
      return bad_argument(fmt::format(
          "{}: the actual cost in '{}' is {}, but it must be between 0 and 2^62; write what was "
          "really used",
          where(), cost.unit, cost.amount));
    }
    if (charged && Wide{cost.amount} * charged->weight > kTermMax) {
      return bad_argument(fmt::format(
          "{}: an actual cost of {} times a weight of {} exceeds 2^62; write a smaller one",
          where(), cost.amount, charged->weight));
    }
  }
  return std::nullopt;
}

}  // namespace

EndingHolds::EndingHolds(Ground& ground, RulesInForce& rules, Elsewhere& elsewhere,
                         Waiting& waiting, Wakeup& wakeup)
    : ground_(ground),
      rules_(rules),
      elsewhere_(elsewhere),
      waiting_(waiting),
      wakeup_(wakeup),
      holds_(ground.options.owner ? *ground.options.owner : random_secret()[0],
             ground.options.holds_max, ground.options.durable) {}

std::optional<Error> EndingHolds::check_settlement(HoldId hold, std::span<const Cost> actual,
                                                   Instant now) {
  return check_actual(*rules_.current(), holds_, hold, actual, now);
}

bool EndingHolds::give_back(const HoldCharge& charge, std::int64_t back, Instant now) {
  Shard& shard = ground_.table.shard_of(charge.print);
  for (;;) {
    const std::shared_ptr<const Active> in_force = rules_.current();
    const ActiveLimit* limit = in_force->find(charge.limit);
    const std::scoped_lock lock(shard);
    if (!rules_.is_in_force(in_force->generation)) continue;
    // A limit that went and came back gets nothing of what its former self charged.
    const bool is_here =
        limit != nullptr && limit->seat == nullptr && ground_.rows.at(limit->row).era == charge.era;
    Ebbs::End end(ground_.table.ebbs(shard), charge.print,
                  {charge.receipt, charge.amount, charge.charged_at});
    return is_here && give_back(*limit, shard, charge, back, now, end);
  }
}

bool EndingHolds::give_back(const ActiveLimit& limit, Shard& shard, const HoldCharge& charge,
                            std::int64_t back, Instant now, Ebbs::End& end) {
  if (limit.is_slots) back = charge.amount;
  const Instant at = shard.at_least(now);
  Table& table = ground_.table;
  Slot* slot = table.find(shard, charge.print);
  // A forgotten meter was back in its initial state: only an overage is news.
  if (slot == nullptr && back < 0) {
    slot = table.insert(shard, charge.print, limit.row, initial_words(limit.shape, at), at);
  }
  if (slot == nullptr || back == 0) return false;
  const MeterShape& shape = adopt(ground_.rows, limit, table, shard, *slot, at);
  Words words = slot->words();
  if (back < 0) {
    if (reserve(shape, words, table.logs, at)) {
      // A log forgets what no longer counts, so no decision may be earlier.
      if (!charge_overage(shape, words, table.logs, at, -back, overage_of(*limit.rule, shape))) {
        ground_.locals.mine().tallies.add(limit.tally, kClipped);
      }
      shard.latest_ns.store(at.ns, std::memory_order_relaxed);
      end.overdrawn(shape, words, at);
    }
  } else if (has_ebbs(shape)) {
    end.give_back(back, shape, words, at);
  } else {
    // Windows and logs know charges by their instants, which other meters do not keep.
    const MeterKind kind = kind_of(shape);
    const bool keeps_instants = kind == MeterKind::kWindow || kind == MeterKind::kLog;
    if (keeps_instants && kind != charge.kind) return false;
    engine::give_back(shape, words, table.logs, at, charge.charged_at, back);
  }
  slot->set_words(words);
  shard.mark_changed(*slot);
  return (slot->meta() & meta::kWaiters) != 0;
}

EndingHolds::GivenBack EndingHolds::give_back(const HoldCharges& charges, HoldState as,
                                              std::span<const Cost> actual, Instant now) {
  GivenBack given;
  for (const HoldCharge& charge : charges) {
    // Units to return: all of a cancelled hold, none of an expired one (unless
    // they are slots, which end with the work), the difference of a settled one.
    std::int64_t back = 0;
    if (as == HoldState::kCancelled) back = charge.amount;
    if (as == HoldState::kSettled) back = charge.amount - actual_amount(charge, actual);
    if (charge.seat == nullptr) {
      if (give_back(charge, back, now)) given.waited_for.push_back(charge.print);
      continue;
    }
    const std::scoped_lock lock(*charge.seat);
    charge.seat->gate->end(
        now, {ending_of(as), charge.charged_at, charge.amount, back, actual, charge.receipt});
    given.record = std::max(given.record, charge.seat->gate->last_record());
    if (charge.seat->waiters > 0) given.waited_for.push_back(charge.seat->print);
  }
  return given;
}

HoldAnswer EndingHolds::end(HoldId hold, HoldState as, std::span<const Cost> actual, Instant now) {
  GivenBack given;
  HoldState ended;
  {
    const std::shared_lock lock(ending_lock_);
    auto [charges, state] = holds_.end(hold, as, now);
    ended = state;
    if (!charges) return {ended};
    given = give_back(*charges, as, actual, now);
    holds_.recycle(std::move(*charges));
  }
  waiting_.serve_gates(given.waited_for, now);
  return {ended, given.record};
}

void EndingHolds::expire(Instant now) {
  std::vector<Print> waited_for;
  {
    const std::shared_lock lock(ending_lock_);
    while (auto charges = holds_.expire_one(now)) {
      for (const Print print : give_back(*charges, HoldState::kGone, {}, now).waited_for) {
        waited_for.push_back(print);
      }
      holds_.recycle(std::move(*charges));
    }
  }
  waiting_.serve_gates(waited_for, now);
}

Result<HoldState> EndingHolds::renew(HoldId hold, Duration ttl, Instant now) {
  if (ttl.count() < 1 || ttl.count() > kTermMax / 2) {
    return bad_argument(
        fmt::format("renew: the time to live is {} ns, but it must be between 1 ns and 2^61 ns; "
                    "write a duration "
                    "such as '60s'",
                    ttl.count()));
  }
  if (ttl > ground_.options.hold_max) {
    return bad_argument(fmt::format(
        "renew: the time to live is '{}', but {} allows at most '{}'; renew it in time and "
        "again, or raise {}",
        duration_text(ttl), ground_.options.names.hold, duration_text(ground_.options.hold_max),
        ground_.options.names.hold));
  }
  if (holds_.renew(hold, now + ttl, now)) {
    wakeup_.announce();
    return HoldState::kActive;
  }
  return holds_.state(hold, now);
}

Status EndingHolds::reset(std::string_view limit, std::span<const std::string_view> key,
                          Instant now) {
  Table& table = ground_.table;
  Print changed;
  {
    const std::scoped_lock ending_lock(ending_lock_);
    // The rules stay in force meanwhile.
    Status status = rules_.locked([&](const Active& active) -> Status {
      Result<KeyedLimit> keyed = RulesInForce::find_own_key(active, limit, key);
      if (!keyed) return std::move(keyed).error();
      changed = keyed->print;
      // What is in flight was not spent: it comes back when the work ends.
      if (keyed->limit->is_slots) return Done{};
      Shard& shard = table.shard_of(changed);
      const std::scoped_lock lock(shard);
      Slot* slot = table.find(shard, changed);
      const Instant at = shard.at_least(now);
      holds_.forget_charges(changed);
      table.ebbs(shard).drain(changed);
      if (slot == nullptr || is_left_over(ground_.rows, *keyed->limit, *slot)) return Done{};
      const MeterShape& shape = adopt(ground_.rows, *keyed->limit, table, shard, *slot, at);
      release(shape, slot->words(), table.logs);
      slot->set_words(initial_words(shape, at));
      shard.mark_changed(*slot);
      return Done{};
    });
    if (!status) return status;
  }
  waiting_.serve_gates({changed}, now);
  return Done{};
}

void EndingHolds::end_key(const KeyedLimit& keyed, std::span<const std::string_view> key,
                          Instant now, EndedHoldsCallback callback) {
  if (!keyed.limit->is_shared) {
    return end_all(holds_.charged_at(keyed.print, kHoldsEndedMax), now, std::move(callback));
  }
  elsewhere_.holds(keyed, key, kHoldsEndedMax,
                   [this, now, callback = std::move(callback)](Result<std::vector<HoldId>> holds) {
                     if (!holds) return callback(std::move(holds).error());
                     for (HoldId& hold : *holds) hold.is_shared = true;
                     end_all(*holds, now, callback);
                   });
}

void EndingHolds::end_all(std::span<const HoldId> holds, Instant now, EndedHoldsCallback callback) {
  // Each is ended whatever becomes of the others; the first error is told.
  struct All {
    std::mutex lock;
    std::size_t left;
    EndedHolds ended{};
    std::optional<Error> error{};
    EndedHoldsCallback callback;
  };
  // One more, for this call.
  const auto all = std::make_shared<All>();
  all->left = holds.size() + 1;
  all->callback = std::move(callback);
  const auto hear = [all](const Result<HoldAnswer>& answer) {
    {
      const std::scoped_lock lock(all->lock);
      if (!answer && !all->error) all->error = answer.error();
      if (answer && answer->state == HoldState::kCancelled) all->ended.count += 1;
      if (answer) all->ended.record = std::max(all->ended.record, answer->record);
      if (--all->left > 0) return;
    }
    all->callback(all->error ? Result<EndedHolds>(*all->error) : Result<EndedHolds>(all->ended));
  };
  for (const HoldId hold : holds) {
    if (hold.is_shared) {
      elsewhere_.end(hold, HoldState::kCancelled, {}, now, hear);
    } else {
      hear(end(hold, HoldState::kCancelled, {}, now));
    }
  }
  hear(HoldAnswer{});
}

}  // namespace weir::engine
