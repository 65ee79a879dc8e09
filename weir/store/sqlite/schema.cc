#include "weir/store/sqlite/schema.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace weir::store::sqlite {
namespace {

// A flush of many meters writes pages full, so large ones save calls; one of few writes
// two or three pages, so they must not be too large.
constexpr int kPageBytes = 16'384;

// From here on what is written lasts beyond the process at once, and beyond the machine
// with the next checkpoint. Pages that were written again meanwhile are copied once: 32 MB
// of log are several times what changes under load, and stay allocated.
constexpr const char* kBehind =
    "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 2048; "
    "PRAGMA journal_size_limit = 41943040";

constexpr FileKind kMetersFile{kDatabaseName, 0x57656972 /* "Weir" */, kSchemaVersion,
                               "what was used is not known, so move the file away, or start with "
                               "--start-empty, which does it",
                               kPageBytes};

constexpr std::string_view kPartPrefix = "part:";

constexpr const char* kMeterTables = R"(
  CREATE TABLE facts (name TEXT PRIMARY KEY, blob BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE meter_base (range INTEGER PRIMARY KEY, blob BLOB NOT NULL);
  CREATE TABLE hold_base (place INTEGER PRIMARY KEY, blob BLOB NOT NULL);
  CREATE TABLE changes (place INTEGER PRIMARY KEY, kind INTEGER NOT NULL,
                        first INTEGER NOT NULL, last INTEGER NOT NULL, blob BLOB NOT NULL);
)";

Status write_fact(Database& database, std::string_view name, const std::vector<std::byte>& blob) {
  Result<Statement> statement = database.prepare("REPLACE INTO facts VALUES (?1, ?2)");
  if (!statement) return std::move(statement).error();
  return statement->bind(1, name).bind(2, Bytes(blob)).run();
}

// What `unpack` makes of a fact.
template <typename Unpack>
auto read_fact(Database& database, const std::string& file, std::string_view name, Unpack&& unpack)
    -> decltype(unpack(Bytes{})) {
  Result<Statement> query = database.prepare("SELECT blob FROM facts WHERE name = ?1");
  if (!query) return unusable(file, query.error());
  const Result<bool> row = query->bind(1, name).step();
  if (!row) return unusable(file, row.error());
  if (!*row) return unusable(file, fmt::format("fact '{}' is missing", name));
  auto found = unpack(query->blob(0));
  if (!found) return unusable(file, fmt::format("fact '{}': {}", name, found.error().message));
  return found;
}

}  // namespace

Error unusable(const std::string& file, std::string_view found) {
  return unusable(kMetersFile, file, found);
}
Error unusable(const std::string& file, const Error& error) {
  return unusable(kMetersFile, file, error);
}

// In version 1 the base of a range replaced nothing.
static Status upgrade(Database& database) {
  const Result<std::int64_t> version = database.integer("PRAGMA user_version");
  if (!version) return version.error();
  if (*version == kSchemaVersion) return Done{};
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return std::move(transaction).error();
  Status status = write(database, Places{});
  if (status) status = database.run("PRAGMA user_version = 2");
  return status ? transaction->commit() : std::move(status);
}

Result<Database> open_database(const Directory& directory) {
  Result<Database> database = open_file(directory, kMetersFile, [](Database& made) {
    Status status = made.run(kMeterTables);
    const Facts facts{engine::random_secret(), engine::random_secret()[0], 0, 1};
    if (status) status = write(made, facts);
    if (status) status = write(made, Eras{});
    if (status) status = write(made, Places{});
    return status;
  });
  if (!database) return database;
  Status upgraded = upgrade(*database);
  if (!upgraded) return unusable(directory.file(kDatabaseName).string(), upgraded.error());
  return database;
}

Result<Facts> begin_process(Database& database, const std::string& file) {
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return unusable(file, transaction.error());
  Result<Facts> facts = read_fact(database, file, "facts", unpack_facts);
  if (!facts) return facts;
  if (facts->process > 0) facts->next_hold += kHoldNumbersSkipped;
  facts->process += 1;
  Status status = write(database, *facts);
  if (status) status = transaction->commit();  // synchronous = FULL until here
  if (status) status = database.run(kBehind);
  if (!status) return unusable(file, status.error());
  return facts;
}

Result<Eras> read_eras(Database& database, const std::string& file) {
  return read_fact(database, file, "eras", unpack_eras);
}

Result<Places> read_places(Database& database, const std::string& file) {
  return read_fact(database, file, "places", unpack_places);
}

Status write(Database& database, const Facts& facts) {
  return write_fact(database, "facts", pack(facts));
}

Status write(Database& database, const Eras& eras) {
  return write_fact(database, "eras", pack(eras));
}

Status write(Database& database, const Places& places) {
  return write_fact(database, "places", pack(places));
}

Status write(Database& database, const Part& part) {
  return write_fact(database, std::string(kPartPrefix) + part.name, pack_part(part.bytes));
}

// Renames the fact of a part to the first `bad-<n>:` that is free, and returns that.
static Result<std::string> set_aside(Database& database, std::string_view name) {
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return std::move(transaction).error();
  for (int n = 1;; ++n) {
    std::string kept_as = fmt::format("bad-{}:{}", n, name);
    Result<Statement> rename = database.prepare(
        n < kBadPartsMax ? "UPDATE OR IGNORE facts SET name = ?2 WHERE name = ?1 "
                           "AND NOT EXISTS (SELECT 1 FROM facts WHERE name = ?2)"
                         : "UPDATE OR REPLACE facts SET name = ?2 WHERE name = ?1");
    if (!rename) return std::move(rename).error();
    const std::string part = std::string(kPartPrefix) + std::string(name);
    Status status =
        rename->bind(1, std::string_view(part)).bind(2, std::string_view(kept_as)).run();
    if (!status) return std::move(status).error();
    const Result<std::int64_t> renamed = database.integer("SELECT changes()");
    if (!renamed) return renamed.error();
    if (*renamed == 0) continue;
    status = transaction->commit();
    if (!status) return std::move(status).error();
    return kept_as;
  }
}

Result<std::vector<UnusablePart>> restore_parts(Database& database, const std::string& file,
                                                Parts& parts, Instant now) {
  std::vector<UnusablePart> unusable_parts;
  {
    Result<Statement> query = database.prepare("SELECT name, blob FROM facts ORDER BY name");
    if (!query) return unusable(file, query.error());
    for (;;) {
      const Result<bool> row = query->step();
      if (!row) return unusable(file, row.error());
      if (!*row) break;
      const std::string_view fact = query->text(0);
      if (!fact.starts_with(kPartPrefix)) continue;
      const std::string_view name = fact.substr(kPartPrefix.size());
      const Result<Bytes> bytes = unpack_part(query->blob(1));
      const Status restored = bytes ? parts.restore(name, *bytes, now) : Status(bytes.error());
      if (!restored) unusable_parts.push_back({std::string(name), restored.error().message, {}});
    }
  }
  for (UnusablePart& part : unusable_parts) {
    Result<std::string> kept_as = set_aside(database, part.name);
    if (!kept_as) return unusable(file, kept_as.error());
    part.kept_as = std::move(*kept_as);
  }
  return unusable_parts;
}

}  // namespace weir::store::sqlite
