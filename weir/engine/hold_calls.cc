// What ends a hold, and what comes back when it does.

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
namespace {

// What the charge would have been had the actual costs been known. Units that
// are not named keep what was charged.
std::int64_t actual_amount(const HoldCharge& charge, std::span<const Cost> actual) {
  for (const Cost& cost : actual) {
    if (cost.unit == charge.unit) {
      return saturate(std::min(Wide{cost.amount} * charge.weight, Wide{kTermMax}));
    }
  }
  return charge.amount;
}

std::optional<Error> check_actual(const RuleSet& rules, std::span<const Cost> actual) {
  for (const Cost& cost : actual) {
    if (rules.units().find(cost.unit) == rules.units().size()) {
      return bad_argument(fmt::format(
          "settle: unit '{}' is unknown; known are {}; correct the name, or declare the unit",
          cost.unit.substr(0, kNameBytesMax), rules.units().joined()));
    }
    if (cost.amount < 0 || cost.amount > kTermMax) {
      return bad_argument(
          fmt::format("settle: the actual cost in '{}' is {}, but it must be between 0 and 2^62; "
                      "write what was "
                      "really used",
                      cost.unit, cost.amount));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Print> Engine::Impl::give_back(const HoldCharges& charges, HoldState as,
                                           std::span<const Cost> actual, Instant now) {
  std::vector<Print> waited_for;
  for (const HoldCharge& charge : charges) {
    // Units to return: all of a cancelled hold, none of an expired one (unless
    // they are slots, which end with the work), the difference of a settled one.
    std::int64_t back = 0;
    if (as == HoldState::kCancelled) back = charge.amount;
    if (as == HoldState::kSettled) back = charge.amount - actual_amount(charge, actual);
    if (charge.seat != nullptr) {
      const std::scoped_lock lock(charge.seat->lock);
      charge.seat->gate->give_back(now, charge.charged_at, back, true);
      if (charge.seat->has_waiters) waited_for.push_back(charge.print);
      continue;
    }
    Shard& shard = table.shard(Table::shard_of(charge.print));
    const std::scoped_lock lock(shard);
    const Instant at = shard.at_least(now);
    Slot* slot = table.find(shard, charge.print);
    // A forgotten meter was back in its initial state: only an overage is news,
    // and it is charged to a meter that still knows its limit.
    if (slot == nullptr || !rows.at(slot->row()).alive) continue;
    const MeterShape& shape = rows.at(slot->row()).shape;
    Words words = slot->words();
    if (is_slots(shape)) back = charge.amount;
    if (back > 0) {
      engine::give_back(shape, words, shard.blocks, at, charge.charged_at, back);
    } else if (back < 0 && reserve(shape, words, shard.blocks, at)) {
      engine::charge(shape, words, shard.blocks, at, -back);
    }
    slot->set_words(words);
    slot->set_meta(slot->meta() | meta::kDirty);
    if ((slot->meta() & meta::kWaiters) != 0) waited_for.push_back(charge.print);
  }
  return waited_for;
}

Result<HoldState> Engine::Impl::end_hold(HoldId hold, HoldState as, std::span<const Cost> actual,
                                         Instant now) {
  auto [charges, state] = holds.end(hold, as, now);
  if (charges) serve_gates(give_back(*charges, as, actual, now), now);
  return state;
}

void Engine::Impl::expire_holds(Instant now) {
  std::vector<Print> waited_for;
  while (auto charges = holds.expire_one(now)) {
    for (const Print print : give_back(*charges, HoldState::kGone, {}, now)) {
      waited_for.push_back(print);
    }
  }
  serve_gates(waited_for, now);
}

Result<HoldState> Engine::settle(HoldId hold, std::span<const Cost> actual, Instant now) noexcept {
  if (!is_acceptable(now)) return unacceptable_instant(now);
  if (auto error = check_actual(*impl_->current_shared()->rules, actual)) return std::move(*error);
  return impl_->end_hold(hold, HoldState::kSettled, actual, now);
}

HoldState Engine::cancel(HoldId hold, Instant now) noexcept {
  return *impl_->end_hold(hold, HoldState::kCancelled, {}, now);
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
