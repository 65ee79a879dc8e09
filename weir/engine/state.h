// State: what an engine knows, written down so that it can outlive the process.
//
// An engine made with `durable` remembers which meters and holds changed since they
// were last collected. A store collects them shard by shard, keeps them, and gives
// them back to the engine of the next process. Everything here is plain values: a
// store may write them in any form.
//
//   MeterChanges   rows    limit, era, shape      named by the meters
//                  meters  print, row, words      and for a log a range of
//                  runs    (instant, units)       runs, oldest first
//   HoldChanges    active  number, expiry         and a range of
//                  charges limit, unit, print, what and when
//                  ended   numbers
//
// What is in flight at a slots meter is not taken from its record: it is the sum of
// what active holds charged there, so a hold that expired meanwhile has come back.
//
// Thread safety: values, but for the Collector, which takes and brings them.

#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/engine/print.h"
#include "weir/meter/log.h"

namespace weir::engine {

class Engine;

// A shape as numbers. Which stands where: docs/reference/state.md.
struct ShapeRecord {
  MeterKind kind = MeterKind::kBucket;
  std::array<std::int64_t, 4> terms{};

  friend bool operator==(const ShapeRecord&, const ShapeRecord&) = default;
};

ShapeRecord record_of(const MeterShape& shape) noexcept;
// Refused, with a message, unless some shape has these terms.
Result<MeterShape> shape_of(const ShapeRecord& record);

struct RowRecord {
  std::string limit;      // empty: ad-hoc buckets
  std::uint64_t era = 0;  // of the limit, counted from 0 in each process
  ShapeRecord shape;
  Instant as_of{};  // when the meters were collected
};

constexpr std::uint32_t kForgotten = ~std::uint32_t{0};

struct MeterRecord {
  Print print;
  Words words{};                // of a log: zeros
  std::uint32_t row = 0;        // its place in `rows`; kForgotten: back in its initial state
  std::uint32_t first_run = 0;  // its place in `runs`
  std::uint16_t run_count = 0;
  bool overridden = false;  // the row's shape is the key's own
};

struct MeterChanges {
  std::vector<RowRecord> rows;
  std::vector<MeterRecord> meters;  // a later one of the same print replaces an earlier one
  std::vector<meter::LogRun> runs;

  std::span<const meter::LogRun> runs_of(const MeterRecord& record) const noexcept {
    return std::span(runs).subspan(record.first_run, record.run_count);
  }
  void clear();

  // For collecting: where the rows of one engine stand.
  boost::unordered_flat_map<std::uint64_t, std::uint32_t> places{};
};

// Whether forgetting the meter would change nothing, from `now` on. Requires a row.
bool is_forgettable(const MeterShape& shape, const MeterRecord& record,
                    std::span<const meter::LogRun> runs, Instant now) noexcept;

// Whether some meter of this shape can be in this state.
bool is_sound(const MeterShape& shape, const MeterRecord& record,
              std::span<const meter::LogRun> runs) noexcept;

struct ChargeRecord {
  std::uint32_t limit = 0;  // its place in `names`
  std::uint32_t unit = 0;
  Print print;
  std::int64_t amount = 0;
  std::int64_t weight = 1;
  Instant charged_at{};
  std::uint64_t era = 0;  // of the limit
  // Of meter it was charged at. None: an older record, which knows only that it was not slots.
  std::optional<MeterKind> kind = MeterKind::kBucket;
};

struct HoldRecord {
  std::uint64_t number = 0;
  Instant expires{};
  std::uint32_t first_charge = 0;
  std::uint32_t charge_count = 0;
  bool is_new = false;  // no store has been given it before
};

constexpr std::size_t kHoldsPerCollection = 4096;

// Charges at the gates of systems are not here: those keep their own state.
struct HoldChanges {
  std::vector<HoldRecord> active;  // new or renewed
  std::vector<ChargeRecord> charges;
  std::vector<std::string> names;    // of limits and units
  std::vector<std::uint64_t> ended;  // also if it is among the active ones
  std::uint64_t next_number = 1;     // not given out yet
  Instant as_of{};                   // when they were collected

  std::span<const ChargeRecord> charges_of(const HoldRecord& record) const noexcept {
    return std::span(charges).subspan(record.first_charge, record.charge_count);
  }
  // The place of a name, added if need be.
  std::uint32_t place_of(std::string_view name);
};

struct EraRecord {
  std::string limit;
  std::uint64_t era = 0;
};

struct RestoreReport {
  std::uint64_t meters = 0;   // brought back, also if another record replaced it
  std::uint64_t initial = 0;  // not worth it: back in their initial state meanwhile
  std::uint64_t skipped = 0;  // meters of a limit that is gone
  std::uint64_t no_room = 0;  // meters beyond their limit's share of the table
  std::uint64_t moved = 0;    // meters and holds of a clock that was ahead of this one
  std::uint64_t holds = 0;
  std::uint64_t expired = 0;  // holds whose time came meanwhile

  RestoreReport& operator+=(const RestoreReport& other) noexcept;
};

// The record as it would stand had it been collected at `now`, for one of a clock that
// was ahead: a clock that was wrong must not lock a key for years. What is left to
// wait stays the same; ticks keep their phase, and windows are those of `now`.
// Requires as_of > now, and a row.
void move_back(const MeterShape& shape, MeterRecord& record, std::vector<meter::LogRun>& runs,
               Instant as_of, Instant now);

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
