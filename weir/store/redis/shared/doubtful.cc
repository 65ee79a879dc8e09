#include "weir/store/redis/shared/doubtful.h"

namespace weir::store::redis {

using engine::HoldState;

void DoubtfulHolds::add(HoldId hold, std::shared_ptr<const engine::RuleSet> rules, bool is_due,
                        Instant now, Instant expires) {
  const std::scoped_lock lock(lock_);
  while (!by_end_.empty() && by_end_.begin()->first <= now) {
    erase(doubtful_.find(by_end_.begin()->second));
  }
  if (doubtful_.size() >= kDoubtfulHoldsMax) return;
  const Name name{hold.owner, hold.number};
  if (!doubtful_.try_emplace(name, Doubtful{std::move(rules), expires, is_due}).second) return;
  by_end_.emplace(expires, name);
  size_.store(doubtful_.size(), std::memory_order_relaxed);
}

void DoubtfulHolds::erase(Place place) {
  by_end_.erase({place->second.expires, place->first});
  doubtful_.erase(place);
  size_.store(doubtful_.size(), std::memory_order_relaxed);
}

void DoubtfulHolds::heard(HoldId hold, bool is_made, Instant now) {
  std::unique_lock lock(lock_);
  const auto found = doubtful_.find({hold.owner, hold.number});
  if (found == doubtful_.end()) return;
  found->second.is_due = false;
  if (is_made && !found->second.end) return;
  const Doubtful doubtful = found->second;
  erase(found);
  lock.unlock();
  if (is_made) end_there(hold, *doubtful.end, doubtful.rules, now);
}

void DoubtfulHolds::ended(HoldId hold, HoldState as, std::span<const engine::Cost> actual,
                          Instant now) {
  if (size() == 0) return;
  std::unique_lock lock(lock_);
  const auto found = doubtful_.find({hold.owner, hold.number});
  if (found == doubtful_.end() || found->second.end) return;
  End end{as, {}};
  for (const engine::Cost& cost : actual) end.actual.emplace_back(cost.unit, cost.amount);
  const std::shared_ptr<const engine::RuleSet> rules = found->second.rules;
  // Should the answer still come, this end may have been too early for Redis to know the hold.
  if (found->second.is_due) {
    found->second.end = end;
  } else {
    erase(found);
  }
  lock.unlock();
  end_there(hold, end, rules, now);
}

void DoubtfulHolds::end_there(HoldId hold, const End& end,
                              std::shared_ptr<const engine::RuleSet> rules, Instant now) {
  std::vector<engine::Cost> actual;
  for (const auto& [unit, amount] : end.actual) actual.push_back({unit, amount});
  // How it stands there is nothing to the client, who has ended the one it knows.
  holds_.end(hold, end.as, actual, std::move(rules), now, [](const Result<engine::SharedEnd>&) {});
}

}  // namespace weir::store::redis
