#include "weir/store/sqlite/compaction.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "weir/store/sqlite/hold_book.h"
#include "weir/store/sqlite/packing.h"
#include "weir/store/sqlite/schema.h"

namespace weir::store::sqlite {
namespace {

constexpr std::uint64_t kChangesBytesMin = std::uint64_t{8} << 20;  // not worth it before
constexpr std::uint64_t kTurnBytes = std::uint64_t{4} << 20;  // written whole by one flush, about

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
  const Result<std::int64_t> last = database.integer("SELECT COALESCE(MAX(place), 0) FROM changes");
  if (!last) return last.error();
  base_bytes_ = static_cast<std::uint64_t>(*meters + *holds);
  changes_bytes_ = static_cast<std::uint64_t>(*changes);
  last_place_ = std::max(last_place_, *last);
  return Done{};
}

Turn Compaction::turn(std::size_t keys) const noexcept {
  const bool begins = next_range_ == 0;
  if (begins && changes_bytes_ <= std::max(kChangesBytesMin, base_bytes_)) return {};
  const std::uint64_t bytes = std::max<std::uint64_t>(keys * kMeterBytes, base_bytes_);
  const std::uint64_t turns = std::min<std::uint64_t>(1 + bytes / kTurnBytes, kRanges);
  return {next_range_, std::min<std::size_t>(next_range_ + kRanges / turns, kRanges),
          begins ? last_place_ : through_};
}

void Compaction::written(const Turn& turn) noexcept {
  if (turn.first == turn.end) return;
  next_range_ = turn.end;
  through_ = turn.through;
}

Result<bool> Compaction::end_round(Database& database, const Eras& eras, Instant now) {
  if (next_range_ < kRanges) return false;
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return std::move(transaction).error();
  Status merged = merge_holds(database, eras, now);
  if (merged) merged = transaction->commit();
  if (!merged) return std::move(merged).error();
  next_range_ = 0;
  Status weighed = begin(database);
  if (!weighed) return std::move(weighed).error();
  return true;
}

// And deletes the changes that the round replaces.
Status Compaction::merge_holds(Database& database, const Eras& eras, Instant now) const {
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
