#include "weir/engine/internal/adopt.h"

namespace weir::engine {

const MeterShape& adopt(const Rows& rows, const ActiveLimit& limit, Table& table, Shard& shard,
                        Slot& slot, Instant now) noexcept {
  const bool overridden = (slot.meta() & meta::kOverride) != 0;
  if (slot.row() == limit.row && !overridden) return limit.shape;
  const Row& row = rows.at(slot.row());
  const bool carries_over = row.carries_over_to(rows.at(limit.row));
  if (overridden && carries_over && row.shape.index() == limit.shape.index()) return row.shape;

  Words words;
  if (carries_over) {
    words = reshape(row.shape, limit.shape, slot.words(), table.logs, now);
  } else {
    release(row.shape, slot.words(), table.logs);
    words = initial_words(limit.shape, now);
  }
  slot.set_meta((slot.meta() & meta::kWaiters) | limit.row);
  slot.set_words(words);
  shard.mark_changed(slot);
  // A conversion rounds up, once: from here on an earlier instant counts as this one.
  shard.latest_ns.store(now.ns, std::memory_order_relaxed);
  return limit.shape;
}

}  // namespace weir::engine
