#include "weir/engine/internal/wait_room.h"

#include <algorithm>
#include <iterator>

namespace weir::engine {

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

}  // namespace weir::engine
