#include "weir/store/sqlite/compaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weir/store/sqlite/books.h"
#include "weir/store/sqlite/packing.h"
#include "weir/store/sqlite/schema.h"

namespace weir::store::sqlite {
namespace {

constexpr std::uint64_t kChangesBytesMin = std::uint64_t{32} << 20;  // not worth it before
constexpr std::uint64_t kStepBytes = std::uint64_t{16} << 20;        // read by one step, about

// Calls `visitor` for each row of a query until it returns an error.
template <typename Visitor>
Status for_each_row(Statement& query, Visitor&& visitor) {
  for (;;) {
    Result<bool> row = query.step();
    if (!row) return std::move(row).error();
    if (!*row) return Done{};
    Status visited = visitor(query);
    if (!visited) return visited;
  }
}

}  // namespace

bool Compaction::is_due() const noexcept {
  return is_under_way() || changes_bytes_ > std::max(kChangesBytesMin, base_bytes_);
}

Status Compaction::begin(Database& database) {
  const Result<std::int64_t> meters =
      database.integer("SELECT COALESCE(SUM(LENGTH(blob)), 0) FROM meter_base");
  if (!meters) return meters.error();
  const Result<std::int64_t> holds =
      database.integer("SELECT COALESCE(SUM(LENGTH(blob)), 0) FROM hold_base");
  if (!holds) return holds.error();
  const Result<std::int64_t> changes =
      database.integer("SELECT COALESCE(SUM(LENGTH(blob)), 0) FROM changes");
  if (!changes) return changes.error();
  base_bytes_ = static_cast<std::uint64_t>(*meters + *holds);
  changes_bytes_ = static_cast<std::uint64_t>(*changes);
  return Done{};
}

Result<bool> Compaction::step(Database& database, const Eras& eras, Instant now) {
  if (!is_under_way()) {
    const Result<std::int64_t> last =
        database.integer("SELECT COALESCE(MAX(place), 0) FROM changes");
    if (!last) return last.error();
    through_ = *last;
    const std::uint64_t steps = 1 + (base_bytes_ + changes_bytes_) / kStepBytes;
    ranges_a_step_ = std::max<std::size_t>(1, kRanges / std::min<std::uint64_t>(steps, kRanges));
  }
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return std::move(transaction).error();
  const bool has_ranges = next_range_ < kRanges;
  Status merged = has_ranges ? merge_ranges(database, eras, now) : merge_holds(database, eras, now);
  if (merged) merged = transaction->commit();
  if (!merged) return std::move(merged).error();
  if (has_ranges) {
    next_range_ = std::min(next_range_ + ranges_a_step_, kRanges);
    return false;
  }
  next_range_ = 0;
  Status weighed = begin(database);
  if (!weighed) return std::move(weighed).error();
  return true;
}

Status Compaction::merge_ranges(Database& database, const Eras& eras, Instant now) {
  const std::size_t first = next_range_;
  const std::size_t end = std::min(first + ranges_a_step_, kRanges);
  const auto begin = static_cast<std::int64_t>(first);
  const auto last = static_cast<std::int64_t>(end) - 1;
  MeterBook book(first, end - first, process_, eras, now);
  const auto apply = [&](std::string_view table) {
    return [&, table](const Statement& row) -> Status {
      const std::int64_t place = row.integer(0);
      Result<PackedMeters> packed = unpack_meters(row.blob(1), row.integer(2), row.integer(3));
      if (!packed) return damaged(table, place, packed.error());
      Status applied = book.apply(*packed);
      return applied ? std::move(applied) : damaged(table, place, applied.error());
    };
  };
  Result<Statement> base = database.prepare(
      "SELECT range, blob, range, range FROM meter_base WHERE range BETWEEN ?1 AND ?2");
  if (!base) return std::move(base).error();
  Status read = for_each_row(base->bind(1, begin).bind(2, last), apply("meter_base"));
  if (!read) return read;
  Result<Statement> changes = database.prepare(
      "SELECT place, blob, first, last FROM changes WHERE place <= ?3 AND kind = 0 AND first <= ?2 "
      "AND "
      "last >= ?1 ORDER BY place");
  if (!changes) return std::move(changes).error();
  read = for_each_row(changes->bind(1, begin).bind(2, last).bind(3, through_), apply("changes"));
  if (!read) return read;

  Result<Statement> erase = database.prepare("DELETE FROM meter_base WHERE range = ?1");
  if (!erase) return std::move(erase).error();
  Result<Statement> write = database.prepare("REPLACE INTO meter_base VALUES (?1, ?2)");
  if (!write) return std::move(write).error();
  for (std::size_t range = first; range < end; ++range) {
    const auto number = static_cast<std::int64_t>(range);
    const engine::MeterChanges meters = book.meters(range);
    if (meters.rows.size() > kRowsPerBlobMax) {
      return Error{ErrorCode::kExhausted,
                   fmt::format("{}: meters have {} different shapes, but {} are as many as can be "
                               "stored; use fewer overrides",
                               file_, meters.rows.size(), kRowsPerBlobMax)};
    }
    const std::vector<std::byte> blob = pack(meters, process_);
    Status written = meters.meters.empty() ? erase->bind(1, number).run()
                                           : write->bind(1, number).bind(2, Bytes(blob)).run();
    if (!written) return written;
  }
  return Done{};
}

Status Compaction::merge_holds(Database& database, const Eras& eras, Instant now) {
  HoldBook book(process_, eras, now);
  const auto apply = [&](std::string_view table) {
    return [&, table](const Statement& row) -> Status {
      Result<PackedHolds> packed = unpack_holds(row.blob(1));
      if (!packed) return damaged(table, row.integer(0), packed.error());
      book.apply(*packed);
      return Done{};
    };
  };
  Result<Statement> base = database.prepare("SELECT place, blob FROM hold_base ORDER BY place");
  if (!base) return std::move(base).error();
  Status status = for_each_row(*base, apply("hold_base"));
  if (!status) return status;
  Result<Statement> changes = database.prepare(
      "SELECT place, blob FROM changes WHERE place <= ?1 AND kind = 1 ORDER BY place");
  if (!changes) return std::move(changes).error();
  status = for_each_row(changes->bind(1, through_), apply("changes"));
  if (!status) return status;

  book.drop_expired();
  status = database.run("DELETE FROM hold_base");
  Result<Statement> write = database.prepare("INSERT INTO hold_base (blob) VALUES (?1)");
  if (!write) return std::move(write).error();
  book.for_each_part(engine::kHoldsPerCollection, [&](const engine::HoldChanges& part) {
    const std::vector<std::byte> blob = pack(part, process_);
    if (status) status = write->bind(1, Bytes(blob)).run();
  });
  if (!status) return status;
  Result<Statement> erase = database.prepare("DELETE FROM changes WHERE place <= ?1");
  if (!erase) return std::move(erase).error();
  return erase->bind(1, through_).run();
}

Error Compaction::damaged(std::string_view table, std::int64_t place, const Error& found) const {
  return unusable(file_, fmt::format("{} {}: {}", table, place, found.message));
}

}  // namespace weir::store::sqlite
