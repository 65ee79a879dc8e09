// What ends a hold, and what comes back when it does.

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/adopt.h"
#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

// What the charge would have been had the actual costs been known. Units that
// are not named keep what was charged.
std::int64_t actual_amount(const HoldCharge& charge, std::span<const Cost> actual) {
  for (const Cost& cost : actual) {
    // check_actual() has seen to it that the product is at most 2^62; a reset meanwhile makes
    // the weight 0.
    if (cost.unit == charge.unit) return cost.amount * charge.weight;
  }
  return charge.amount;
}

Ending ending_of(HoldState as) {
  if (as == HoldState::kSettled) return Ending::kSettled;
  return as == HoldState::kCancelled ? Ending::kCancelled : Ending::kExpired;
}

// A unit is known if the rules know it, or the hold was charged in it. In what a hold was charged
// that is active no more, nobody remembers: then the answer is how it ended.
std::optional<Error> check_actual(const RuleSet& rules, Holds& holds, HoldId hold,
                                  std::span<const Cost> actual, Instant now) {
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
          "settle: unit '{}' is unknown; known are {}; correct the name, or declare the unit",
          cost.unit.substr(0, kNameBytesMax), rules.units().joined()));
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

std::optional<Error> Engine::Impl::check_settlement(HoldId hold, std::span<const Cost> actual,
                                                    Instant now) {
  return check_actual(*current_shared()->rules, holds, hold, actual, now);
}

bool Engine::Impl::give_back(const HoldCharge& charge, std::int64_t back, Instant now) {
  for (;;) {
    const std::shared_ptr<const Active> in_force = current_shared();
    const ActiveLimit* limit = in_force->find(charge.limit);
    if (limit == nullptr || limit->seat != nullptr) return false;
    Shard& shard = table.shard_of(charge.print);
    const std::scoped_lock lock(shard);
    if (generation.load(std::memory_order_acquire) != in_force->generation) continue;
    // A limit that went and came back gets nothing of what its former self charged.
    if (rows.at(limit->row).era != charge.era) return false;
    if (limit->is_slots) back = charge.amount;
    const Instant at = shard.at_least(now);
    Slot* slot = table.find(shard, charge.print);
    // A forgotten meter was back in its initial state: only an overage is news.
    if (slot == nullptr && back < 0) {
      slot = table.insert(shard, charge.print, limit->row, initial_words(limit->shape, at), at);
    }
    if (slot == nullptr || back == 0) return false;
    const MeterShape& shape = adopt(rows, *limit, table, shard, *slot, at);
    Words words = slot->words();
    if (back > 0) {
      // Windows and logs know charges by their instants, which other meters do not keep.
      const MeterKind kind = kind_of(shape);
      const bool keeps_instants = kind == MeterKind::kWindow || kind == MeterKind::kLog;
      if (keeps_instants && kind != charge.kind) return false;
      engine::give_back(shape, words, table.logs, at, charge.charged_at, back);
    } else if (reserve(shape, words, table.logs, at)) {
      // A log forgets what no longer counts, which no earlier instant may miss.
      engine::charge(shape, words, table.logs, at, -back);
      shard.latest_ns.store(at.ns, std::memory_order_relaxed);
    }
    slot->set_words(words);
    shard.mark_changed(*slot);
    return (slot->meta() & meta::kWaiters) != 0;
  }
}

std::vector<Print> Engine::Impl::give_back(const HoldCharges& charges, HoldState as,
                                           std::span<const Cost> actual, Instant now) {
  std::vector<Print> waited_for;
  for (const HoldCharge& charge : charges) {
    // Units to return: all of a cancelled hold, none of an expired one (unless
    // they are slots, which end with the work), the difference of a settled one.
    std::int64_t back = 0;
    if (as == HoldState::kCancelled) back = charge.amount;
    if (as == HoldState::kSettled) back = charge.amount - actual_amount(charge, actual);
    if (charge.seat == nullptr) {
      if (give_back(charge, back, now)) waited_for.push_back(charge.print);
      continue;
    }
    const std::scoped_lock lock(*charge.seat);
    charge.seat->gate->end(
        now, {ending_of(as), charge.charged_at, charge.amount, back, actual, charge.receipt});
    if (charge.seat->waiters > 0) waited_for.push_back(charge.seat->print);
  }
  return waited_for;
}

HoldState Engine::Impl::end_hold(HoldId hold, HoldState as, std::span<const Cost> actual,
                                 Instant now) {
  std::vector<Print> waited_for;
  HoldState ended;
  {
    const std::shared_lock lock(ending_lock);
    auto [charges, state] = holds.end(hold, as, now);
    ended = state;
    if (!charges) return ended;
    waited_for = give_back(*charges, as, actual, now);
    holds.recycle(std::move(*charges));
  }
  serve_gates(waited_for, now);
  return ended;
}

void Engine::Impl::expire_holds(Instant now) {
  std::vector<Print> waited_for;
  {
    const std::shared_lock lock(ending_lock);
    while (auto charges = holds.expire_one(now)) {
      for (const Print print : give_back(*charges, HoldState::kGone, {}, now)) {
        waited_for.push_back(print);
      }
      holds.recycle(std::move(*charges));
    }
  }
  serve_gates(waited_for, now);
}

Result<HoldState> Engine::settle(HoldId hold, std::span<const Cost> actual, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (auto error = impl_->check_settlement(hold, actual, now)) {
    return std::move(*error);
  }
  return impl_->end_hold(hold, HoldState::kSettled, actual, now);
}

HoldState Engine::cancel(HoldId hold, Instant now) noexcept {
  if (!is_acceptable(now)) return impl_->holds.state(hold, Instant{0});
  return impl_->end_hold(hold, HoldState::kCancelled, {}, now);
}

Result<HoldState> Engine::renew(HoldId hold, Duration ttl, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (ttl.count() < 1 || ttl.count() > kTermMax / 2) {
    return bad_argument(
        fmt::format("renew: the time to live is {} ns, but it must be between 1 ns and 2^61 ns; "
                    "write a duration "
                    "such as '60s'",
                    ttl.count()));
  }
  if (impl_->holds.renew(hold, now + ttl, now)) {
    impl_->announce();
    return HoldState::kActive;
  }
  return impl_->holds.state(hold, now);
}

}  // namespace weir::engine
