// Waiting, inside. The header says what holds; this is how:
//
//  1. try_once() is the only place in which a waiter is tried, and takes its place where it was
//     refused. Attempt::enqueue() raises the slot's flag under the shard's lock, leave_place()
//     lowers it, both under the room's lock.
//  2. serve() tries older tickets first. A waiter that leaves adds the next one at each of its
//     places, older or younger than itself. serve() ends, because a ticket is added again only
//     when a waiter has left.
//  3. After a change of rules serve_all() has all waiters follow them before it tries any. So
//     a place that a waiter has lost is free when another one needs it.
//  4. A waiter that moves to the store is known there before it is forgotten here, so its ticket
//     can be given up at every instant.
//  5. Answers are collected under the room's lock and delivered without it.

#include "weir/engine/internal/waiting.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "weir/engine/internal/attempt.h"
#include "weir/engine/internal/elsewhere.h"
#include "weir/engine/internal/ending.h"
#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/resolver.h"
#include "weir/engine/internal/rules_in_force.h"

namespace weir::engine {

// --- the room

Waiter& WaitRoom::add(std::unique_ptr<Waiter> waiter) {
  Waiter& added = *waiter;
  if (added.ticket == 0) added.ticket = next_ticket_.fetch_add(1, std::memory_order_relaxed);
  timers_.emplace(timer(added), added.ticket);
  waiters_.emplace(added.ticket, std::move(waiter));
  size_.store(waiters_.size(), std::memory_order_relaxed);
  publish_next();
  // cppcheck-suppress returnReference  ; the map owns what it refers to
  return added;
}

std::unique_ptr<Waiter> WaitRoom::remove(std::uint64_t ticket) {
  const auto found = waiters_.find(ticket);
  if (found == waiters_.end()) return nullptr;
  std::unique_ptr<Waiter> waiter = std::move(found->second);
  timers_.erase({timer(*waiter), ticket});
  waiters_.erase(found);
  size_.store(waiters_.size(), std::memory_order_relaxed);
  publish_next();
  return waiter;
}

Waiter* WaitRoom::find(std::uint64_t ticket) {
  const auto found = waiters_.find(ticket);
  return found == waiters_.end() ? nullptr : found->second.get();
}

std::vector<std::uint64_t> WaitRoom::tickets() const {
  std::vector<std::uint64_t> all;
  for (const auto& [ticket, waiter] : waiters_) all.push_back(ticket);
  return all;
}

void WaitRoom::Place::add(std::uint64_t ticket, std::int64_t cost) {
  costs.emplace(ticket, cost);
  total.add(cost);
  if (ticket < counted_to) counted.add(cost);
}

void WaitRoom::Place::remove(std::uint64_t ticket) {
  const auto found = costs.find(ticket);
  total.remove(found->second);
  if (ticket < counted_to) counted.remove(found->second);
  costs.erase(found);
}

WaitRoom::Sum WaitRoom::Place::below(std::uint64_t ticket) {
  // A newcomer's is above them all.
  if (costs.rbegin()->first < ticket) return total;
  auto at = costs.lower_bound(counted_to);
  for (; at != costs.end() && at->first < ticket; ++at) counted.add(at->second);
  while (at != costs.begin() && std::prev(at)->first >= ticket) counted.remove((--at)->second);
  counted_to = ticket;
  return counted;
}

bool WaitRoom::has_place(const Waiter& waiter, Print place) {
  return std::any_of(waiter.places.begin(), waiter.places.end(),
                     [&](const Waiter::Held& held) { return held.place == place; });
}

void WaitRoom::take_place(Waiter& waiter, Waiter::Held held) {
  Place& place = places_[held.place];
  if (place.costs.empty() && held.place != held.print) {
    queues_[held.print].push_back(held.place);
  }
  place.add(waiter.ticket, held.cost);
  waiter.places.push_back(std::move(held));
}

void WaitRoom::leave_place(Waiter& waiter, Print place) {
  const auto held = std::find_if(waiter.places.begin(), waiter.places.end(),
                                 [&](const Waiter::Held& h) { return h.place == place; });
  const auto found = places_.find(place);
  if (held == waiter.places.end() || found == places_.end()) return;
  found->second.remove(waiter.ticket);
  if (found->second.costs.empty()) {
    if (held->place != held->print) forget_queue(held->print, place);
    places_.erase(found);
  }
  waiter.places.erase(held);
}

void WaitRoom::forget_queue(Print print, Print place) {
  const auto queues = queues_.find(print);
  std::erase(queues->second, place);
  if (queues->second.empty()) queues_.erase(queues);
}

std::size_t WaitRoom::waiting_at(Print place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? 0 : found->second.costs.size();
}

bool WaitRoom::older_at(Print place, std::uint64_t ticket) const {
  const std::uint64_t oldest = oldest_at(place);
  return oldest != 0 && oldest < ticket;
}

WaitRoom::Ahead WaitRoom::ahead_at(Print place, std::uint64_t ticket) {
  const auto found = places_.find(place);
  if (found == places_.end()) return {};
  const Sum sum = found->second.below(ticket);
  return {sum.count, saturate(std::min(sum.units, Wide{kTermMax}))};
}

std::uint64_t WaitRoom::oldest_at(Print place) const {
  const auto found = places_.find(place);
  return found == places_.end() ? 0 : found->second.costs.begin()->first;
}

void WaitRoom::add_oldest_of(Print print, std::set<std::uint64_t>& tickets) const {
  if (const std::uint64_t ticket = oldest_at(print)) tickets.insert(ticket);
  const auto queues = queues_.find(print);
  if (queues == queues_.end()) return;
  for (const Print place : queues->second) tickets.insert(oldest_at(place));
}

void WaitRoom::set_timer(Waiter& waiter, Instant try_at) {
  timers_.erase({timer(waiter), waiter.ticket});
  waiter.try_at = try_at;
  timers_.emplace(timer(waiter), waiter.ticket);
  publish_next();
}

std::vector<std::uint64_t> WaitRoom::due(Instant now) const {
  std::vector<std::uint64_t> tickets;
  for (const auto& [at, ticket] : timers_) {
    if (at > now) break;
    tickets.push_back(ticket);
  }
  std::sort(tickets.begin(), tickets.end());
  return tickets;
}

void WaitRoom::publish_next() {
  next_due_ns_.store(timers_.empty() ? kForever.ns : timers_.begin()->first.ns);
}

// --- the wake-up

Instant Wakeup::next() const noexcept {
  return earlier_of(ending_.next_expiry(), waiting_.next_due());
}

void Wakeup::announce() {
  if (!has_hook_.load(std::memory_order_acquire)) return;
  if (next().ns >= announced_ns_.load()) return;
  const std::scoped_lock lock(lock_);
  announce_next();
}

void Wakeup::advanced() {
  const std::scoped_lock lock(lock_);
  announce_next();
}

// Looks again, under the lock: of two threads that call, the later one leaves what is true then.
void Wakeup::announce_next() {
  const Instant at = next();
  if (at.ns < announced_ns_.exchange(at.ns) && hook_) hook_(at);
}

void Wakeup::set_hook(std::function<void(Instant)> hook) {
  const std::scoped_lock lock(lock_);
  hook_ = std::move(hook);
  has_hook_.store(hook_ != nullptr, std::memory_order_release);
  announced_ns_.store(kForever.ns, std::memory_order_relaxed);
}

// --- trying and answering

Waiting::Waiting(Ground& ground, RulesInForce& rules, Counting& counting, Resolver& resolver,
                 Elsewhere& elsewhere, Wakeup& wakeup)
    : ground_(ground),
      rules_(rules),
      counting_(counting),
      resolver_(resolver),
      elsewhere_(elsewhere),
      wakeup_(wakeup),
      room_(ground.next_ticket) {}

std::size_t Waiting::waiting_at(Print print) {
  const std::scoped_lock lock(room_.lock);
  return room_.waiting_at(print);
}

bool Waiting::wait(const Ask& ask, std::shared_ptr<const Active> active, const Plan& plan,
                   Instant now, std::size_t i, Answers& answers, Result<Decision>& answer) {
  auto newcomer = std::make_unique<Waiter>(ask.request);
  newcomer->active = std::move(active);
  newcomer->plan = plan;
  newcomer->hold = ask.hold;
  newcomer->deadline = ask.wait_until;
  Served served{nullptr, Result<Decision>(std::in_place), nullptr};
  bool waits = true;
  {
    const std::scoped_lock lock(room_.lock);
    Waiter& waiter = room_.add(std::move(newcomer));
    const Stays stays = try_once(waiter, now, answer);
    if (stays != Stays::kAnswered) waiter.late = answers.later(i, waiter.ticket);
    if (stays == Stays::kMoved) served.moved = elsewhere_.adopt(waiter, now);
    if (stays != Stays::kWaits) served.waiter = room_.remove(waiter.ticket);
    waits = stays != Stays::kAnswered;
  }
  if (!waits && answer) counting_.count(*rules_.current(), *answer);
  wakeup_.announce();
  if (served.moved != nullptr) elsewhere_.start(served.moved, now);
  return waits;
}

std::unique_ptr<Error> Waiting::follow_rules(Waiter& waiter) {
  if (waiter.active != nullptr && rules_.is_in_force(waiter.plan.generation)) return nullptr;
  waiter.active = rules_.current();
  auto error = make_plan(*waiter.active, waiter.request.view(), waiter.plan);
  if (error == nullptr) keep_places(waiter);
  return error;
}

Waiting::Stays Waiting::try_once(Waiter& waiter, Instant now, Result<Decision>& answer) {
  for (;;) {
    if (auto error = follow_rules(waiter)) {
      answer = std::move(*error);
      return Stays::kAnswered;
    }
    if (waiter.plan.has_shared) [[unlikely]]
      return Stays::kMoved;
    Attempt attempt(ground_.table, ground_.rows, rules_.generation(), ground_.options.names,
                    waiter.plan, waiter.request.view(), now);
    if (!attempt.is_stale()) return try_once(waiter, attempt, answer);
  }
}

Waiting::Stays Waiting::try_once(Waiter& waiter, Attempt& attempt, Result<Decision>& answer) {
  const Plan& plan = waiter.plan;
  const Instant deadline = waiter.deadline;
  const bool late = attempt.now() > deadline;
  answer = Result<Decision>(std::in_place);
  attempt.enter(waiter.ticket);
  const Ask ask{.request = waiter.request.view(), .hold = waiter.hold};
  Status status = resolver_.resolve(attempt, plan, ask, late ? Mode::kPeek : Mode::kTry,
                                    waiter.ticket, *answer);
  if (!status) {
    answer = std::move(status).error();
    return Stays::kAnswered;
  }
  if (late && answer->allowed()) answer->verdict = Verdict::kDenied;  // it fits, but too late
  if (answer->verdict != Verdict::kDenied) return Stays::kAnswered;
  if (attempt.now() >= deadline) {
    attempt.tell_refused();
    return Stays::kAnswered;
  }

  // The soonest it can pass if all ahead of it stay and pass. Slots may come
  // back at any moment, so they promise nothing.
  Instant soonest = attempt.earliest() == kForever ? attempt.now() : attempt.earliest();
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.items[i].limit->shadow || attempt.takes_nothing(i)) continue;
    const std::int64_t ahead = room_.ahead_at(attempt.place(i), waiter.ticket).units;
    soonest = later_of(soonest, attempt.projected(i, ahead));
    if (attempt.alone_at(i) != kForever) soonest = later_of(soonest, attempt.alone_at(i));
  }
  if (soonest > deadline) {
    attempt.tell_refused();
    answer->earliest = soonest;
    return Stays::kAnswered;
  }

  const std::size_t binding = attempt.binding();
  const PlanItem& item = plan.items[binding];
  const Print place = attempt.place(binding);
  if (!WaitRoom::has_place(waiter, place)) {
    // A queue's bound is for newcomers. A waiter that has a place at another gate stays. One that
    // has lost its place to new rules stays too, unless older ones fill the queue.
    const bool is_full = room_.size() > ground_.options.waiters_max ||
                         room_.ahead_at(place, waiter.ticket).count >= attempt.queue_max(binding);
    if ((is_full && waiter.places.empty()) || !attempt.enqueue(binding)) {
      attempt.tell_refused();
      answer->verdict = Verdict::kOverloaded;
      return Stays::kAnswered;
    }
    room_.take_place(waiter, {item.print, place, item.cost, item.limit->owned_seat});
  }
  const Attempt::Items placed = attempt.settle_places(waiter.ticket);
  for (std::size_t i = 0; placed.any() && i < plan.count; ++i) {
    if (!placed[i] || WaitRoom::has_place(waiter, attempt.place(i))) continue;
    attempt.enqueue(i);
    const PlanItem& one = plan.items[i];
    room_.take_place(waiter, {one.print, attempt.place(i), one.cost, one.limit->owned_seat});
  }
  const bool behind = !attempt.gives_places(binding) && room_.older_at(place, waiter.ticket);
  room_.set_timer(waiter, behind ? kForever : attempt.try_again_at());
  answer->verdict = Verdict::kQueued;
  return Stays::kWaits;
}

// A waiter that moves up is tried by the swap that brought the new rules.
void Waiting::keep_places(Waiter& waiter) {
  const auto places = waiter.places;
  for (const Waiter::Held& held : places) {
    const auto meets = [&](const PlanItem& item) { return item.print == held.print; };
    const std::span<const PlanItem> items = waiter.plan.limits();
    const auto item = std::find_if(items.begin(), items.end(), meets);
    // A gate that became another, or a meter, or was one, has its own count of who waits there.
    if (item == items.end() || item->limit->owned_seat != held.seat) {
      leave_place(waiter, held);
    } else if (item->cost != held.cost) {
      room_.leave_place(waiter, held.place);
      room_.take_place(waiter, {held.print, held.place, item->cost, held.seat});
    }
  }
}

void Waiting::leave_places(Waiter& waiter, std::set<std::uint64_t>& next) {
  while (!waiter.places.empty()) {
    const Waiter::Held held = waiter.places.back();
    leave_place(waiter, held);
    if (const std::uint64_t oldest = room_.oldest_at(held.place)) next.insert(oldest);
  }
}

void Waiting::leave_place(Waiter& waiter, const Waiter::Held& held) {
  room_.leave_place(waiter, held.place);
  if (held.seat != nullptr) {
    const std::scoped_lock lock(*held.seat);
    held.seat->waiters -= 1;
    held.seat->gate->leave_place(waiter.ticket);
    return;
  }
  Shard& shard = ground_.table.shard_of(held.print);
  const std::scoped_lock lock(shard);
  Slot* slot = ground_.table.find(shard, held.print);
  if (slot == nullptr) return;
  if (is_slots(ground_.rows.at(slot->row()).shape)) {
    slot->set_words(
        std::bit_cast<Words>(meter::dequeue(std::bit_cast<meter::SlotsState>(slot->words()))));
    shard.mark_changed(*slot);
  }
  if (room_.waiting_at(held.place) == 0) slot->set_meta(slot->meta() & ~meta::kWaiters);
}

std::vector<Served> Waiting::serve(std::set<std::uint64_t> tickets, Instant now) {
  std::vector<Served> served;
  while (!tickets.empty()) {
    const std::uint64_t ticket = *tickets.begin();
    tickets.erase(tickets.begin());
    Waiter* waiter = room_.find(ticket);
    if (waiter == nullptr) continue;
    Result<Decision> answer(std::in_place);
    const Stays stays = try_once(*waiter, now, answer);
    if (stays == Stays::kWaits) continue;
    leave_places(*waiter, tickets);
    // Its ticket is known to the store's waiters before it is forgotten here, so that it can be
    // given up all the time.
    auto moved = stays == Stays::kMoved ? elsewhere_.adopt(*waiter, now) : nullptr;
    served.push_back({room_.remove(ticket), std::move(answer), std::move(moved)});
  }
  return served;
}

void Waiting::serve_gates(const std::vector<Print>& prints, Instant now) {
  if (prints.empty()) return;
  std::vector<Served> served;
  {
    const std::scoped_lock lock(room_.lock);
    // Together with those whose time has come, so that the older of two who both fit
    // at this instant is answered first.
    const std::vector<std::uint64_t> due = room_.due(now);
    std::set<std::uint64_t> tickets(due.begin(), due.end());
    for (const Print print : prints) room_.add_oldest_of(print, tickets);
    served = serve(std::move(tickets), now);
  }
  wakeup_.announce();  // a waiter may have come nearer to a gate that promises an instant
  deliver(std::move(served), now);
}

void Waiting::serve_due(Instant now) {
  if (room_.next_due() > now) return;
  std::vector<Served> served;
  {
    const std::scoped_lock lock(room_.lock);
    const std::vector<std::uint64_t> due = room_.due(now);
    served = serve({due.begin(), due.end()}, now);
  }
  deliver(std::move(served), now);
}

void Waiting::serve_all(Instant now) {
  std::vector<Served> served;
  {
    // Also to find the room empty: a waiter that enters after this sees the rules in force.
    const std::scoped_lock lock(room_.lock);
    if (room_.size() == 0) return;
    const std::vector<std::uint64_t> all = room_.tickets();
    // All leave the places they lose before any waiter takes one: it may be there, and full.
    for (const std::uint64_t ticket : all) follow_rules(*room_.find(ticket));
    served = serve({all.begin(), all.end()}, now);
  }
  wakeup_.announce();
  deliver(std::move(served), now);
}

// A callback that ends its hold brings about the next answer, whose callback ends its hold, and so
// on: on the stack, a long queue would be as deep. So those that come about while this thread
// delivers one of this engine are delivered after it.
void Waiting::deliver(std::vector<Served> served, Instant now) {
  if (served.empty()) return;
  Local& mine = ground_.locals.mine();
  mine.deliveries.emplace_back(std::move(served), now);
  if (std::exchange(mine.is_delivering, true)) return;
  while (!mine.deliveries.empty()) {
    auto [due, since] = std::move(mine.deliveries.front());
    mine.deliveries.pop_front();
    for (Served& one : due) deliver(one, since);
  }
  mine.is_delivering = false;
}

void Waiting::deliver(Served& served, Instant now) {
  if (served.moved != nullptr) return elsewhere_.start(served.moved, now);
  if (served.answer) counting_.count(*rules_.current(), *served.answer);
  served.waiter->late(served.answer);
}

bool Waiting::give_up(std::uint64_t ticket, Instant now) {
  std::vector<Served> served;
  bool found = false;
  {
    const std::scoped_lock lock(room_.lock);
    if (const std::unique_ptr<Waiter> waiter = room_.remove(ticket)) {
      found = true;
      std::set<std::uint64_t> next;
      leave_places(*waiter, next);
      served = serve(std::move(next), now);
    }
  }
  wakeup_.announce();
  deliver(std::move(served), now);
  return found;
}

}  // namespace weir::engine
