#include "weir/store/sqlite/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "weir/store/sqlite/packing.h"

namespace weir::store::sqlite {
namespace {

// A blob of meters ends with the shard that brings it past this, so that merging a few
// ranges seldom reads the blobs of others.
constexpr std::size_t kBlobMeters = 2048;
constexpr std::size_t kBlobRuns = 4096;
constexpr std::size_t kBlobRows = 4096;

bool is_large(const engine::MeterChanges& changes) {
  return changes.meters.size() >= kBlobMeters || changes.runs.size() >= kBlobRuns ||
         changes.rows.size() >= kBlobRows;
}

}  // namespace

// What a flush has taken from the engine, to be given back if it fails.
struct Store::Collected {
  std::optional<Transaction> transaction{};  // begun with the first blob
  std::vector<engine::HoldChanges> holds{};  // without their charges
  std::vector<Part> parts{};
  Eras eras{};  // afterwards
  Places places{};
  Facts facts{};
  Turn turn{};
  std::uint64_t bytes = 0;
  std::uint64_t hold_count = 0;
};

Store::Store(Directory directory, Database database, const Facts& facts, Eras eras,
             const Places& places)
    : directory_(std::move(directory)),
      file_(directory_.file(kDatabaseName).string()),
      database_(std::move(database)),
      facts_(facts),
      eras_(std::move(eras)),
      places_(places),
      compaction_(file_, facts.process, *std::max_element(places.begin(), places.end())) {}

Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::open(const std::filesystem::path& dir,
                                           StartEmpty start_empty) noexcept {
  try {
    return open_directory(dir, start_empty);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kExhausted,
                 "store: no memory to open the state; allow the process more"};
  }
}

Result<std::unique_ptr<Store>> Store::open_directory(const std::filesystem::path& dir,
                                                     StartEmpty start_empty) {
  Result<Directory> directory = Directory::open(dir);
  if (!directory) return std::move(directory).error();
  if (start_empty == StartEmpty::kYes) {
    Status moved = directory->move_aside(kDatabaseName);
    if (!moved) return std::move(moved).error();
  }
  const std::string file = directory->file(kDatabaseName).string();
  Result<Database> database = open_database(*directory);
  if (!database) return std::move(database).error();
  Result<Facts> facts = begin_process(*database, file);
  if (!facts) return std::move(facts).error();
  Result<Eras> eras = read_eras(*database, file);
  if (!eras) return std::move(eras).error();
  const Result<Places> places = read_places(*database, file);
  if (!places) return places.error();
  std::unique_ptr<Store> store(
      new Store(std::move(*directory), std::move(*database), *facts, std::move(*eras), *places));
  Status weighed = store->compaction_.begin(store->database_);
  if (!weighed) return unusable(file, weighed.error());
  return store;
}

Result<engine::RestoreReport> Store::restore(engine::Engine& engine, Instant now,
                                             Parts* parts) noexcept {
  const std::scoped_lock lock(lock_);
  parts_ = parts;
  if (parts_ != nullptr) {
    Result<std::vector<UnusablePart>> unusable = restore_parts(database_, file_, *parts_, now);
    if (!unusable) return std::move(unusable).error();
    unusable_parts_ = std::move(*unusable);
  }
  Result<engine::RestoreReport> report = restore_all(engine, now);
  restored_ = report.ok();
  return report;
}

std::vector<UnusablePart> Store::unusable_parts() const {
  const std::scoped_lock lock(lock_);
  return unusable_parts_;
}

// Blob by blob, so that no more than one of them is in memory beside the engine. Holds
// are few enough to be merged first.
Result<engine::RestoreReport> Store::restore_all(engine::Engine& engine, Instant now) {
  struct Table {
    const char* name;
    const char* query;  // place, kind, first and last range, blob
  };
  constexpr Table kInOrder[] = {
      {"meter_base", "SELECT range, 0, range, range, blob FROM meter_base ORDER BY range"},
      {"hold_base", "SELECT place, 1, 0, 0, blob FROM hold_base ORDER BY place"},
      {"changes", "SELECT place, kind, first, last, blob FROM changes ORDER BY place"}};
  engine::RestoreReport report;
  HoldBook holds(facts_.process, eras_, now);
  for (const Table& table : kInOrder) {
    Result<Statement> query = database_.prepare(table.query);
    if (!query) return unusable(file_, query.error());
    for (;;) {
      Result<bool> row = query->step();
      if (!row) return unusable(file_, row.error());
      if (!*row) break;
      const bool is_hold = query->integer(1) == kHoldChanges;
      Status status = is_hold ? read_holds(*query, holds)
                              : restore_meters(*query, &table == kInOrder, engine, now, report);
      if (!status && status.error().code == ErrorCode::kBadArgument) {
        return unusable(
            file_, fmt::format("{} {}: {}", table.name, query->integer(0), status.error().message));
      }
      if (!status) return std::move(status).error();
    }
  }
  Status status = restore_holds(holds, engine, now, report);
  if (!status) return std::move(status).error();
  report.meters = engine.usage().keys;  // some came more than once
  return report;
}

Status Store::read_holds(const Statement& row, HoldBook& holds) {
  Result<PackedHolds> packed = unpack_holds(row.blob(4));
  if (!packed) return std::move(packed).error();
  holds.apply(*packed);
  return Done{};
}

Status Store::restore_meters(const Statement& row, bool is_base, engine::Engine& engine,
                             Instant now, engine::RestoreReport& report) const {
  const std::int64_t named = row.integer(0);
  if (is_base && (named < 0 || named >= std::int64_t{kRanges})) {
    return bad_argument("there is no such range");
  }
  const std::int64_t place = is_base ? places_[static_cast<std::size_t>(named)] : named;
  Result<PackedMeters> packed = unpack_meters(row.blob(4), row.integer(2), row.integer(3), place);
  if (!packed) return std::move(packed).error();
  engine::MeterChanges& changes = packed->changes;
  // The base of a range replaces the changes before it, which may still be there.
  std::erase_if(changes.meters, [&](const engine::MeterRecord& record) {
    return place < places_[range_of(record.print)];
  });
  std::vector<bool> counts;
  for (std::size_t i = 0; i < changes.rows.size(); ++i) {
    const engine::RowRecord& of = changes.rows[i];
    counts.push_back(eras_.counts(of.limit, {packed->processes[i], of.era}));
  }
  for (engine::MeterRecord& record : changes.meters) {
    if (record.row == engine::kForgotten || counts[record.row]) continue;
    record = {.print = record.print, .row = engine::kForgotten};
  }
  Result<engine::RestoreReport> restored = engine::Collector(engine).restore(changes, now);
  if (!restored) return std::move(restored).error();
  report += *restored;
  return Done{};
}

Status Store::restore_holds(const HoldBook& holds, engine::Engine& engine, Instant now,
                            engine::RestoreReport& report) const {
  Status status = Done{};
  const auto restore_part = [&](const engine::HoldChanges& part) {
    if (!status) return;
    Result<engine::RestoreReport> restored = engine::Collector(engine).restore(part, now);
    if (!restored) {
      status = std::move(restored).error();
    } else {
      report += *restored;
    }
  };
  holds.for_each_part(engine::kHoldsPerCollection, restore_part);
  engine::HoldChanges numbers;
  numbers.next_number = facts_.next_hold;
  restore_part(numbers);
  return status;
}

Status Store::flush(engine::Engine& engine, Instant now) noexcept {
  const std::scoped_lock lock(lock_);
  return flush(engine, now, compaction_.turn(engine.usage().keys));
}

Status Store::flush(engine::Engine& engine, Instant now, const Turn& turn) {
  if (!restored_) {
    return bad_argument(fmt::format(
        "{}: flushed before it was restored, which would mix two states; restore first", file_));
  }
  Collected collected{.eras = eras_, .places = places_, .facts = facts_, .turn = turn};
  prints_.clear();
  Status status = write_changes(engine, now, collected);
  if (status && collected.transaction) status = collected.transaction->commit();
  if (!status) {
    collected.transaction.reset();
    engine::Collector(engine).mark_changed(prints_);
    // The last first: those that ended are in it, and the others say which of them are new.
    for (auto holds = collected.holds.rbegin(); holds != collected.holds.rend(); ++holds) {
      engine::Collector(engine).mark_changed(*holds);
    }
    if (parts_ != nullptr) parts_->mark_changed(collected.parts);
    stats_.failed_flushes += 1;
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}; nothing is lost unless the process ends: the next flush tries "
                             "again, so make room or repair the disk",
                             status.error().message)};
  }
  eras_ = std::move(collected.eras);
  places_ = collected.places;
  facts_ = collected.facts;
  compaction_.added(collected.bytes);
  compaction_.written(turn);
  stats_.flushes += 1;
  stats_.meters += prints_.size();
  stats_.holds += collected.hold_count;
  return Done{};
}

Status Store::write_parts(Instant now, Collected& collected) {
  if (parts_ == nullptr) return Done{};
  collected.parts = parts_->changed(now);
  for (Part& part : collected.parts) {
    Status status = begin(collected);
    if (status) status = write(database_, part);
    if (!status) return status;
    part.bytes = {};
  }
  return Done{};
}

// First the holds, then the meters, then the holds that ended: see engine.h.
Status Store::write_changes(engine::Engine& engine, Instant now, Collected& collected) {
  Status status = write_holds(engine, now, collected);
  if (status) status = write_meters(engine, now, collected);
  if (status) status = write_parts(now, collected);
  if (!status) return status;
  engine::HoldChanges& ended = collected.holds.emplace_back();
  ended.as_of = now;
  engine::Collector(engine).ended_holds(ended);
  if (!ended.ended.empty()) {
    status = write_blob(compaction_.next_place(), kHoldChanges, 0, 0, pack(ended, facts_.process),
                        collected);
  }
  if (!status) return status;
  for (const engine::EraRecord& era : engine::Collector(engine).eras()) {
    collected.eras.set(era.limit, {facts_.process, era.era});
  }
  if (!(collected.eras == eras_)) {
    status = begin(collected);
    if (status) status = write(database_, collected.eras);
  }
  if (!status || !collected.transaction || ended.next_number <= facts_.next_hold) return status;
  collected.facts.next_hold = ended.next_number;
  return write(database_, collected.facts);
}

Status Store::write_holds(engine::Engine& engine, Instant now, Collected& collected) {
  for (bool more = true; more;) {
    engine::HoldChanges& holds = collected.holds.emplace_back();
    more = engine::Collector(engine).holds(now, holds);
    if (holds.active.empty()) return Done{};
    const std::vector<std::byte> blob = pack(holds, facts_.process);
    collected.hold_count += holds.active.size();
    holds.charges = {};
    holds.names = {};
    Status written = write_blob(compaction_.next_place(), kHoldChanges, 0, 0, blob, collected);
    if (!written) return written;
  }
  return Done{};
}

Status Store::write_meters(engine::Engine& engine, Instant now, Collected& collected) {
  const std::size_t per_range = engine::Collector(engine).shards() / kRanges;
  const Turn& turn = collected.turn;
  Status status = write_changed(engine, 0, turn.first * per_range, now, collected);
  for (std::size_t range = turn.first; status && range < turn.end; ++range) {
    status = write_range(engine, range, now, collected);
  }
  if (status && turn.first < turn.end) status = write(database_, collected.places);
  if (!status) return status;
  return write_changed(engine, turn.end * per_range, engine::Collector(engine).shards(), now,
                       collected);
}

void Store::pack_meters(std::int64_t place) {
  for (const engine::MeterRecord& record : meters_.meters) prints_.push_back(record.print);
  blob_ = pack(meters_, facts_.process, place, std::move(blob_));
  meters_.clear();
}

Status Store::write_changed(engine::Engine& engine, std::size_t first, std::size_t end, Instant now,
                            Collected& collected) {
  for (std::size_t i = first; i < end; ++i) {
    engine::Collector(engine).changed(i, now, meters_);
    if (meters_.meters.empty() || (!is_large(meters_) && i + 1 < end)) continue;
    const std::size_t first_range = range_of(meters_.meters.front().print);
    const std::size_t last_range = range_of(meters_.meters.back().print);
    const std::int64_t place = compaction_.next_place();
    pack_meters(place);
    Status written = write_blob(place, kMeterChanges, first_range, last_range, blob_, collected);
    if (!written) return written;
  }
  return Done{};
}

Status Store::write_range(engine::Engine& engine, std::size_t range, Instant now,
                          Collected& collected) {
  Status begun = begin(collected);
  if (!begun) return begun;
  const std::size_t per_range = engine::Collector(engine).shards() / kRanges;
  for (std::size_t i = 0; i < per_range; ++i) {
    engine::Collector(engine).whole(range * per_range + i, now, meters_);
  }
  const bool is_empty = meters_.meters.empty();
  collected.places[range] = compaction_.next_place();
  pack_meters(collected.places[range]);
  Result<Statement> write = database_.prepare(is_empty ? "DELETE FROM meter_base WHERE range = ?1"
                                                       : "REPLACE INTO meter_base VALUES (?1, ?2)");
  if (!write) return std::move(write).error();
  write->bind(1, static_cast<std::int64_t>(range));
  if (!is_empty) write->bind(2, Bytes(blob_));
  return write->run();
}

Status Store::write_blob(std::int64_t place, std::int64_t kind, std::size_t first, std::size_t last,
                         const std::vector<std::byte>& blob, Collected& collected) {
  Status begun = begin(collected);
  if (!begun) return begun;
  collected.bytes += blob.size();
  Result<Statement> insert = database_.prepare("INSERT INTO changes VALUES (?1, ?2, ?3, ?4, ?5)");
  if (!insert) return std::move(insert).error();
  return insert->bind(1, place)
      .bind(2, kind)
      .bind(3, static_cast<std::int64_t>(first))
      .bind(4, static_cast<std::int64_t>(last))
      .bind(5, Bytes(blob))
      .run();
}

Status Store::begin(Collected& collected) {
  if (collected.transaction) return Done{};
  Result<Transaction> begun = Transaction::begin(database_);
  if (!begun) return std::move(begun).error();
  collected.transaction.emplace(std::move(*begun));
  return Done{};
}

Status Store::compact(Instant now) noexcept {
  const std::scoped_lock lock(lock_);
  return end_round(now);
}

Status Store::compact_all(engine::Engine& engine, Instant now) noexcept {
  const std::scoped_lock lock(lock_);
  Status flushed = flush(engine, now, compaction_.turn_of_all());
  return flushed ? end_round(now) : std::move(flushed);
}

Status Store::end_round(Instant now) {
  Result<bool> ended = compaction_.end_round(database_, eras_, now);
  if (!ended) return std::move(ended).error();
  if (!*ended) return Done{};
  stats_.compactions += 1;
  // Every record is now of this process.
  Eras eras = eras_;
  eras.drop_before(facts_.process);
  if (eras == eras_) return Done{};
  Status written = write(database_, eras);
  if (written) eras_ = std::move(eras);
  return written;
}

StoreStats Store::stats() const noexcept {
  const std::scoped_lock lock(lock_);
  StoreStats stats = stats_;
  stats.base_bytes = compaction_.base_bytes();
  stats.changes_bytes = compaction_.changes_bytes();
  return stats;
}

}  // namespace weir::store::sqlite
