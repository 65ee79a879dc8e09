// Draws of leases: how much to ask for, and what becomes of the answer.

#include <algorithm>
#include <utility>

#include "weir/base/integer.h"
#include "weir/store/redis/lease_entry.h"

namespace weir::store::redis {
namespace {

constexpr std::size_t kAmountsMax = 9;

// When units drawn at `drawn` may not be used any more though their lease goes on; in the time
// of this process, and rather too early: the draw was sent before Redis saw it.
Instant use_before(const engine::MeterShape& shape, const Drawn& drawn, Instant sent_at) {
  const auto* window = std::get_if<meter::WindowShape>(&shape);
  if (window == nullptr) return kForever;
  const Instant end = meter::window_end(*window, Instant{drawn.stamp_us * kNsPerUs});
  return sent_at + (end - drawn.now);
}

}  // namespace

// Asks for what those who wait need, and as much more as is worth holding; failing that for
// less and less, down to what the first of them needs.
void Leases::start_draw(Entry& entry, Instant now, Work& work) {
  const std::int64_t most = engine::capacity(entry.rule->shape);
  const std::int64_t held = entry.lease.held(now);
  Wide needed = -Wide{held};
  for (const Entry::Waiter& waiter : entry.waiters) needed += waiter.cost;
  const auto ahead =
      std::max<std::int64_t>(0, saturate(entry.lease.target() + std::min(Wide{0}, needed)));
  const std::int64_t wanted = std::min(most, saturate(std::max(Wide{0}, needed) + ahead));
  const std::int64_t least =
      entry.waiters.empty()
          ? 0
          : std::min(wanted, std::max<std::int64_t>(0, entry.waiters.front().cost - held));
  Work::Draw& draw = work.draws.emplace_back();
  draw.print = entry.print;
  draw.amounts.push_back(wanted);
  if (entry.heard.is_known) {
    const std::int64_t left =
        judge(entry.rule->shape, entry.heard.state, entry.then(now), 0).before;
    if (left > least && left < wanted) draw.amounts.push_back(left);
  }
  for (std::int64_t less = draw.amounts.back() / 2;
       less > least && draw.amounts.size() < kAmountsMax; less /= 2) {
    draw.amounts.push_back(less);
  }
  if (draw.amounts.back() != least) draw.amounts.push_back(least);
  draw.draw = {.rules = entry.rules,
               .rule = entry.rule,
               .key = entry.key,
               .amounts = {},
               .cost = entry.waiters.empty() ? 0 : entry.waiters.front().cost,
               .kept = entry.newest(saturate(std::max(Wide{0}, -needed))),
               .awaited = saturate(std::max(Wide{0}, needed)),
               .word = next_word(),
               .now = now};
  entry.told = saturate(std::max(Wide{0}, -needed) + ahead);
  entry.heard.cost = draw.draw.cost;
  entry.is_drawing = true;
  entry.under_way = ahead;
}

void Leases::run(Work& work, Instant now) {
  for (const LeaseReturn& units : work.returns) source_.give_back(units, now);
  for (Work::Draw& draw : work.draws) {
    draw.draw.amounts = draw.amounts;
    source_.draw(draw.draw,
                 [this, print = draw.print, sent_at = draw.draw.now,
                  wanted = draw.amounts.front()](const std::variant<Drawn, DrawFailure>& answer) {
                   finish_draw(print, sent_at, wanted, answer);
                 });
  }
  for (const Work::Answer& answer : work.answers) answer.callback(answer.said);
}

void Leases::finish_draw(engine::Print print, Instant sent_at, std::int64_t wanted,
                         const std::variant<Drawn, DrawFailure>& answer) {
  Work work;
  Instant now = sent_at;
  {
    Shard& shard = shard_of(print);
    const std::scoped_lock lock(shard.lock);
    // It is not forgotten while a draw is under way.
    Entry& entry = shard.entries.at(print);
    entry.is_drawing = false;
    const std::int64_t ahead = std::exchange(entry.under_way, 0);
    if (const auto* failure = std::get_if<DrawFailure>(&answer)) {
      entry.quiet_until = sent_at + kLeaseTick;
      for (Entry::Waiter& waiter : entry.waiters) {
        work.answers.push_back({std::move(waiter.callback), {{}, 0, *failure}});
      }
      waiters_.fetch_sub(entry.waiters.size(), std::memory_order_relaxed);
      entry.waiters.clear();
    } else {
      const Drawn& drawn = std::get<Drawn>(answer);
      now = drawn.here;
      // There was less than wanted: asking again at once brings nothing.
      if (drawn.units < wanted) entry.quiet_until = now + kLeaseTick;
      entry.told -= std::min(ahead, wanted - drawn.units);
      serve(entry, drawn, sent_at, work);
      if (!entry.waiters.empty()) start_draw(entry, now, work);
    }
  }
  run(work, now);
}

// Each draw either brings what the first of those who wait needs, or refuses it: so everybody
// is answered in the end.
void Leases::serve(Entry& entry, const Drawn& drawn, Instant sent_at, Work& work) {
  const Instant now = drawn.here;
  entry.sums.drawn.fetch_add(static_cast<std::uint64_t>(drawn.units), std::memory_order_relaxed);
  entry.give_up(entry.lease.expire(now));
  if (entry.is_window() && entry.stamp_us != drawn.stamp_us) {
    entry.give_up(entry.lease.empty());  // of a window that is over
  }
  entry.stamp_us = drawn.stamp_us;
  entry.heard = {.is_known = true,
                 .is_refused = drawn.is_refused,
                 .now = drawn.now,
                 .here = now,
                 .state = drawn.state,
                 .cost = entry.heard.cost,
                 .left = judge(entry.rule->shape, drawn.state, drawn.now, 0).before};
  std::int64_t units = drawn.units;
  bool is_first = true;
  while (!entry.waiters.empty()) {
    Entry::Waiter& waiter = entry.waiters.front();
    const std::int64_t held = saturate(Wide{entry.lease.held(now)} + units);
    LeaseSaid said;
    if (waiter.cost <= held) {
      said.outcome = entry.allowed(now, waiter.cost, held);
      said.stamp_us = entry.stamp_us;
      const std::int64_t at_once = std::min(units, waiter.cost);
      units -= at_once;
      entry.lease.note_use(at_once);
      entry.lease.take(now, waiter.cost - at_once);
    } else if (const auto refused = entry.refusal(now, waiter.cost, held)) {
      said.outcome = *refused;
    } else if (is_first && drawn.is_refused) {
      said.outcome = {{Verdict::kDenied, kForever, waiter.cost - held}, held, held};
    } else {
      break;
    }
    is_first = false;
    work.answers.push_back({std::move(waiter.callback), std::move(said)});
    entry.waiters.pop_front();
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  const std::int64_t spare =
      entry.lease.add(sent_at, use_before(entry.rule->shape, drawn, sent_at), units);
  entry.add_batch(units, drawn.stamp_us, drawn.epoch);
  entry.give_back(spare, now, work);
  if (!is_ending_) return;
  entry.give_back(entry.lease.empty(), now, work);
  entry.tell_held(now, work);
}

}  // namespace weir::store::redis
