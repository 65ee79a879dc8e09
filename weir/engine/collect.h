// Collector: what changed in a durable engine, for a store; and what a store brings back.
//
// Collecting is for one caller at a time, of an engine made with `durable`. It locks one
// shard, or the holds, for a bounded time, and what it returns counts as unchanged from then
// on. When it could not be stored, mark_changed() undoes that.
//
//   do more = collector.holds(now, holds); while (more);   // first the holds
//   for each shard: collector.changed(shard, now, meters);  // then their charges
//   collector.ended_holds(ended);                           // then what gave them back
//
// In this order a stored hold always has its charges, and what a hold gave back always
// comes with its end.
//
// Thread safety: safe beside every other use of the engine. The engine must outlive it.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/print.h"
#include "weir/engine/state.h"

namespace weir::engine {

class Engine;

class Collector {
 public:
  explicit Collector(Engine& engine) noexcept : engine_(engine) {}

  // Shards are numbered from 0. Their number never changes.
  std::size_t shards() const noexcept;
  // At most kHoldsPerCollection new or renewed ones. True: there are more.
  bool holds(Instant now, HoldChanges& out) noexcept;
  // The meters of a shard that have changed since they were last collected.
  void changed(std::size_t shard, Instant now, MeterChanges& out) noexcept;
  // All of a shard's meters, but for those in their initial state that had not changed: a store
  // that has these needs no earlier record of the shard.
  void whole(std::size_t shard, Instant now, MeterChanges& out) noexcept;
  // Those that a store may have, and that have ended since.
  void ended_holds(HoldChanges& out) noexcept;
  // These could not be stored: they count as changed again.
  void mark_changed(std::span<const Print> prints) noexcept;
  void mark_changed(const HoldChanges& holds) noexcept;
  // Limits that were gone for a while, or changed between slots and spending: nothing that was
  // collected of them in another era counts. To be asked after collecting.
  std::vector<EraRecord> eras() const noexcept;

  // Brings back what an earlier engine with the same secret and owner collected, on an engine
  // with its rules in force, before any other call. May be called several times: later records
  // replace earlier ones of the same meter; holds come after all meters, each of them once.
  // A limit that is gone is skipped, one that has changed is converted when touched.
  // After an error the engine is not to be used.
  Result<RestoreReport> restore(const MeterChanges& meters, Instant now) noexcept;
  Result<RestoreReport> restore(const HoldChanges& holds, Instant now) noexcept;

 private:
  Engine& engine_;
};

}  // namespace weir::engine
