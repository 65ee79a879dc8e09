// Limits of which units are drawn ahead: decided here as long as those last.

#include <algorithm>
#include <boost/container/static_vector.hpp>

#include "weir/engine/engine_impl.h"

namespace weir::engine {

bool Engine::Impl::decide_leased(const Plan& plan, Instant now, Decision& decision) {
  SharedStore* const store = shared_store.load(std::memory_order_acquire);
  if (store == nullptr) return false;
  // Room for all, of which only what is used is made: that is seen in a call this short.
  boost::container::static_vector<LeasedItem, kLimitsPerRequestMax> items;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlanItem& item = plan.items[i];
    // With other limits, or some that never refuse, it is a matter of holds and orders.
    if (!item.limit->is_leased || item.limit->shadow) return false;
    items.push_back({item.limit->rule, item.print, item.cost});
  }
  if (waits_somebody(plan)) return false;
  boost::container::static_vector<SharedOutcome, kLimitsPerRequestMax> outcomes(plan.count);
  if (!store->decide_leased(items, now, outcomes)) return false;
  Ruling ruling(now);
  for (std::size_t i = 0; i < plan.count; ++i) {
    const PlanItem& item = plan.items[i];
    const SharedOutcome& outcome = outcomes[i];
    Outcome& row = decision.outcome_rows[i];
    row.limit = item.limit->name;
    row.verdict = outcome.check.verdict;
    row.shadow = false;
    row.overridden = false;
    row.cost = item.cost;
    row.remaining =
        std::max<std::int64_t>(0, outcome.check.allowed() ? outcome.after : outcome.before);
    row.capacity = item.limit->capacity;
    row.earliest = outcome.check.earliest;
    ruling.add(i, outcome.check);
  }
  decision.outcome_count = plan.count;
  ruling.write_to(decision);
  count(local(), plan, decision);
  return true;
}

}  // namespace weir::engine
