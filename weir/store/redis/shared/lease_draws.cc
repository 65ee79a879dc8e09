// Draws of leases: how much to ask for, and what becomes of the answer. Beside the invariants of
// leases.cc:
// 1. The amounts of a draw descend, and none is more than the limit has.
// 2. The smallest is what the first of those who wait needs. So a draw that brings nothing refuses
//    that one, and the line gets shorter with every answer.
// 3. A lease ends a length after its last draw was sent, and a window's no later than the window.

#include <algorithm>
#include <utility>

#include "weir/base/integer.h"
#include "weir/store/redis/shared/lease_entry.h"

namespace weir::store::redis {
namespace {

constexpr std::size_t kAmountsMax = 9;
constexpr std::size_t kHalvesMax = 4;  // of these if a request waits

// When units drawn at `drawn` may not be used any more though their lease goes on; in the time
// of this process, and rather too early: the draw was sent before Redis saw it.
Instant use_before(const engine::MeterShape& shape, const Drawn& drawn, Instant sent_at) {
  const auto* window = std::get_if<meter::WindowShape>(&shape);
  if (window == nullptr) return kForever;
  const Instant end = meter::window_end(*window, Instant{drawn.stamp_us * kNsPerUs});
  return sent_at + (end - drawn.now);
}

}  // namespace

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
