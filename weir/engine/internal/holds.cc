// Holds, inside. Everything but the two atomics is under `lock_`:
//
//  1. `active_` counts the holds in `holds_` and the places that were reserved and not yet used. It
//     is more than `holds_max_` only for a moment, in a reserve() that fails.
//  2. Each number in `holds_` or `ended_` has an entry in `dues_` at its time. Other entries are
//     stale: of a hold that was renewed since, or forgotten. They are dropped when they are met,
//     and all together when they have become half of a long list.
//  3. `ended_` has at most `holds_max_` numbers, the oldest forgotten first. `ended_order_` names
//     all of them in order, and may name forgotten ones.
//  4. In a durable book `changed_` names active holds only, and `ended_since_` only holds that a
//     store may have seen active. In others both are empty.
//  5. Each charge of `holds_` that is not at a gate has its place in `by_print_`, and nothing else.
//  6. `next_expiry_ns_` is never later than the first entry of `dues_`.

#include "weir/engine/internal/holds.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace weir::engine {

bool Holds::reserve() {
  if (active_.fetch_add(1, std::memory_order_relaxed) < holds_max_) return true;
  unreserve();
  return false;
}

void Holds::unreserve() { active_.fetch_sub(1, std::memory_order_relaxed); }

HoldId Holds::add(HoldCharges charges, Instant expires) {
  const std::scoped_lock lock(lock_);
  const std::uint64_t number = next_number_++;
  list(number, charges);
  holds_.emplace(number, Hold{expires, std::move(charges)});
  note_changed(number);
  add_due(expires, number);
  return id_of(number);
}

HoldCharges Holds::room_for(std::size_t count) {
  HoldCharges room;
  if (count <= room.capacity()) return room;
  {
    const std::scoped_lock lock(lock_);
    if (!spare_rooms_.empty()) {
      room = std::move(spare_rooms_.back());
      spare_rooms_.pop_back();
    }
  }
  room.reserve(count);
  return room;
}

void Holds::recycle(HoldCharges charges) noexcept {
  if (charges.capacity() == HoldCharges().capacity()) return;
  charges.clear();
  const std::scoped_lock lock(lock_);
  if (spare_rooms_.size() < kSpareRoomsMax) spare_rooms_.push_back(std::move(charges));
}

Holds::Hold* Holds::find(HoldId id, Instant now) {
  const auto found = is_ours(id) ? holds_.find(id.number) : holds_.end();
  return found == holds_.end() || found->second.expires <= now ? nullptr : &found->second;
}

HoldState Holds::ended_as(HoldId id, Instant now) const {
  const auto found = is_ours(id) ? ended_.find(id.number) : ended_.end();
  return found == ended_.end() || found->second.expires <= now ? HoldState::kGone
                                                               : found->second.state;
}

void Holds::remember(std::uint64_t number, const Ended& ended) {
  ended_.emplace(number, ended);
  if (ended_order_.full()) {
    forget_stale_order();
    if (2 * ended_order_.size() >= ended_order_.capacity()) {
      ended_order_.set_capacity(std::max<std::size_t>(64, 2 * ended_order_.capacity()));
    }
  }
  ended_order_.push_back(number);
  if (ended_.size() <= holds_max_) return;
  while (!ended_.contains(ended_order_.front())) ended_order_.pop_front();
  ended_.erase(ended_order_.front());
  ended_order_.pop_front();
}

// One that is remembered for long must not leave all that were forgotten meanwhile in line.
void Holds::forget_stale_order() {
  const auto is_stale = [&](std::uint64_t number) { return !ended_.contains(number); };
  ended_order_.erase(std::remove_if(ended_order_.begin(), ended_order_.end(), is_stale),
                     ended_order_.end());
}

std::pair<std::optional<HoldCharges>, HoldState> Holds::end(HoldId id, HoldState as, Instant now) {
  const std::scoped_lock lock(lock_);
  Hold* hold = find(id, now);
  if (hold == nullptr) return {std::nullopt, ended_as(id, now)};
  note_ended(id.number, *hold);
  remember(id.number, {hold->expires, as});
  HoldCharges charges = std::move(hold->charges);
  unlist(charges);
  holds_.erase(id.number);
  active_.fetch_sub(1, std::memory_order_relaxed);
  return {std::move(charges), as};
}

bool Holds::renew(HoldId id, Instant expires, Instant now) {
  const std::scoped_lock lock(lock_);
  Hold* hold = find(id, now);
  if (hold == nullptr) return false;
  hold->expires = expires;
  note_changed(id.number);
  add_due(expires, id.number);
  return true;
}

HoldState Holds::state(HoldId id, Instant now) {
  const std::scoped_lock lock(lock_);
  return find(id, now) != nullptr ? HoldState::kActive : ended_as(id, now);
}

void Holds::forget_charges(Print print) {
  if (active() == 0) return;
  const std::scoped_lock lock(lock_);
  by_print_.for_each(print, [&](std::uint64_t number) {
    for (HoldCharge& charge : holds_.find(number)->second.charges) {
      if (charge.seat != nullptr || charge.print != print) continue;
      // It stays, so that its unit is known when the hold is settled.
      charge.amount = 0;
      charge.weight = 0;
      note_changed(number);
    }
    return true;
  });
}

std::vector<HoldId> Holds::charged_at(Print print, std::size_t most) {
  const std::scoped_lock lock(lock_);
  std::vector<HoldId> ids;
  by_print_.for_each(print, [&](std::uint64_t number) {
    ids.push_back(id_of(number));
    ids.back().is_shared = holds_.find(number)->second.is_shared;
    return ids.size() < most;
  });
  return ids;
}

void Holds::note_shared(HoldId id) {
  const std::scoped_lock lock(lock_);
  const auto found = is_ours(id) ? holds_.find(id.number) : holds_.end();
  if (found != holds_.end()) found->second.is_shared = true;
}

void Holds::list(std::uint64_t number, HoldCharges& charges) {
  for (HoldCharge& charge : charges) {
    if (charge.seat == nullptr) charge.place = by_print_.add(charge.print, number);
  }
}

void Holds::unlist(const HoldCharges& charges) {
  for (const HoldCharge& charge : charges) {
    if (charge.seat == nullptr) by_print_.remove(charge.place);
  }
}

std::optional<Holds::Weighed> Holds::charged_in(HoldId id, std::string_view unit) {
  const std::scoped_lock lock(lock_);
  const auto found = is_ours(id) ? holds_.find(id.number) : holds_.end();
  std::optional<Weighed> heaviest;
  if (found == holds_.end()) return heaviest;
  for (const HoldCharge& charge : found->second.charges) {
    if (charge.unit != unit || (heaviest && heaviest->weight >= charge.weight)) continue;
    heaviest = {charge.limit, charge.weight};
  }
  return heaviest;
}

std::optional<HoldCharges> Holds::expire_one(Instant now) {
  const std::scoped_lock lock(lock_);
  std::optional<HoldCharges> expired;
  while (!expired && !dues_.empty() && dues_.front().first <= now) {
    const Due due = dues_.front();
    std::pop_heap(dues_.begin(), dues_.end(), std::greater<>());
    dues_.pop_back();
    if (is_stale(due)) continue;
    const std::uint64_t number = due.second;
    if (const auto found = holds_.find(number); found != holds_.end()) {
      expired = std::move(found->second.charges);
      unlist(*expired);
      note_ended(number, found->second);
      active_.fetch_sub(1, std::memory_order_relaxed);
      holds_.erase(found);
    } else {
      ended_.erase(number);
      while (!ended_order_.empty() && !ended_.contains(ended_order_.front())) {
        ended_order_.pop_front();
      }
    }
  }
  publish_next();
  return expired;
}

void Holds::note_changed(std::uint64_t number) {
  if (durable_) changed_.insert(number);
}

// One that no store has seen ends without a trace.
void Holds::note_ended(std::uint64_t number, const Hold& hold) {
  if (!durable_) return;
  changed_.erase(number);
  if (hold.is_stored) ended_since_.push_back(number);
}

bool Holds::collect(std::size_t most, Instant now, HoldChanges& out) {
  const std::scoped_lock lock(lock_);
  out.as_of = now;
  out.next_number = next_number_;
  auto next = changed_.begin();
  for (; most > 0 && next != changed_.end(); --most) {
    Hold& hold = holds_.find(*next)->second;
    HoldRecord record{*next, hold.expires, static_cast<std::uint32_t>(out.charges.size()), 0,
                      !std::exchange(hold.is_stored, true)};
    for (const HoldCharge& charge : hold.charges) {
      if (charge.seat != nullptr) continue;  // a system keeps its own state
      out.charges.push_back({out.place_of(charge.limit), out.place_of(charge.unit), charge.print,
                             charge.amount, charge.weight, charge.charged_at, charge.era,
                             charge.kind});
      record.charge_count += 1;
    }
    out.active.push_back(record);
    changed_.erase(next++);
  }
  return !changed_.empty();
}

void Holds::collect_ended(HoldChanges& out) {
  const std::scoped_lock lock(lock_);
  out.next_number = next_number_;
  out.ended.insert(out.ended.end(), ended_since_.begin(), ended_since_.end());
  ended_since_.clear();
}

void Holds::uncollect(const HoldChanges& changes) {
  const std::scoped_lock lock(lock_);
  // Those that no store has seen after all, and that have ended meanwhile: however long a
  // store fails, it need not be told of them.
  std::vector<std::uint64_t> unseen;
  for (const HoldRecord& record : changes.active) {
    const auto found = holds_.find(record.number);
    if (found != holds_.end()) {
      changed_.insert(record.number);
      if (record.is_new) found->second.is_stored = false;
    } else if (record.is_new) {
      unseen.push_back(record.number);
    }
  }
  std::sort(unseen.begin(), unseen.end());
  const auto is_unseen = [&](std::uint64_t number) {
    return std::binary_search(unseen.begin(), unseen.end(), number);
  };
  std::erase_if(ended_since_, is_unseen);
  std::remove_copy_if(changes.ended.begin(), changes.ended.end(), std::back_inserter(ended_since_),
                      is_unseen);
}

bool Holds::restore(std::uint64_t number, Instant expires, HoldCharges charges) {
  if (!reserve()) return false;
  const std::scoped_lock lock(lock_);
  list(number, charges);
  holds_.emplace(number, Hold{expires, std::move(charges), true});
  next_number_ = std::max(next_number_, number + 1);
  add_due(expires, number);
  return true;
}

void Holds::skip_to(std::uint64_t number) {
  const std::scoped_lock lock(lock_);
  next_number_ = std::max(next_number_, number);
}

void Holds::add_due(Instant expires, std::uint64_t number) {
  dues_.emplace_back(expires, number);
  std::push_heap(dues_.begin(), dues_.end(), std::greater<>());
  forget_stale_dues();
  publish_next();
}

// Renewed since, or ended and forgotten.
bool Holds::is_stale(const Due& due) const {
  if (const auto found = holds_.find(due.second); found != holds_.end()) {
    return found->second.expires != due.first;
  }
  const auto found = ended_.find(due.second);
  return found == ended_.end() || found->second.expires != due.first;
}

// A hold renewed every second for a day must not leave a day of entries behind.
void Holds::forget_stale_dues() {
  if (dues_.size() < 64 || dues_.size() < 2 * (holds_.size() + ended_.size())) return;
  std::erase_if(dues_, [&](const Due& due) { return is_stale(due); });
  // Sorted, it is a heap. A hold renewed to and fro has the same entry several times.
  std::sort(dues_.begin(), dues_.end());
  dues_.erase(std::unique(dues_.begin(), dues_.end()), dues_.end());
}

void Holds::publish_next() {
  next_expiry_ns_.store(dues_.empty() ? kForever.ns : dues_.front().first.ns);
}

}  // namespace weir::engine
