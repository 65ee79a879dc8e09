// Adopt: a slot of older rules comes under those in force.
//
// A slot names the row (limit and shape) it was last written under. When a limit
// has changed since, its meters are converted as they are touched: what was used
// is kept, rounded up unless only a bucket's burst changed. Nothing is carried
// over from another era of the limit (it was gone meanwhile, or changed between slots
// and spending).

#pragma once

#include "weir/engine/internal/plan.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {

// Whether the slot is of another era, and no waiter has a place there: then its key counts as one
// that was never seen, until it is charged.
inline bool is_left_over(const Rows& rows, const ActiveLimit& limit, const Slot& slot) noexcept {
  // While a limit is retired its row may be dead before newer rules are in force.
  if (slot.row() == limit.row) return false;
  return !rows.at(slot.row()).carries_over_to(rows.at(limit.row)) &&
         (slot.meta() & meta::kWaiters) == 0;
}

// The shape of the slot's meter under `limit`: the limit's own, to which it is
// converted if need be, or that of its override. Needs the shard's lock and rules
// in force.
const MeterShape& adopt(const Rows& rows, const ActiveLimit& limit, Table& table, Shard& shard,
                        Slot& slot, Instant now) noexcept;

}  // namespace weir::engine
