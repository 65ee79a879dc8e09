// Waiting for limits that are kept elsewhere: within one engine, first come first served.
//
// A request that may wait has a ticket from the beginning. Refused by the store, it takes a place
// at the shared limit that bound it, and is asked again when the store has said that it may
// fit. Whoever meets a limit where somebody older has a place is not asked of the store: it
// takes a place behind, or is refused. One that leaves lets the next at each of its places be
// asked.

#include <algorithm>
#include <utility>
#include <vector>

#include "weir/engine/asking.h"

namespace weir::engine {
namespace {

// When a full limit of slots frees is not known, so a request that waits for one looks again.
constexpr Duration kLookAgain = std::chrono::milliseconds{20};

}  // namespace

void Engine::Impl::enter(const std::shared_ptr<Asking>& asking) {
  auto waiter = std::make_unique<Waiter>(Request{});
  waiter->options.deadline = kForever;  // timers are set when it stays somewhere
  const std::scoped_lock lock(shared_room.lock);
  asking->ticket = shared_room.add(std::move(waiter)).ticket;
  asking_by_ticket.emplace(asking->ticket, asking);
}

bool Engine::Impl::take_shared_place(Waiter& waiter, const PlanItem& item) {
  if (WaitRoom::has_place(waiter, item.print)) return true;
  const auto most = static_cast<std::size_t>(item.limit->rule->queue_max);
  if (shared_room.waiting_at(item.print) >= most) return false;
  shared_room.take_place(waiter, {item.print, item.print, item.cost, nullptr});
  return true;
}

void Engine::Impl::stay(Asking& asking, Waiter& waiter, AskStage stage, Instant until,
                        Instant now) {
  asking.stage = stage;
  shared_room.set_timer(waiter, until);
  set_alarm(now);
}

bool Engine::Impl::waits_behind(const std::shared_ptr<Asking>& asking, Instant now) {
  asking->behind = 0;
  if (asking->is_peek || shared_waiters.load(std::memory_order_acquire) == 0) return false;
  const std::uint64_t ticket = asking->ticket != 0 ? asking->ticket : kNewcomer;
  const std::scoped_lock lock(shared_room.lock);
  std::uint32_t behind = 0;
  Instant until = now;
  for (std::size_t i = 0; i < asking->plan.count; ++i) {
    const PlanItem& item = asking->plan.items[i];
    if (!item.limit->is_shared || item.limit->shadow || item.cost == 0) continue;
    // It can never pass: it is to hear that now.
    if (item.cost > item.limit->capacity) return false;
    if (!shared_room.older_at(item.print, ticket)) continue;
    behind |= std::uint32_t{1} << i;
    const Instant tried = shared_room.find(shared_room.oldest_at(item.print))->try_at;
    until = later_of(until, tried > now ? tried : kForever);
  }
  if (behind == 0) return false;
  if (asking->deadline > now) {
    Waiter& waiter = *shared_room.find(ticket);
    bool has_places = asking->is_waiting || shared_waiters.load() < options.waiters_max;
    for (std::size_t i = 0; has_places && i < asking->plan.count; ++i) {
      if ((behind >> i & 1) == 0) continue;
      has_places = take_shared_place(waiter, asking->plan.items[i]);
    }
    if (has_places) {
      if (!std::exchange(asking->is_waiting, true)) shared_waiters.fetch_add(1);
      stay(*asking, waiter, AskStage::kBehind, asking->deadline, now);
      return true;
    }
    asking->is_overloaded = true;
  }
  asking->behind = behind;
  asking->behind_until = until;
  return false;
}

bool Engine::Impl::try_later(const std::shared_ptr<Asking>& asking, Decision& decision,
                             Instant now) {
  const Instant again =
      decision.earliest == kForever ? now + kLookAgain : later_of(decision.earliest, now);
  if (asking->ticket == 0 || decision.verdict != Verdict::kDenied || asking->deadline <= now ||
      again > asking->deadline || shared_store.load(std::memory_order_acquire) == nullptr) {
    return false;
  }
  const std::scoped_lock lock(shared_room.lock);
  Waiter& waiter = *shared_room.find(asking->ticket);
  bool has_place = asking->is_waiting || shared_waiters.load() < options.waiters_max;
  // Of the plan or, if a limit of this engine refused, of those: then it has no place.
  for (const PlanItem& item : asking->plan.limits()) {
    if (item.limit->name != decision.binding()->limit || !item.limit->is_shared) continue;
    has_place = has_place && take_shared_place(waiter, item);
  }
  if (!has_place) {
    decision.verdict = Verdict::kOverloaded;
    return false;
  }
  if (!std::exchange(asking->is_waiting, true)) shared_waiters.fetch_add(1);
  const bool is_behind = std::any_of(
      waiter.places.begin(), waiter.places.end(),
      [&](const Waiter::Held& held) { return shared_room.older_at(held.place, asking->ticket); });
  if (is_behind) {
    stay(*asking, waiter, AskStage::kBehind, asking->deadline, now);
  } else {
    stay(*asking, waiter, AskStage::kTimed, again, now);
  }
  return true;
}

void Engine::Impl::finish(const std::shared_ptr<Asking>& asking, const Result<Decision>& answer) {
  if (asking->ticket != 0) leave(*asking);
  asking->callback(answer);
}

void Engine::Impl::leave(Asking& asking) {
  const std::scoped_lock lock(shared_room.lock);
  const std::unique_ptr<Waiter> waiter = shared_room.remove(std::exchange(asking.ticket, 0));
  asking_by_ticket.erase(waiter->ticket);
  if (std::exchange(asking.is_waiting, false)) shared_waiters.fetch_sub(1);
  while (!waiter->places.empty()) {
    const Print place = waiter->places.back().place;
    shared_room.leave_place(*waiter, place);
    const std::uint64_t next = shared_room.oldest_at(place);
    if (next != 0 && asking_by_ticket.at(next)->stage == AskStage::kBehind) wake(next);
  }
}

// Not on this thread's stack, where a long queue would be as deep.
void Engine::Impl::wake(std::uint64_t ticket) {
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  if (store == nullptr) return;
  std::shared_ptr<Asking> asking = asking_by_ticket.at(ticket);
  asking->stage = AskStage::kAsking;
  shared_room.set_timer(*shared_room.find(ticket), kForever);
  store->later(Duration{0}, [this, asking = std::move(asking)](Instant now) {
    ask(std::shared_ptr(asking), now);
  });
}

void Engine::Impl::set_alarm(Instant now) {
  const Instant due = shared_room.next_due();
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  if (due >= shared_alarm || store == nullptr) return;
  shared_alarm = due;
  store->later(later_of(due, now) - now, [this, due](Instant then) { ring(due, then); });
}

void Engine::Impl::ring(Instant alarm, Instant now) {
  now = later_of(now, alarm);
  std::vector<std::shared_ptr<Asking>> due;
  {
    const std::scoped_lock lock(shared_room.lock);
    if (shared_alarm == alarm) shared_alarm = kForever;
    for (const std::uint64_t ticket : shared_room.due(now)) {
      shared_room.set_timer(*shared_room.find(ticket), kForever);
      due.push_back(asking_by_ticket.at(ticket));
      due.back()->stage = AskStage::kAsking;
    }
    set_alarm(now);
  }
  for (const std::shared_ptr<Asking>& asking : due) ask(asking, now);
}

bool Engine::Impl::waits_somebody(const Plan& plan) {
  if (shared_waiters.load(std::memory_order_acquire) == 0) return false;
  const std::scoped_lock lock(shared_room.lock);
  return std::any_of(plan.limits().begin(), plan.limits().end(), [&](const PlanItem& item) {
    return item.cost > 0 && shared_room.waiting_at(item.print) > 0;
  });
}

std::size_t Engine::Impl::shared_waiting_at(Print print) {
  const std::scoped_lock lock(shared_room.lock);
  return shared_room.waiting_at(print);
}

// More may be there than the store has told.
void Engine::Impl::try_shared_waiters(Print print) {
  const std::scoped_lock lock(shared_room.lock);
  const std::uint64_t next = shared_room.oldest_at(print);
  if (next != 0 && asking_by_ticket.at(next)->stage != AskStage::kAsking) wake(next);
}

}  // namespace weir::engine
