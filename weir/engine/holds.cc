#include "weir/engine/holds.h"

#include <algorithm>

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
  holds_.emplace(number, Hold{HoldState::kActive, expires, std::move(charges)});
  dues_.emplace(expires, number);
  forget_stale_dues();
  publish_next();
  return {owner_, number};
}

std::pair<std::optional<HoldCharges>, HoldState> Holds::end(HoldId id, HoldState as, Instant now) {
  const std::scoped_lock lock(lock_);
  const auto found = id.owner == owner_ ? holds_.find(id.number) : holds_.end();
  if (found == holds_.end()) return {std::nullopt, HoldState::kGone};
  Hold& hold = found->second;
  // Past its time it is gone, whether or not anybody has come to say so.
  if (hold.expires <= now) return {std::nullopt, HoldState::kGone};
  if (hold.state != HoldState::kActive) return {std::nullopt, hold.state};
  hold.state = as;
  HoldCharges charges = std::move(hold.charges);
  active_.fetch_sub(1, std::memory_order_relaxed);
  ended_.push_back(id.number);
  if (ended_.size() > holds_max_) {
    holds_.erase(ended_.front());
    ended_.pop_front();
  }
  return {std::move(charges), as};
}

bool Holds::renew(HoldId id, Instant expires, Instant now) {
  const std::scoped_lock lock(lock_);
  const auto found = id.owner == owner_ ? holds_.find(id.number) : holds_.end();
  if (found == holds_.end() || found->second.state != HoldState::kActive) return false;
  if (found->second.expires <= now) return false;
  found->second.expires = expires;
  dues_.emplace(expires, id.number);
  forget_stale_dues();
  publish_next();
  return true;
}

HoldState Holds::state(HoldId id, Instant now) {
  const std::scoped_lock lock(lock_);
  const auto found = id.owner == owner_ ? holds_.find(id.number) : holds_.end();
  if (found == holds_.end() || found->second.expires <= now) return HoldState::kGone;
  return found->second.state;
}

bool Holds::is_charged_in(HoldId id, std::string_view unit) {
  const std::scoped_lock lock(lock_);
  const auto found = id.owner == owner_ ? holds_.find(id.number) : holds_.end();
  return found != holds_.end() &&
         std::any_of(found->second.charges.begin(), found->second.charges.end(),
                     [&](const HoldCharge& charge) { return charge.unit == unit; });
}

std::optional<HoldCharges> Holds::expire_one(Instant now) {
  const std::scoped_lock lock(lock_);
  std::optional<HoldCharges> expired;
  while (!expired && !dues_.empty() && dues_.top().first <= now) {
    const auto [expires, number] = dues_.top();
    dues_.pop();
    const auto found = holds_.find(number);
    if (found == holds_.end() || found->second.expires != expires) continue;  // renewed since
    if (found->second.state == HoldState::kActive) {
      expired = std::move(found->second.charges);
      active_.fetch_sub(1, std::memory_order_relaxed);
      holds_.erase(found);
    } else {
      // Ended before its time and remembered until now. The deque of ended ones
      // may still name it; forgetting it twice is harmless.
      holds_.erase(found);
      while (!ended_.empty() && !holds_.contains(ended_.front())) ended_.pop_front();
    }
  }
  publish_next();
  return expired;
}

// A hold renewed every second for a day must not leave a day of entries behind.
void Holds::forget_stale_dues() {
  if (dues_.size() < 64 || dues_.size() < 2 * holds_.size()) return;
  std::vector<Due> current;
  current.reserve(holds_.size());
  for (const auto& [number, hold] : holds_) current.emplace_back(hold.expires, number);
  dues_ = std::priority_queue<Due, std::vector<Due>, Later>(Later{}, std::move(current));
}

void Holds::publish_next() {
  next_expiry_ns_.store(dues_.empty() ? kForever.ns : dues_.top().first.ns,
                        std::memory_order_release);
}

}  // namespace weir::engine
