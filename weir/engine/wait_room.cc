#include "weir/engine/wait_room.h"

#include <algorithm>

namespace weir::engine {

Waiter& WaitRoom::add(std::unique_ptr<Waiter> waiter) {
  Waiter& added = *waiter;
  added.ticket = next_ticket_++;
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

bool WaitRoom::has_place(const Waiter& waiter, Print print) {
  return std::any_of(waiter.places.begin(), waiter.places.end(),
                     [&](const Waiter::Held& held) { return held.print == print; });
}

void WaitRoom::take_place(Waiter& waiter, Waiter::Held held) {
  Place& place = places_[held.print];
  place.costs.emplace(waiter.ticket, held.cost);
  place.total += held.cost;
  waiter.places.push_back(std::move(held));
}

bool WaitRoom::leave_place(Waiter& waiter, Print print) {
  const auto held = std::find_if(waiter.places.begin(), waiter.places.end(),
                                 [&](const Waiter::Held& h) { return h.print == print; });
  const auto found = places_.find(print);
  if (held == waiter.places.end() || found == places_.end()) return found == places_.end();
  found->second.costs.erase(waiter.ticket);
  found->second.total -= held->cost;
  waiter.places.erase(held);
  if (!found->second.costs.empty()) return false;
  places_.erase(found);
  return true;
}

std::size_t WaitRoom::waiting_at(Print print) const {
  const auto found = places_.find(print);
  return found == places_.end() ? 0 : found->second.costs.size();
}

bool WaitRoom::older_at(Print print, std::uint64_t ticket) const {
  const std::uint64_t oldest = oldest_at(print);
  return oldest != 0 && oldest < ticket;
}

std::int64_t WaitRoom::ahead_at(Print print, std::uint64_t ticket) const {
  const auto found = places_.find(print);
  if (found == places_.end()) return 0;
  const Place& place = found->second;
  Wide ahead = 0;
  if (place.costs.rbegin()->first < ticket) {
    ahead = place.total;
  } else {
    for (const auto& [other, cost] : place.costs) {
      if (other >= ticket) break;
      ahead += cost;
    }
  }
  return saturate(std::min(ahead, Wide{kTermMax}));
}

std::uint64_t WaitRoom::oldest_at(Print print) const {
  const auto found = places_.find(print);
  return found == places_.end() ? 0 : found->second.costs.begin()->first;
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
  next_due_ns_.store(timers_.empty() ? kForever.ns : timers_.begin()->first.ns,
                     std::memory_order_release);
}

}  // namespace weir::engine
