#include "weir/engine/internal/collecting.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

namespace weir::engine {
namespace {

// The place of a slot's row among those collected.
std::uint32_t place_of(const Row& row, Instant now, MeterChanges& out) {
  const auto [found, is_new] =
      out.places.try_emplace(row.serial, static_cast<std::uint32_t>(out.rows.size()));
  if (is_new) out.rows.push_back({std::string(row.limit), row.era, record_of(row.shape), now});
  return found->second;
}

MeterRecord record_of(const Slot& slot, std::uint32_t place, bool is_log, const LogBlocks& blocks,
                      std::vector<meter::LogRun>& runs) {
  MeterRecord record;
  record.print = {slot.low.load(std::memory_order_relaxed),
                  slot.high.load(std::memory_order_relaxed) & kPrintHighMask};
  record.row = place;
  record.overridden = (slot.meta() & meta::kOverride) != 0;
  record.words = slot.words();
  if (is_log) {
    const auto state = std::bit_cast<meter::LogState>(record.words);
    record.words = {};
    record.first_run = static_cast<std::uint32_t>(runs.size());
    record.run_count = state.size;
    runs.resize(runs.size() + state.size);
    meter::move_runs(state, blocks.ring(state.block), std::span(runs).subspan(record.first_run));
  }
  return record;
}

// Gives the runs a block. True: `words` name it. False: the blocks are exhausted.
bool store_runs(std::span<const meter::LogRun> runs, LogBlocks& blocks, Words& words) {
  meter::LogState state;
  if (!blocks.reserve(state, static_cast<std::uint32_t>(runs.size()))) return false;
  std::copy(runs.begin(), runs.end(), blocks.ring(state.block).begin());
  for (const meter::LogRun& run : runs) state.held += run.units;
  state.size = static_cast<std::uint16_t>(runs.size());
  words = std::bit_cast<Words>(state);
  return true;
}

// Meters are stored in the order of a table. Brought back one by one into shards that have
// yet to grow, each would be put behind all before it.
void reserve_for(const MeterChanges& changes, Table& table) {
  std::vector<std::size_t> keys(table.shard_count(), 0);
  for (const MeterRecord& record : changes.meters) {
    if (record.row != kForgotten) keys[table.index_of(record.print)] += 1;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == 0) continue;
    const std::scoped_lock lock(table.shard(i));
    table.reserve(table.shard(i), keys[i]);
  }
}

Error unsound(std::string_view limit) {
  return bad_argument(fmt::format(
      "state: limit '{}': a meter's record is in a state that its shape cannot have; the record is "
      "damaged, start without it",
      limit));
}

}  // namespace

void Collecting::collect(std::size_t index, Collect which, Instant now, MeterChanges& out) {
  Shard& shard = ground_.table.shard(index);
  ground_.table.set_store_fails(false);  // until mark_changed() says so again
  // Memory is found before the lock is taken.
  const std::size_t needed = out.meters.size() + shard.size.load(std::memory_order_relaxed);
  if (needed > out.meters.capacity()) {
    out.meters.reserve(std::max(needed, 2 * out.meters.capacity()));
  }
  const std::scoped_lock lock(shard);
  if (ground_.options.durable) {
    for (const Print print : ground_.table.forgotten(shard)) {
      out.meters.push_back({.print = print, .row = kForgotten});
    }
    ground_.table.forgotten(shard).clear();
  }
  Slot* const slots = shard.slots.load(std::memory_order_relaxed);
  const std::size_t capacity = shard.capacity.load(std::memory_order_relaxed);
  const unsigned part_bits = shard.part_bits();
  const bool whole = which == Collect::kWhole;
  std::uint64_t parts = std::exchange(shard.changed_parts, 0);
  if (whole) parts = ~std::uint64_t{0};
  // Most slots of a shard are of the same row as the one before.
  const Row* last = nullptr;
  std::uint32_t place = 0;
  for (; parts != 0; parts &= parts - 1) {
    const std::size_t part = static_cast<std::size_t>(std::countr_zero(parts));
    const std::size_t end = std::min((part + 1) << part_bits, capacity);
    for (std::size_t i = part << part_bits; i < end; ++i) {
      Slot& slot = slots[i];
      if (slot.row() == 0) continue;
      const bool changed = (slot.meta() & meta::kDirty) != 0;
      if (!changed && !whole) continue;
      if (changed) slot.set_meta(slot.meta() & ~meta::kDirty);
      const Row& row = ground_.rows.at(slot.row());
      if (!row.alive) continue;  // see eras()
      // One that changed is collected even so: if this is not stored, it has to be again.
      if (!changed && (slot.meta() & meta::kOverride) == 0 &&
          is_initial(row.shape, slot.words(), ground_.table.logs, now)) {
        continue;
      }
      if (&row != last) {
        place = place_of(row, now, out);
        last = &row;
      }
      out.meters.push_back(record_of(slot, place, is_log(row.shape), ground_.table.logs, out.runs));
    }
  }
}

void Collecting::mark_changed(std::span<const Print> prints) {
  Table& table = ground_.table;
  table.set_store_fails(true);
  for (const Print print : prints) {
    Shard& shard = table.shard_of(print);
    const std::scoped_lock lock(shard);
    if (Slot* slot = table.find(shard, print)) {
      shard.mark_changed(*slot);
    } else if (ground_.options.durable) {
      table.note_forgotten(shard, print);  // it was dropped meanwhile
    }
  }
}

std::vector<EraRecord> Collecting::eras() {
  return rules_.locked([&](const Active&) {
    std::vector<EraRecord> eras;
    for (auto& [limit, era] : ground_.rows.later_eras()) eras.push_back({std::move(limit), era});
    return eras;
  });
}

Result<RestoreReport> Collecting::restore(const MeterChanges& meters, Instant now) {
  Status retired = rules_.retire_strangers(meters.rows, now);
  if (!retired) return std::move(retired).error();
  return rules_.locked([&](const Active& active) { return restore(active, meters, now); });
}

Result<RestoreReport> Collecting::restore(const HoldChanges& holds, Instant now) {
  return rules_.locked([&](const Active& active) { return restore(active, holds, now); });
}

Result<RestoreReport> Collecting::restore(const Active& active, const MeterChanges& meters,
                                          Instant now) {
  std::vector<RowId> row_ids;  // 0: the limit is gone
  for (const RowRecord& record : meters.rows) {
    const ActiveLimit* limit = active.find(record.limit);
    Result<MeterShape> shape = shape_of(record.shape);
    if (!shape) {
      return bad_argument(
          fmt::format("state: limit '{}': {}", record.limit, shape.error().message));
    }
    RowId row_id = 0;
    if (record.limit.empty()) {
      if (record.shape.kind == MeterKind::kBucket) row_id = ground_.ad_hoc_row;
    } else if (limit != nullptr && limit->seat == nullptr && limit->is_slots == is_slots(*shape)) {
      row_id = ground_.rows.add(record.limit, *shape);
      if (row_id == 0) {
        return Error{ErrorCode::kExhausted,
                     fmt::format("state: limit '{}': there are too many limits and overrides in "
                                 "different shapes; use fewer",
                                 record.limit)};
      }
    }
    row_ids.push_back(row_id);
  }
  reserve_for(meters, ground_.table);
  RestoreReport report;
  for (const MeterRecord& record : meters.meters) {
    Status restored = restore_meter(active, meters, record, row_ids, now, report);
    if (!restored) return std::move(restored).error();
  }
  return report;
}

Status Collecting::restore_meter(const Active& active, const MeterChanges& meters,
                                 const MeterRecord& stored, std::span<const RowId> row_ids,
                                 Instant now, RestoreReport& report) {
  Shard& shard = ground_.table.shard_of(stored.print);
  const std::scoped_lock lock(shard);
  // What is left out as initial now must not come back for an earlier instant.
  shard.latest_ns.store(shard.at_least(now).ns, std::memory_order_relaxed);
  if (Slot* earlier = ground_.table.find(shard, stored.print)) {
    rules_.forget_override(stored.print);
    ground_.table.erase(shard, earlier);
  }
  if (stored.row == kForgotten) return Done{};
  WEIR_ASSERT(stored.row < row_ids.size());
  WEIR_ASSERT(std::size_t{stored.first_run} + stored.run_count <= meters.runs.size());
  const RowId row_id = row_ids[stored.row];
  if (row_id == 0) {
    report.skipped += 1;
    return Done{};
  }
  const Row& row = ground_.rows.at(row_id);
  MeterRecord record = stored;
  std::vector<meter::LogRun> runs(meters.runs_of(stored).begin(), meters.runs_of(stored).end());
  if (!is_sound(row.shape, record, runs)) return unsound(row.limit);
  const Instant as_of = meters.rows[stored.row].as_of;
  if (as_of > now) {
    move_back(row.shape, record, runs, as_of, now);
    report.moved += 1;
  }
  const ActiveLimit* limit = active.find(row.limit);
  // Parameters of its own end with the limit's kind of meter.
  if (limit == nullptr || limit->shape.index() != row.shape.index()) record.overridden = false;
  if (is_forgettable(row.shape, record, runs, now)) {
    report.initial += 1;
    return Done{};
  }
  if (is_slots(row.shape)) record.words = {};  // the holds will say
  // Before the runs of a log are stored, which come with its words.
  Slot* slot = ground_.table.insert(shard, record.print, row_id, {}, now);
  if (slot == nullptr) {
    report.no_room += 1;
    return Done{};
  }
  if (!runs.empty() && !store_runs(runs, ground_.table.logs, record.words)) {
    return Error{ErrorCode::kExhausted,
                 fmt::format("state: limit '{}': the memory for logs is used up; raise "
                             "{} to what it was",
                             row.limit, ground_.options.names.log_runs)};
  }
  slot->set_words(record.words);
  slot->set_meta(row_id | (record.overridden ? meta::kOverride : 0));  // the store has it
  report.meters += 1;
  if (!record.overridden) return Done{};
  if (rules_.note_override(record.print, row.limit)) return Done{};
  return Error{
      ErrorCode::kExhausted,
      fmt::format("state: limit '{}': more than {} keys have overrides; raise "
                  "{} to what it was",
                  row.limit, ground_.options.overrides_max, ground_.options.names.overrides)};
}

Result<RestoreReport> Collecting::restore(const Active& active, const HoldChanges& stored,
                                          Instant now) {
  RestoreReport report;
  std::vector<std::string_view> names;
  for (const std::string& name : stored.names) names.push_back(ground_.rows.intern(name));
  for (const HoldRecord& record : stored.active) {
    WEIR_ASSERT(std::size_t{record.first_charge} + record.charge_count <= stored.charges.size());
    Instant expires = record.expires;
    const bool is_moved = stored.as_of > now;
    if (is_moved) {
      expires = expires - (stored.as_of - now);
      report.moved += 1;
    }
    if (expires <= now) {
      report.expired += 1;
      continue;
    }
    HoldCharges charges;
    for (const ChargeRecord& charge : stored.charges_of(record)) {
      WEIR_ASSERT(charge.limit < names.size());
      WEIR_ASSERT(charge.unit < names.size());
      const ActiveLimit* limit = active.find(names[charge.limit]);
      // To a limit that is gone, or came back as another, nothing is given back.
      const bool was_slots = charge.kind == MeterKind::kSlots;
      if (limit == nullptr || limit->seat != nullptr || limit->is_slots != was_slots ||
          ground_.rows.era(limit->name) > 0) {
        continue;
      }
      if (charge.amount < 0 || charge.amount > kTermMax || charge.weight < 0) {
        return unsound(limit->name);
      }
      Instant charged_at = charge.charged_at;
      // The instants of windows and logs have moved, so it names none of theirs.
      if (is_moved) {
        charged_at =
            has_ebbs(limit->shape)
                ? Instant{std::max<std::int64_t>(0, charged_at.ns - (stored.as_of - now).count())}
                : Instant{0};
      }
      charges.push_back({limit->name, names[charge.unit], charge.print, nullptr, charge.amount,
                         charge.weight, charged_at, 0,
                         charge.kind.value_or(kind_of(limit->shape))});
      if (!was_slots || restore_in_flight(*limit, charge.print, charge.amount, now)) continue;
      report.no_room += 1;
      charges.pop_back();  // it is not in flight, so nothing comes back
    }
    if (!holds_.restore(record.number, expires, std::move(charges))) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("state: there are more than {} stored holds; raise {} to what "
                               "it was",
                               holds_.active(), ground_.options.names.holds)};
    }
    report.holds += 1;
  }
  holds_.skip_to(stored.next_number);
  return report;
}

// False: the limit has no room for the key.
bool Collecting::restore_in_flight(const ActiveLimit& limit, Print print, std::int64_t amount,
                                   Instant now) {
  Shard& shard = ground_.table.shard_of(print);
  const std::scoped_lock lock(shard);
  Slot* slot = ground_.table.find(shard, print);
  if (slot == nullptr) slot = ground_.table.insert(shard, print, limit.row, {}, now);
  if (slot == nullptr) return false;
  auto state = std::bit_cast<meter::SlotsState>(slot->words());
  state.in_flight = saturate(std::min(Wide{state.in_flight} + amount, Wide{kTermMax}));
  slot->set_words(std::bit_cast<Words>(state));
  slot->set_meta(slot->meta() & ~meta::kDirty);  // the hold is its record
  return true;
}

}  // namespace weir::engine
