// Invariants, of each key and whenever the lock of its shard is free:
// 1. A unit that was drawn is in one place: in the lease, out with a request that is not decided
//    yet, about to go back, or in the message under way. A message without an answer leaves its
//    units in doubt. A unit enters a lease only if there is room for it beside those in all other
//    places, up to `most`; what does not fit goes back.
// 2. One message is under way at a time, and each has a number. So Redis hears of a key in order,
//    and an answer to another number is of an entry that has left.
// 3. Redis is told what is held: `told` is never less than what it thinks, and while it is more
//    than what is held for half of a length, a message is sent that says so.
// 4. No request takes units while an older one waits. Each that waits is answered once, by a draw
//    that brought what it needs, that refused it, or that failed.
// 5. What was drawn goes back only to the data it was drawn from, under the instant under which it
//    was charged.
// 6. The amounts of a draw descend, and none is more than the limit has. The smallest is what the
//    first of those who wait needs. So a draw that brings nothing refuses that one, and the line
//    gets shorter with every answer.
// 7. A lease ends a length after its last draw was sent, and a window's no later than the window.
// Callbacks and messages leave without the lock: returns, those who follow them, draws, answers.

#include "weir/store/redis/shared/leases.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <utility>

#include "weir/base/integer.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/lease_entry.h"

namespace weir::store::redis {
namespace {

static_assert(kLeasesMax % kLeaseShards == 0);

constexpr std::size_t kAmountsMax = 9;  // of one draw
constexpr std::size_t kHalvesMax = 4;   // of these if a request waits

DrawFailure too_many(const std::string& limit, std::string_view what, std::size_t most) {
  return {false,
          {ErrorCode::kExhausted, fmt::format("limit '{}': {} {}, as many as one server has; ask "
                                              "again",
                                              limit, most, what)}};
}

// When units drawn at `drawn` may not be used any more though their lease goes on; in the time
// of this process, and rather too early: the draw was sent before Redis saw it.
Instant use_before(const engine::MeterShape& shape, const Drawn& drawn, Instant sent_at) {
  const auto* window = std::get_if<meter::WindowShape>(&shape);
  if (window == nullptr) return kForever;
  const Instant end = meter::window_end(*window, Instant{drawn.stamp_us * kNsPerUs});
  return sent_at + (end - drawn.now);
}

}  // namespace

Leases::Leases(LeaseSource& source, std::string prefix)
    : source_(source), prefix_(std::move(prefix)), shards_(kLeaseShards) {}

Leases::~Leases() = default;

// Other bits than those that choose the place within a shard.
Leases::Shard& Leases::shard_of(engine::Print print) noexcept {
  return shards_[(print.low >> 32) % kLeaseShards];
}

Leases::Sums& Leases::sums_of(const std::string& limit) {
  const std::scoped_lock lock(sums_lock_);
  std::unique_ptr<Sums>& sums = sums_[limit];
  if (sums == nullptr) sums = std::make_unique<Sums>();
  return *sums;
}

Leases::Took Leases::take_one(const engine::LeasedItem& item, Instant now,
                              engine::SharedOutcome& outcome, std::int64_t& stamp_us, Work& work) {
  Shard& shard = shard_of(item.print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(item.print);
  if (found == shard.entries.end()) return Took::kMissing;
  Entry& entry = found->second;
  if (entry.rule != item.rule) return Took::kMissing;
  entry.touched = now;
  const std::int64_t held = entry.lease.held(now);
  // Those who wait for a draw came earlier.
  if (entry.waiters.empty() && entry.lease.take(now, item.cost)) {
    outcome = entry.allowed(now, item.cost, held);
    stamp_us = entry.stamp_us;
    if (!entry.is_talking && entry.is_low(now)) start_draw(entry, now, work);
    return Took::kTaken;
  }
  const auto refused = entry.refusal(now, item.cost, held);
  if (!refused) return Took::kMissing;
  outcome = *refused;
  return Took::kRefused;
}

bool Leases::take_now(std::span<const engine::LeasedItem> items, Instant now,
                      std::span<engine::SharedOutcome> outcomes) {
  Work work;
  bool is_decided = true;
  boost::container::small_vector<std::int64_t, 4> stamps_us(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Took took = take_one(items[i], now, outcomes[i], stamps_us[i], work);
    if (took == Took::kTaken) continue;
    for (std::size_t j = 0; j < i; ++j) {
      put_back(items[j].print, {items[j].cost, stamps_us[j]}, 0, now);
    }
    // What the others would have said is not known.
    is_decided = took == Took::kRefused && items.size() == 1;
    break;
  }
  run(work, now);
  return is_decided;
}

// The lease longest unused makes room for another one.
bool Leases::make_room(Shard& shard, Instant now, Work& work) {
  if (shard.entries.size() < kLeasesMax / kLeaseShards) return true;
  auto oldest = shard.entries.end();
  for (auto at = shard.entries.begin(); at != shard.entries.end(); ++at) {
    if (at->second.is_talking) continue;
    if (oldest == shard.entries.end() || at->second.touched < oldest->second.touched) oldest = at;
  }
  if (oldest == shard.entries.end()) return false;
  oldest->second.leave(now, work);
  shard.entries.erase(oldest);
  return true;
}

// What was drawn of the limit as it was goes back, and those who wait go on waiting.
void Leases::change_over(Entry& entry, Instant now, Work& work) {
  const Entry::Next next = *std::exchange(entry.next, std::nullopt);
  if (entry.rule->shape == next.rule->shape && entry.rule->shared == next.rule->shared) {
    entry.rule = next.rule;
    entry.rules = next.rules;
    return;
  }
  entry.leave(now, work);
  Entry fresh(entry.print, *next.rule, next.rules, next.key, *entry.sums, *this);
  fresh.touched = entry.touched;
  for (Entry::Waiter& waiter : entry.waiters) {
    if (const auto refused = fresh.refusal(now, waiter.cost, 0)) {
      work.answers.push_back({std::move(waiter.callback), {*refused, 0, {}}});
      waiters_.fetch_sub(1, std::memory_order_relaxed);
    } else {
      fresh.waiters.push_back(std::move(waiter));
    }
  }
  fresh.followers = std::move(entry.followers);
  entry = std::move(fresh);
}

Leases::Entry* Leases::entry_for(Shard& shard, const engine::SharedItem& item,
                                 const std::shared_ptr<const engine::RuleSet>& rules, Instant now,
                                 Work& work) {
  auto found = shard.entries.find(item.print);
  if (found != shard.entries.end()) {
    Entry& entry = found->second;
    entry.touched = now;
    if (entry.rule == item.rule) return &entry;
    entry.next = {item.rule, rules, limit_key(prefix_, item)};
    if (!entry.is_talking) change_over(entry, now, work);
    return &entry;
  }
  if (!make_room(shard, now, work)) return nullptr;
  found = shard.entries
              .try_emplace(item.print, item.print, *item.rule, rules, limit_key(prefix_, item),
                           sums_of(item.rule->name), *this)
              .first;
  found->second.touched = now;
  return &found->second;
}

void Leases::take(const engine::SharedItem& item,
                  const std::shared_ptr<const engine::RuleSet>& rules, Instant now,
                  LeaseCallback callback) {
  Work work;
  {
    Shard& shard = shard_of(item.print);
    const std::scoped_lock lock(shard.lock);
    Entry* const entry = entry_for(shard, item, rules, now, work);
    if (entry == nullptr) {
      work.answers.push_back(
          {std::move(callback),
           {{}, 0, too_many(item.rule->name, "leases are being drawn", kLeasesMax)}});
    } else if (const std::int64_t held = entry->lease.held(now);
               entry->waiters.empty() && entry->lease.take(now, item.cost)) {
      entry->out += item.cost;
      work.answers.push_back(
          {std::move(callback), {entry->allowed(now, item.cost, held), entry->stamp_us, {}}});
    } else if (const auto refused =
                   entry->next ? std::nullopt : entry->refusal(now, item.cost, held)) {
      work.answers.push_back({std::move(callback), {*refused, 0, {}}});
    } else if (waiters_.fetch_add(1, std::memory_order_relaxed) >= kLeaseWaitersMax) {
      waiters_.fetch_sub(1, std::memory_order_relaxed);
      work.answers.push_back(
          {std::move(callback),
           {{}, 0, too_many(item.rule->name, "requests wait for leases", kLeaseWaitersMax)}});
    } else {
      entry->waiters.push_back({item.cost, std::move(callback)});
      talk(*entry, now, work);
    }
  }
  run(work, now);
}

void Leases::put_back(engine::Print print, LeaseUnits units, Instant now) {
  put_back(print, units, units.units, now);
}

void Leases::put_back(engine::Print print, LeaseUnits units, std::int64_t out, Instant now) {
  Work work;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    const auto found = shard.entries.find(print);
    if (found == shard.entries.end()) return;  // made room: it counts as used
    Entry& entry = found->second;
    entry.settle_out(out);
    if (entry.is_window() && units.stamp_us != entry.stamp_us) return entry.give_up(units.units);
    entry.back +=
        is_ending_ ? units.units : entry.lease.put_back(now, units.units, entry.reserved());
    talk(entry, now, work);
  }
  run(work, now);
}

void Leases::spend(engine::Print print, std::int64_t units) {
  Shard& shard = shard_of(print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(print);
  if (found != shard.entries.end()) found->second.settle_out(units);
}

std::int64_t Leases::held(engine::Print print, Instant now) {
  Shard& shard = shard_of(print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(print);
  return found == shard.entries.end() ? 0 : found->second.lease.held(now);
}

std::int64_t Leases::left(engine::Print print, Instant now) {
  Shard& shard = shard_of(print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(print);
  return found == shard.entries.end() ? 0 : found->second.left(found->second.lease.held(now));
}

void Leases::surrender(engine::Print print, Instant now, std::function<void()> then) {
  Work work;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    const auto found = shard.entries.find(print);
    if (found == shard.entries.end()) {
      work.followers.push_back(std::move(then));
    } else if (waiters_.fetch_add(1, std::memory_order_relaxed) >= kLeaseWaitersMax) {
      waiters_.fetch_sub(1, std::memory_order_relaxed);
      work.followers.push_back(std::move(then));  // does without
    } else {
      found->second.followers.push_back(std::move(then));
      talk(found->second, now, work);
    }
  }
  run(work, now);
}

LeaseUnits Leases::withdraw(engine::Print print) {
  Shard& shard = shard_of(print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(print);
  if (found == shard.entries.end()) return {};
  Entry& entry = found->second;
  const std::int64_t units = entry.lease.empty() + std::exchange(entry.back, 0);
  entry.out += units;
  return {units, entry.stamp_us};
}

void Leases::start_anew(engine::Print print, std::int64_t units) {
  Shard& shard = shard_of(print);
  const std::scoped_lock lock(shard.lock);
  const auto found = shard.entries.find(print);
  if (found == shard.entries.end()) return;
  Entry& entry = found->second;
  entry.settle_out(units);
  entry.give_up(units);
  entry.lease.forget_use();
  entry.heard = {};
  // A message under way may reach Redis after the reset.
  entry.must_say = entry.is_talking;
  entry.told = 0;
  entry.quiet_until = {};
}

void Leases::end(Instant now) {
  is_ending_ = true;
  for (Shard& shard : shards_) {
    Work work;
    {
      const std::scoped_lock lock(shard.lock);
      for (auto& [print, entry] : shard.entries) {
        entry.back += entry.lease.empty();
        entry.must_say = entry.must_say || entry.told > 0;
        talk(entry, now, work);
      }
    }
    run(work, now);
  }
}

void Leases::tick(Instant now) {
  for (Shard& shard : shards_) {
    Work work;
    {
      const std::scoped_lock lock(shard.lock);
      for (auto at = shard.entries.begin(); at != shard.entries.end();) {
        Entry& entry = at->second;
        // A draw under way may prolong it yet, and those who wait for that count on it.
        const bool may_go_on = entry.is_talking && now >= entry.lease.end();
        const Lease::Tidied tidied = may_go_on ? Lease::Tidied{} : entry.lease.tidy(now);
        entry.back += tidied.expired + tidied.surplus;
        if (now >= entry.unsure_until) entry.unsure = 0;
        if (now - entry.heard.here >= record_length(entry.terms())) entry.lapse();
        const bool is_wanted = tidied.is_old || entry.is_low(now);
        if (is_wanted && !entry.is_talking && !is_ending_) start_draw(entry, now, work);
        // Used units would come back if Redis thought of them as held when the lease ends.
        const Duration half = entry.terms().length / 2;
        if (entry.told > entry.lease.held(now) && now - entry.heard.here >= half) {
          entry.must_say = true;
        }
        if (now >= entry.quiet_until) talk(entry, now, work);
        const bool is_forgotten = tidied.is_idle && !entry.is_talking && entry.back == 0 &&
                                  entry.out == 0 && now - entry.touched > 2 * entry.terms().length;
        at = is_forgotten ? shard.entries.erase(at) : std::next(at);
      }
    }
    run(work, now);
  }
}

std::vector<LeaseCounts> Leases::counts(Instant now) {
  std::map<std::string, LeaseCounts> counts;
  {
    const std::scoped_lock lock(sums_lock_);
    for (const auto& [limit, sums] : sums_) {
      counts[limit] = {limit, 0, sums->drawn.load(), sums->returned.load(), sums->expired.load()};
    }
  }
  for (Shard& shard : shards_) {
    const std::scoped_lock lock(shard.lock);
    for (const auto& [print, entry] : shard.entries) {
      counts[entry.rule->name].held += entry.lease.held(now);
    }
  }
  std::vector<LeaseCounts> listed;
  listed.reserve(counts.size());
  for (auto& [limit, count] : counts) listed.push_back(std::move(count));
  return listed;
}

// --- messages: how much to ask for, and what becomes of the answer

void Leases::talk(Entry& entry, Instant now, Work& work) {
  if (entry.is_talking) return;
  if (entry.next) change_over(entry, now, work);
  if (!entry.followers.empty()) {
    waiters_.fetch_sub(entry.followers.size(), std::memory_order_relaxed);
    for (auto& follower : std::exchange(entry.followers, {})) {
      work.followers.push_back(std::move(follower));
    }
    entry.back += entry.lease.empty();
    if (entry.back > 0) return entry.say(now, work);
  }
  if (!entry.waiters.empty()) return start_draw(entry, now, work);
  if (entry.back > 0 || entry.must_say) entry.say(now, work);
}

// Asks for what those who wait need, and as much more as is worth holding. Failing that, it asks
// for less and less of the latter, then for what some of those who wait need, in the end only the
// first. So each amount is used by those who wait, or worth holding.
void Leases::start_draw(Entry& entry, Instant now, Work& work) {
  // Its tick has not come yet, and they are not to live again.
  entry.back += entry.lease.expire(now);
  const std::int64_t capacity = engine::capacity(entry.rule->shape);
  const std::int64_t held = entry.lease.held(now);
  // What the first `count` of those who wait need that is not held.
  const auto needed = [&](std::size_t count) {
    Wide sum = -Wide{held};
    for (std::size_t i = 0; i < count; ++i) sum += entry.waiters[i].cost;
    return sum;
  };
  const Wide needed_by_all = needed(entry.waiters.size());
  const std::int64_t awaited = saturate(std::max(Wide{0}, needed_by_all));
  const std::int64_t kept = saturate(std::max(Wide{0}, -needed_by_all));  // when they are served
  const std::int64_t room = entry.terms().most - kept - entry.reserved();
  const std::int64_t ahead = std::max<std::int64_t>(0, std::min(entry.lease.target() - kept, room));
  Work::Draw& draw = work.draws.emplace_back();
  draw.print = entry.print;
  const auto ask_for = [&](Wide units) {
    if (units > capacity) return;
    const std::int64_t amount = saturate(std::max(Wide{0}, units));
    if (draw.amounts.empty() || amount < draw.amounts.back()) draw.amounts.push_back(amount);
  };
  ask_for(Wide{awaited} + ahead);
  if (entry.heard.is_known) {
    const std::int64_t left =
        judge(entry.rule->shape, entry.heard.state, entry.then(now), 0).before;
    if (left > awaited) ask_for(left);
  }
  const std::size_t halves = entry.waiters.empty() ? kAmountsMax - 1 : kHalvesMax;
  for (std::int64_t less = ahead / 2; less > 0 && draw.amounts.size() < halves; less /= 2) {
    ask_for(Wide{awaited} + less);
  }
  for (std::size_t count = entry.waiters.size(); count > 1; count /= 2) {
    if (draw.amounts.size() + 1 < kAmountsMax) ask_for(needed(count));
  }
  ask_for(entry.waiters.empty() ? Wide{0} : needed(1));
  entry.said = saturate(Wide{kept} + entry.back);
  entry.word = next_word();
  draw.need = {.rules = entry.rules,
               .rule = entry.rule,
               .sent_at = now,
               .cost = entry.waiters.empty() ? 0 : entry.waiters.front().cost,
               .wanted = draw.amounts.front(),
               .awaited = awaited,
               .ahead = ahead,
               .waiters = entry.waiters.size()};
  draw.draw = {.rules = entry.rules,
               .rule = entry.rule,
               .key = entry.key,
               .amounts = {},
               .cost = draw.need.cost,
               .kept = entry.newest(entry.said),
               .awaited = awaited,
               .epoch = entry.batches.empty() ? std::string() : entry.batches.back().epoch,
               .word = entry.word,
               .until = entry.lapses_at(),
               .now = now,
               .late = [this, print = entry.print, need = draw.need](const Drawn& drawn) {
                 on_late(print, need, drawn);
               }};
  entry.must_say = false;
  entry.is_talking = true;
  entry.under_way = ahead;
}

void Leases::run(Work& work, Instant now) {
  for (Work::Return& back : work.returns) {
    source_.give_back(back.units, now,
                      [this, print = back.print, sent = back.units, now](Delivery delivery) {
                        finish_return(print, sent, now, delivery);
                      });
  }
  for (const auto& follower : work.followers) follower();
  for (Work::Draw& draw : work.draws) {
    draw.draw.amounts = draw.amounts;
    source_.draw(draw.draw, [this, print = draw.print,
                             need = draw.need](const std::variant<Drawn, DrawFailure>& answer) {
      finish_draw(print, need, answer);
    });
  }
  for (const Work::Answer& answer : work.answers) answer.callback(answer.said);
}

void Leases::finish_return(engine::Print print, const LeaseReturn& sent, Instant sent_at,
                           Delivery delivery) {
  if (delivery == Delivery::kHeard) {
    std::atomic<std::uint64_t>& returned = sums_of(sent.rule->name).returned;
    for (const LeaseUnits& part : sent.units) {
      returned.fetch_add(static_cast<std::uint64_t>(part.units), std::memory_order_relaxed);
    }
  }
  Work work;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    const auto found = shard.entries.find(print);
    if (found == shard.entries.end() || found->second.word != sent.word) return;  // it has left
    Entry& entry = found->second;
    const std::int64_t returned = std::exchange(entry.returning, 0);
    entry.is_talking = false;
    if (delivery == Delivery::kHeard) {
      entry.told = entry.said;
    } else {
      entry.quiet_until = sent_at + kLeaseTick;
      if (delivery == Delivery::kUnsure) entry.doubt(returned, sent_at);
      if (delivery == Delivery::kUnsent) entry.unsay(sent);
    }
    // What was not sent is said again at a tick.
    if (delivery != Delivery::kUnsent || entry.is_awaited()) talk(entry, sent_at, work);
  }
  run(work, sent_at);
}

void Leases::finish_draw(engine::Print print, const Need& need,
                         const std::variant<Drawn, DrawFailure>& answer) {
  Work work;
  Instant now = need.sent_at;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    // It is not forgotten while a draw is under way.
    Entry& entry = shard.entries.at(print);
    entry.is_talking = false;
    entry.under_way = 0;
    bool is_sent = true;
    if (const auto* failure = std::get_if<DrawFailure>(&answer)) {
      is_sent = failure->may_have_run;
      if (is_sent) entry.doubt(need.ahead, now);
      entry.quiet_until = now + kLeaseTick;
      for (Entry::Waiter& waiter : entry.waiters) {
        work.answers.push_back({std::move(waiter.callback), {{}, 0, *failure}});
      }
      waiters_.fetch_sub(entry.waiters.size(), std::memory_order_relaxed);
      entry.waiters.clear();
    } else {
      const Drawn& drawn = std::get<Drawn>(answer);
      now = drawn.here;
      // There was less than wanted: asking again at once brings nothing.
      if (drawn.units < need.wanted) entry.quiet_until = now + kLeaseTick;
      serve(entry, drawn, need, work);
      // It counted on those who waited to use what they were refused in the end.
      if (entry.lease.held(now) > entry.told) entry.must_say = true;
    }
    if (is_sent || entry.is_awaited()) talk(entry, now, work);
  }
  run(work, now);
}

// What comes too late to be given out goes back, but for what those who waited would have used:
// that counts as used, as a request does that Redis has not answered.
void Leases::on_late(engine::Print print, const Need& need, const Drawn& drawn) {
  Work work;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    const auto found = shard.entries.find(print);
    if (found == shard.entries.end() || found->second.rule != need.rule) return;
    Entry& entry = found->second;
    entry.sums->drawn.fetch_add(static_cast<std::uint64_t>(drawn.units), std::memory_order_relaxed);
    if (drawn.now > entry.heard.now) entry.hear(drawn, need.cost);
    // No more than there was room for.
    const std::int64_t doubted = std::min(need.ahead, entry.unsure);
    entry.unsure -= doubted;
    const bool is_same = entry.epoch.empty() || entry.epoch == drawn.epoch;
    const std::int64_t unused = std::max<std::int64_t>(0, drawn.units - need.awaited);
    const std::int64_t units = is_same ? std::min(unused, doubted) : 0;
    entry.epoch = drawn.epoch;
    entry.add_batch({units, drawn.stamp_us}, drawn.epoch);
    entry.back += units;
    entry.give_up(unused - units);
    entry.must_say = true;
    talk(entry, drawn.here, work);
  }
  run(work, drawn.here);
}

// Each draw either brings what the first of those who wait needs, or refuses it: so all are
// answered in the end.
void Leases::serve(Entry& entry, const Drawn& drawn, const Need& need, Work& work) {
  const Instant now = drawn.here;
  entry.sums->drawn.fetch_add(static_cast<std::uint64_t>(drawn.units), std::memory_order_relaxed);
  if (entry.is_window() && entry.stamp_us != drawn.stamp_us) entry.lapse();  // it is over
  entry.hear(drawn, need.cost);
  entry.told = saturate(Wide{entry.said} + std::max<std::int64_t>(0, drawn.units - need.awaited));
  entry.lease.renew(need.sent_at, use_before(entry.rule->shape, drawn, need.sent_at));
  entry.stamp_us = drawn.stamp_us;
  entry.epoch = drawn.epoch;
  entry.add_batch({drawn.units, drawn.stamp_us}, drawn.epoch);
  std::int64_t units = drawn.units;
  const std::int64_t reserved = entry.reserved();  // without what goes out now
  std::size_t place = 0;
  while (!entry.waiters.empty()) {
    // A request that came after it was sent is not decided by Redis: the window may be over.
    if (place >= need.waiters && now >= entry.lease.end()) break;
    Entry::Waiter& waiter = entry.waiters.front();
    const std::int64_t held = saturate(Wide{entry.lease.held(now)} + units);
    if (waiter.cost > held && entry.next)
      break;  // the limit has changed: a refusal is of yesterday
    LeaseSaid said;
    if (waiter.cost <= held) {
      said.outcome = entry.allowed(now, waiter.cost, held);
      said.stamp_us = entry.stamp_us;
      entry.out += waiter.cost;
      const std::int64_t at_once = std::min(units, waiter.cost);
      units -= at_once;
      entry.lease.note_use(at_once);
      entry.lease.take(now, waiter.cost - at_once);
    } else if (const auto refused = entry.refusal(now, waiter.cost, held)) {
      said.outcome = *refused;
    } else if (place == 0 && drawn.is_refused) {
      said.outcome = {{Verdict::kDenied, kForever, waiter.cost - held}, held, held};
    } else {
      break;
    }
    ++place;
    work.answers.push_back({std::move(waiter.callback), std::move(said)});
    entry.waiters.pop_front();
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  // All of it has room, unless a request was refused that counted on what was held.
  entry.give_up(entry.lease.add(units, reserved));
  if (!is_ending_) return;
  entry.back += entry.lease.empty();
  entry.must_say = entry.told > 0;
}

}  // namespace weir::store::redis
