// Collecting: what a store is given of this engine, and what it brings back.
//
//  1. What is collected counts as unchanged from then on, under the same lock. mark_changed()
//     undoes that for what could not be stored.
//  2. A meter whose slot was dropped is collected as forgotten, unless no store has seen it.
//  3. What is in flight at a slots meter comes back from the holds, never from its record.
//  4. A record that its shape cannot have is an error. Nothing of it is used.
//
// Thread safety: one caller collects at a time; restore() comes before every other call.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weir/engine/internal/ground.h"
#include "weir/engine/internal/holds.h"
#include "weir/engine/internal/rules_in_force.h"
#include "weir/engine/state.h"

namespace weir::engine {

// Which meters of a shard a store asks for.
enum class Collect : std::uint8_t { kChanged, kWhole };

class Collecting {
 public:
  Collecting(Ground& ground, RulesInForce& rules, Holds& holds)
      : ground_(ground), rules_(rules), holds_(holds) {}

  // These do what Collector's functions of like names say (state.h).
  void collect(std::size_t shard, Collect which, Instant now, MeterChanges& out);
  bool collect_holds(Instant now, HoldChanges& out) {
    return holds_.collect(kHoldsPerCollection, now, out);
  }
  void collect_ended_holds(HoldChanges& out) { holds_.collect_ended(out); }
  void mark_changed(std::span<const Print> prints);
  void mark_changed(const HoldChanges& changes) { holds_.uncollect(changes); }
  std::vector<EraRecord> eras();

  Result<RestoreReport> restore(const MeterChanges& meters, Instant now);
  Result<RestoreReport> restore(const HoldChanges& holds, Instant now);

 private:
  Result<RestoreReport> restore(const Active& active, const MeterChanges& meters, Instant now);
  Result<RestoreReport> restore(const Active& active, const HoldChanges& holds, Instant now);
  Status restore_meter(const Active& active, const MeterChanges& meters, const MeterRecord& record,
                       std::span<const RowId> row_ids, Instant now, RestoreReport& report);
  // Puts back what a hold keeps in flight.
  bool restore_in_flight(const ActiveLimit& limit, Print print, std::int64_t amount, Instant now);

  Ground& ground_;
  RulesInForce& rules_;
  Holds& holds_;
};

}  // namespace weir::engine
