// Waiting: first come first served, no lost wake-up.
//
// Everything here happens under room.lock, which comes before the gates' locks.
// Whoever frees capacity at a gate where somebody waits tries the oldest waiter
// there; a waiter that leaves lets the next one at each of its places be tried.
// Answers are delivered after the lock is released.

#include <fmt/format.h>

#include <algorithm>

#include "weir/engine/engine_impl.h"

namespace weir::engine {
Result<WaitStart> Engine::wait(const Request& request, const WaitOptions& options, Instant now,
                               WaitCallback callback) noexcept {
  return impl_->wait(request, options, now, std::move(callback));
}

Result<WaitStart> Engine::Impl::wait(const Request& request, const WaitOptions& asked, Instant now,
                                     WaitCallback callback) {
  Result<Decision> answer(std::in_place);
  acquire(request, {.hold = asked.hold}, Mode::kTry, now, answer);
  if (!answer) return std::move(answer).error();
  if (answer->verdict != Verdict::kDenied) {
    count(*answer);
    return WaitStart{*answer, 0};
  }

  auto waiter = std::make_unique<Waiter>(request);
  waiter->options = asked;
  waiter->callback = std::move(callback);
  std::uint64_t ticket = 0;
  {
    const std::scoped_lock lock(room.lock);
    Waiter& added = room.add(std::move(waiter));
    if (keeps_waiting(added, now, answer)) {
      ticket = added.ticket;
    } else {
      room.remove(added.ticket);
    }
  }
  if (!answer) return std::move(answer).error();
  if (ticket == 0) count(*answer);
  announce();
  return WaitStart{*answer, ticket};
}

std::unique_ptr<Error> Engine::Impl::follow_rules(Waiter& waiter) {
  if (waiter.active != nullptr &&
      waiter.plan.generation == generation.load(std::memory_order_acquire)) {
    return nullptr;
  }
  waiter.active = current_shared();
  auto error = make_plan(*waiter.active, waiter.request.view(), waiter.plan);
  if (error == nullptr) keep_places(waiter);
  return error;
}

bool Engine::Impl::keeps_waiting(Waiter& waiter, Instant now, Result<Decision>& answer) {
  for (;;) {
    if (auto error = follow_rules(waiter)) {
      answer = std::move(*error);
      return false;
    }
    if (waiter.plan.has_shared) [[unlikely]] {
      answer = Result<Decision>(std::in_place);
      point_elsewhere(waiter.plan, answer);
      return false;
    }
    Attempt attempt(table, rows, generation, waiter.plan, waiter.request.view(), now);
    if (!attempt.is_stale()) return keeps_waiting(waiter, attempt, answer);
  }
}

bool Engine::Impl::keeps_waiting(Waiter& waiter, Attempt& attempt, Result<Decision>& answer) {
  const Plan& plan = waiter.plan;
  const Instant deadline = waiter.options.deadline;
  const bool late = attempt.now() > deadline;
  answer = Result<Decision>(std::in_place);
  Status status = resolve(attempt, plan, waiter.request.view(), {.hold = waiter.options.hold},
                          late ? Mode::kPeek : Mode::kTry, waiter.ticket, *answer);
  if (!status) {
    answer = std::move(status).error();
    return false;
  }
  if (late && answer->allowed()) answer->verdict = Verdict::kDenied;  // it fits, but too late
  if (answer->verdict != Verdict::kDenied) return false;
  if (attempt.now() >= deadline) {
    attempt.tell_refused();
    return false;
  }

  // The soonest it can pass if everybody ahead stays and passes. Slots may come
  // back at any moment, so they promise nothing.
  Instant soonest = attempt.earliest() == kForever ? attempt.now() : attempt.earliest();
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (plan.items[i].limit->shadow || attempt.takes_nothing(i)) continue;
    const std::int64_t ahead = room.ahead_at(attempt.place(i), waiter.ticket).units;
    soonest = later_of(soonest, attempt.projected(i, ahead));
    if (attempt.alone_at(i) != kForever) soonest = later_of(soonest, attempt.alone_at(i));
  }
  if (soonest > deadline) {
    attempt.tell_refused();
    answer->earliest = soonest;
    return false;
  }

  const std::size_t binding = attempt.binding();
  const PlanItem& item = plan.items[binding];
  const Print place = attempt.place(binding);
  if (!WaitRoom::has_place(waiter, place)) {
    // Queues are bounded for those who come. Who has a place elsewhere is not turned away, nor
    // one that has lost it to new rules, unless older ones fill the queue.
    const bool is_full = room.size() > options.waiters_max ||
                         room.ahead_at(place, waiter.ticket).count >= attempt.queue_max(binding);
    if ((is_full && waiter.places.empty()) || !attempt.enqueue(binding)) {
      attempt.tell_refused();
      answer->verdict = Verdict::kOverloaded;
      return false;
    }
    room.take_place(waiter, {item.print, place, item.cost, item.limit->owned_seat});
  }
  const bool behind = room.older_at(place, waiter.ticket);
  room.set_timer(waiter, behind ? kForever : attempt.try_again_at());
  answer->verdict = Verdict::kQueued;
  return true;
}

// Whoever moves up is tried by the swap that brought the new rules.
void Engine::Impl::keep_places(Waiter& waiter) {
  const auto places = waiter.places;
  for (const Waiter::Held& held : places) {
    const auto meets = [&](const PlanItem& item) { return item.print == held.print; };
    const std::span<const PlanItem> items = waiter.plan.limits();
    const auto item = std::find_if(items.begin(), items.end(), meets);
    // A gate that became another, or a meter, or was one, has its own count of who waits there.
    if (item == items.end() || item->limit->owned_seat != held.seat) {
      leave_place(waiter, held);
    } else if (item->cost != held.cost) {
      room.leave_place(waiter, held.place);
      room.take_place(waiter, {held.print, held.place, item->cost, held.seat});
    }
  }
}

void Engine::Impl::leave_places(Waiter& waiter, std::set<std::uint64_t>& next) {
  while (!waiter.places.empty()) {
    const Waiter::Held held = waiter.places.back();
    leave_place(waiter, held);
    if (const std::uint64_t oldest = room.oldest_at(held.place)) next.insert(oldest);
  }
}

void Engine::Impl::leave_place(Waiter& waiter, const Waiter::Held& held) {
  room.leave_place(waiter, held.place);
  if (held.seat != nullptr) {
    const std::scoped_lock lock(held.seat->seat_lock);
    held.seat->waiters -= 1;
    return;
  }
  Shard& shard = table.shard_of(held.print);
  const std::scoped_lock lock(shard);
  Slot* slot = table.find(shard, held.print);
  if (slot == nullptr) return;
  if (is_slots(rows.at(slot->row()).shape)) {
    slot->set_words(
        std::bit_cast<Words>(meter::dequeue(std::bit_cast<meter::SlotsState>(slot->words()))));
    shard.mark_changed(*slot);
  }
  if (room.waiting_at(held.place) == 0) slot->set_meta(slot->meta() & ~meta::kWaiters);
}

Answers Engine::Impl::serve(std::set<std::uint64_t> tickets, Instant now) {
  Answers answers;
  while (!tickets.empty()) {
    const std::uint64_t ticket = *tickets.begin();
    tickets.erase(tickets.begin());
    Waiter* waiter = room.find(ticket);
    if (waiter == nullptr) continue;
    Result<Decision> answer(std::in_place);
    if (keeps_waiting(*waiter, now, answer)) continue;
    leave_places(*waiter, tickets);
    answers.emplace_back(room.remove(ticket), std::move(answer));
  }
  return answers;
}

void Engine::Impl::serve_gates(const std::vector<Print>& prints, Instant now) {
  if (prints.empty()) return;
  Answers answers;
  {
    const std::scoped_lock lock(room.lock);
    // Together with those whose time has come, so that the older of two who both fit
    // at this instant is answered first.
    const std::vector<std::uint64_t> due = room.due(now);
    std::set<std::uint64_t> tickets(due.begin(), due.end());
    for (const Print print : prints) room.add_oldest_of(print, tickets);
    answers = serve(std::move(tickets), now);
  }
  announce();  // somebody may have come nearer to a gate that promises an instant
  deliver(std::move(answers), now);
}

void Engine::Impl::serve_due(Instant now) {
  if (room.next_due() > now) return;
  Answers answers;
  {
    const std::scoped_lock lock(room.lock);
    const std::vector<std::uint64_t> due = room.due(now);
    answers = serve({due.begin(), due.end()}, now);
  }
  deliver(std::move(answers), now);
}

void Engine::Impl::serve_everybody(Instant now) {
  Answers answers;
  {
    // Also to find nobody: whoever enters the room after this sees the rules in force.
    const std::scoped_lock lock(room.lock);
    if (room.size() == 0) return;
    const std::vector<std::uint64_t> all = room.tickets();
    // All leave the places they lose before anybody takes one: it may be there, and full.
    for (const std::uint64_t ticket : all) follow_rules(*room.find(ticket));
    answers = serve({all.begin(), all.end()}, now);
  }
  announce();
  deliver(std::move(answers), now);
}

void Engine::try_waiters(Instant now) noexcept {
  if (is_acceptable(now)) impl_->serve_everybody(now);
}

// A callback that ends its hold brings about the next answer, whose callback ends its hold, and so
// on: on the stack, a long queue would be as deep. So those that come about while this thread
// delivers one of this engine are delivered after it.
void Engine::Impl::deliver(Answers answers, Instant now) {
  if (answers.empty()) return;
  Local& mine = local();
  mine.deliveries.emplace_back(std::move(answers), now);
  if (std::exchange(mine.is_delivering, true)) return;
  while (!mine.deliveries.empty()) {
    const auto [due, since] = std::move(mine.deliveries.front());
    mine.deliveries.pop_front();
    for (const auto& [waiter, answer] : due) deliver(*waiter, answer, since);
  }
  mine.is_delivering = false;
}

void Engine::Impl::deliver(Waiter& waiter, const Result<Decision>& answer, Instant now) {
  // A limit has become one that is kept elsewhere: the request goes on waiting there.
  if (answer && answer->verdict == Verdict::kElsewhere) {
    if (!waiter.callback) waiter.callback = [](const Result<Decision>&) {};
    return ask(waiter.request.view(), {.hold = waiter.options.hold}, now, waiter.options.deadline,
               std::move(waiter.callback));
  }
  if (answer) count(*answer);
  if (waiter.callback) waiter.callback(answer);
}

bool Engine::cancel_wait(std::uint64_t ticket, Instant now) noexcept {
  if (!is_acceptable(now)) return false;
  Answers answers;
  bool found = false;
  {
    const std::scoped_lock lock(impl_->room.lock);
    if (const std::unique_ptr<Waiter> waiter = impl_->room.remove(ticket)) {
      found = true;
      std::set<std::uint64_t> next;
      impl_->leave_places(*waiter, next);
      answers = impl_->serve(std::move(next), now);
    }
  }
  impl_->announce();
  impl_->deliver(std::move(answers), now);
  return found;
}

}  // namespace weir::engine
