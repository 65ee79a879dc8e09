#include "weir/store/redis/shared/lease_entry.h"

#include <algorithm>
#include <utility>

#include "weir/base/integer.h"

namespace weir::store::redis {
namespace {

constexpr std::size_t kBatchesMax = 16;

// How long a refusal of Redis is repeated here. Until then another server may have given
// something back.
Duration hear_again(const engine::LeaseSpec& terms) {
  return std::min<Duration>(terms.length / 4, std::chrono::milliseconds{250});
}

}  // namespace

Instant Leases::Entry::then(Instant now) const {
  const Duration since = std::max(Duration{0}, now - heard.here);
  const Instant at = heard.now + since;
  return Instant{at.ns - at.ns % kNsPerUs};
}

Instant Leases::Entry::here(Instant of_redis) const {
  return of_redis == kForever ? kForever : heard.here + (of_redis - heard.now);
}

std::optional<engine::SharedOutcome> Leases::Entry::refusal(Instant now, std::int64_t cost,
                                                            std::int64_t held) const {
  const std::int64_t most = engine::capacity(rule->shape);
  if (cost > most) {
    return engine::SharedOutcome{{Verdict::kNever, kForever, cost - most}, left(held), left(held)};
  }
  if (!heard.is_known || now >= heard.here + hear_again(terms())) return std::nullopt;
  const Instant at = then(now);
  const SharedCheck missing =
      judge(rule->shape, heard.state, at, std::max<std::int64_t>(0, cost - held));
  if (missing.check.allowed()) return std::nullopt;
  // The hint is for all of the cost: what is held here may be gone by then.
  const SharedCheck all = judge(rule->shape, heard.state, at, cost);
  if (engine::is_log(rule->shape) && (!heard.is_refused || cost != heard.cost)) return std::nullopt;
  if (all.check.earliest <= at) return std::nullopt;
  const std::int64_t before = std::min(most, saturate(Wide{held} + missing.before));
  return engine::SharedOutcome{
      {Verdict::kDenied, here(all.check.earliest), missing.check.shortfall}, before, before};
}

std::int64_t Leases::Entry::left(std::int64_t held) const {
  return std::min(engine::capacity(rule->shape), saturate(Wide{held} + heard.left));
}

engine::SharedOutcome Leases::Entry::allowed(Instant now, std::int64_t cost,
                                             std::int64_t held_before) const {
  const std::int64_t before = left(held_before);
  return {{Verdict::kAllowed, now, 0}, before, before - cost};
}

void Leases::Entry::add_batch(LeaseUnits units, const std::string& of) {
  if (units.units == 0) return;
  // Only windows and logs are told under which instant something was charged.
  const bool is_stamped = is_window() || engine::is_log(rule->shape);
  const std::int64_t charged_us = is_stamped ? units.stamp_us : 0;
  if (batches.empty() || batches.back().drawn.stamp_us != charged_us ||
      batches.back().epoch != of) {
    batches.push_back({{0, charged_us}, of});
    if (batches.size() > kBatchesMax) batches.pop_front();
  }
  // No more than there can be is ever given back. Both terms are at most 2^62.
  std::int64_t& drawn = batches.back().drawn.units;
  drawn = std::min(engine::capacity(rule->shape), drawn + units.units);
}

std::vector<LeaseUnits> Leases::Entry::newest(std::int64_t units) const {
  std::vector<LeaseUnits> found;
  for (auto batch = batches.rbegin(); units > 0 && batch != batches.rend(); ++batch) {
    if (batch->epoch != batches.back().epoch) break;
    const std::int64_t some = std::min(units, batch->drawn.units);
    if (some > 0) found.push_back({some, batch->drawn.stamp_us});
    units -= some;
  }
  return found;
}

void Leases::Entry::say(Instant now, Work& work) {
  const std::string of = batches.empty() ? epoch : batches.back().epoch;
  std::vector<LeaseUnits> parts;
  while (back > 0 && !batches.empty() && batches.back().epoch == of) {
    LeaseUnits& latest = batches.back().drawn;
    const std::int64_t given = std::min(back, latest.units);
    if (given > 0) parts.push_back({given, latest.stamp_us});
    latest.units -= given;
    back -= given;
    returning += given;
    if (latest.units == 0) batches.pop_back();
  }
  if (batches.empty()) give_up(std::exchange(back, 0));
  said = saturate(Wide{lease.held(now)} + back);
  must_say = false;
  is_talking = true;
  word = leases->next_word();
  work.returns.push_back({print,
                          {.rules = rules,
                           .rule = rule,
                           .key = key,
                           .units = std::move(parts),
                           .epoch = of,
                           .kept = newest(said),
                           .word = word,
                           .until = lapses_at()}});
}

void Leases::Entry::leave(Instant now, Work& work) {
  back += lease.empty();
  if (back > 0 || told > 0) say(now, work);
}

void Leases::Entry::unsay(const LeaseReturn& unsent) {
  const bool is_same = batches.empty() || batches.back().epoch == unsent.epoch;
  // The newest came first.
  for (auto part = unsent.units.rbegin(); part != unsent.units.rend(); ++part) {
    if (!is_same) {
      give_up(part->units);  // the data they were drawn from is lost
      continue;
    }
    add_batch(*part, unsent.epoch);
    back += part->units;
  }
  must_say = true;
}

void Leases::Entry::hear(const Drawn& drawn, std::int64_t cost) {
  if (drawn.now >= lapses_at()) lapse();
  heard = {.is_known = true,
           .is_refused = drawn.is_refused,
           .now = drawn.now,
           .here = drawn.here,
           .state = drawn.state,
           .cost = cost,
           .left = judge(rule->shape, drawn.state, drawn.now, 0).before};
}

void Leases::Entry::lapse() {
  give_up(lease.empty() + std::exchange(back, 0));
  told = 0;
}

void Leases::Entry::doubt(std::int64_t units, Instant now) {
  told = std::max(told, said);
  // Those who waited were to use what is held, and have not: it takes room.
  units = std::min(units, lease.room(reserved()));
  if (units == 0) return;
  unsure += units;
  unsure_until = now + record_length(terms());
}

void Leases::Entry::give_up(std::int64_t units) {
  if (units > 0)
    sums->expired.fetch_add(static_cast<std::uint64_t>(units), std::memory_order_relaxed);
}

}  // namespace weir::store::redis
