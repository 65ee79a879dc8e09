// Invariants:
// 1. The breaker turns under the turn lock, and its turn is told under it: so turns are told in
//    order, each once. The one that is told asks nothing of this store.
// 2. Only failures of reach open it. An answer is none, even an error.
// 3. A Redis of another topology than one by itself has answered: no policy decides in its place.
// 4. The stand-in drops what has refilled whenever the breaker turns, and nothing else: so what was
//    used in one outage counts in the next.

#include "weir/store/redis/shared/outages.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weir/store/redis/shared/errors.h"

namespace weir::store::redis {

Outages::Outages(const BreakerShape& shape, Clock& clock, Turned turned, Turned misplaced)
    : clock_(clock),
      turned_(std::move(turned)),
      misplaced_(std::move(misplaced)),
      breaker_(shape) {}

std::optional<Error> Outages::refusal(Instant now) {
  if (may_ask(now)) return std::nullopt;
  return Error{ErrorCode::kUnavailable, why()};
}

bool Outages::note_failure(const Failure& failure) {
  if (failure.kind == FailureKind::kTopology) note_misplaced(failure);
  if (!is_outage(failure.kind)) return false;
  {
    const std::scoped_lock lock(lock_);
    trouble_ = failure.message;
  }
  const Instant now = clock_.now();
  const std::scoped_lock lock(turn_lock_);
  if (!breaker_.failed(now)) return true;
  turns_.fetch_add(1, std::memory_order_relaxed);
  stand_in_.forget(now);  // what has refilled since the outage before
  if (turned_) turned_(failure.message);
  return true;
}

Error Outages::failed(const Failure& failure) {
  note_failure(failure);
  return named(failure);
}

// It answers, so the outage is over and no policy decides; but nothing is admitted there.
void Outages::note_misplaced(const Failure& failure) {
  const std::scoped_lock lock(turn_lock_);
  close();
  if (is_misplaced_.exchange(true, std::memory_order_relaxed)) return;
  if (misplaced_) misplaced_(failure.message);
}

void Outages::note_success() {
  if (!breaker_.has_failed() && !is_misplaced_.load(std::memory_order_relaxed)) return;
  const std::scoped_lock lock(turn_lock_);
  close();
  if (is_misplaced_.exchange(false, std::memory_order_relaxed) && misplaced_) misplaced_({});
}

// Requires turn_lock_.
void Outages::close() {
  if (!breaker_.succeeded()) return;
  turns_.fetch_add(1, std::memory_order_relaxed);
  stand_in_.forget(clock_.now());
  if (turned_) turned_({});
}

std::string Outages::trouble() const {
  if (!breaker_.is_open()) return {};
  const std::scoped_lock lock(lock_);
  return trouble_;
}

std::string Outages::why() const {
  std::string why = trouble();
  return why.empty() ? "Redis did not answer" : why;  // empty: the outage has just ended
}

Result<engine::SharedAnswer> Outages::decide(const engine::RuleSet& rules,
                                             std::span<const engine::SharedItem> items,
                                             std::span<const std::string> keys, Instant now,
                                             bool is_peek, const std::string& why) {
  by_policy_.fetch_add(1, std::memory_order_relaxed);
  const auto is_local = [](const engine::Rule& rule) {
    return !rule.shadow && rule.shared && rule.shared->outage == engine::Outage::kLocal;
  };
  const auto is_alone = [&](const engine::SharedItem& item) { return is_local(*item.rule); };
  std::vector<StandIn::Item> alone;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const engine::Rule& rule = *items[i].rule;
    if (!rule.shadow && rule.shared->outage == engine::Outage::kDeny) {
      return Error{ErrorCode::kUnavailable,
                   fmt::format("limit '{}': {}; while that lasts nothing is admitted, unless the "
                               "limit says 'outage: allow' or 'outage: local'",
                               rule.name, why)};
    }
    if (is_alone(items[i]))
      alone.push_back({&rule.shape, keys[i], items[i].cost, false, rule.name});
  }
  const auto sharers =
      alone.empty() ? 0 : std::count_if(rules.rules().begin(), rules.rules().end(), is_local);
  const auto decided = stand_in_.take(alone, static_cast<std::int64_t>(servers()), now, is_peek,
                                      static_cast<std::size_t>(sharers));
  engine::SharedAnswer said;
  said.now = now;
  std::size_t next = 0;
  for (const engine::SharedItem& item : items) {
    // Of a limit that allows everything meanwhile, what is left is not known.
    said.outcomes.push_back(is_alone(item)
                                ? decided[next++]
                                : engine::SharedOutcome{{Verdict::kAllowed, now, 0}, 0, 0});
  }
  return said;
}

}  // namespace weir::store::redis
