#include "weir/store/sqlite/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

namespace weir::store::sqlite {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kApplicationId = 0x57656972;  // "Weir"
constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

constexpr const char* kTables = R"(
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

// An empty file that only its owner may read, for SQLite to fill.
Status make_file(const fs::path& file) {
  std::error_code ignored;
  fs::remove(file, ignored);
  const int handle =
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (handle < 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it cannot be made: {}; check the directory and who may write "
                             "there",
                             file.string(), std::generic_category().message(errno))};
  }
  ::close(handle);
  return Done{};
}

Status begin_meters(Database& database) {
  const Facts facts{engine::random_secret(), engine::random_secret()[0], 0, 1};
  Status status = write(database, facts);
  return status ? write(database, Eras{}) : std::move(status);
}

constexpr FileFormat kMeters{kDatabaseName, kApplicationId, kSchemaVersion, kTables, begin_meters};

// Filled under another name and then renamed, so that a crash on the way leaves no
// half of one.
Status create(const Directory& directory, const fs::path& file, const FileFormat& format) {
  const fs::path draft = file.string() + ".new";
  Status made = make_file(draft);
  if (!made) return made;
  {
    Result<Database> database = Database::open(draft);
    if (!database) return std::move(database).error();
    Result<Transaction> transaction = Transaction::begin(*database);
    if (!transaction) return std::move(transaction).error();
    Status status = database->run(format.tables);
    if (status && format.fill != nullptr) status = format.fill(*database);
    const std::string marks = fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                          format.application_id, format.version);
    if (status) status = database->run(marks.c_str());
    if (status) status = transaction->commit();
    if (!status) return status;
  }
  std::error_code error;
  fs::rename(draft, file, error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it cannot be renamed: {}; check the directory and who may write "
                             "there",
                             draft.string(), error.message())};
  }
  directory.sync();
  return Done{};
}

// What SQLite would take for a new database, or not look at closely enough.
Status check_head(const fs::path& file) {
  std::array<char, 18> head{};
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), head.size());
  if (in.gcount() == 0) return unusable(file.string(), "it is empty");
  if (std::string_view(head.data(), kSqliteMagic.size()) != kSqliteMagic) {
    return unusable(file.string(), "it is not a database");
  }
  // Big endian; a size of 1 stands for 65536. The last page may be cut only while a log
  // beside the file still has it.
  const auto high = static_cast<unsigned char>(head[16]);
  const auto low = static_cast<unsigned char>(head[17]);
  const std::uintmax_t stored = high * 256u + low;
  const std::uintmax_t page_bytes = stored == 1 ? 65536 : std::max<std::uintmax_t>(stored, 512);
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (bytes % page_bytes != 0 && !fs::exists(file.string() + "-wal", error)) {
    return unusable(file.string(), fmt::format("it was cut: {} bytes are no whole number of pages "
                                               "of {}",
                                               bytes, page_bytes));
  }
  return Done{};
}

Status check(Database& database, const std::string& file, const FileFormat& format) {
  const Result<std::int64_t> id = database.integer("PRAGMA application_id");
  if (!id) return unusable(file, id.error());
  if (*id != format.application_id) {
    return unusable(file, "it is a database, but not one of weir's, or not this one");
  }
  const Result<std::int64_t> version = database.integer("PRAGMA user_version");
  if (!version) return unusable(file, version.error());
  if (*version > format.version) {
    return Error{ErrorCode::kBadArgument,
                 fmt::format("{}: its schema version is {}, but this weir knows versions up to {}; "
                             "use a newer weir, or move the file away",
                             file, *version, format.version)};
  }
  if (*version < 1) return unusable(file, fmt::format("its schema version is {}", *version));
  Result<Statement> checking = database.prepare("PRAGMA quick_check(1)");
  if (!checking) return unusable(file, checking.error());
  const Result<bool> row = checking->step();
  if (!row) return unusable(file, row.error());
  const std::string_view found = checking->text(0);
  if (found != "ok") return unusable(file, found);
  return Done{};
}

}  // namespace

Error unusable(const std::string& file, std::string_view found) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}: {}; what was used is not known, so move the file away, or start "
                           "with --start-empty, which does it",
                           file, found)};
}

Error unusable(const std::string& file, const Error& error) {
  if (error.code != ErrorCode::kUnavailable) {
    const std::string where = file + ": ";  // which the database has said already
    return unusable(file, std::string_view(error.message)
                              .substr(error.message.starts_with(where) ? where.size() : 0));
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}; check the disk, and who may write there", error.message)};
}

Result<Database> open_database(const Directory& directory) {
  return open_database(directory, kMeters);
}

Result<Database> open_database(const Directory& directory, const FileFormat& format) {
  const fs::path file = directory.file(format.name);
  std::error_code error;
  if (!fs::exists(file, error)) {
    const std::string log = file.string() + "-wal";
    if (fs::exists(log, error)) return unusable(log, fmt::format("{} is gone", file.string()));
    Status created = create(directory, file, format);
    if (!created) return std::move(created).error();
  }
  Status head = check_head(file);
  if (!head) return std::move(head).error();
  Result<Database> database = Database::open(file);
  if (!database) return unusable(file.string(), database.error());
  Status checked = check(*database, file.string(), format);
  if (!checked) return std::move(checked).error();
  Status tuned = database->run(
      "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = FULL");
  if (!tuned) return unusable(file.string(), tuned.error());
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
  if (status) status = database.run("PRAGMA synchronous = NORMAL");
  if (!status) return unusable(file, status.error());
  return facts;
}

Result<Eras> read_eras(Database& database, const std::string& file) {
  return read_fact(database, file, "eras", unpack_eras);
}

Status write(Database& database, const Facts& facts) {
  return write_fact(database, "facts", pack(facts));
}

Status write(Database& database, const Eras& eras) {
  return write_fact(database, "eras", pack(eras));
}

}  // namespace weir::store::sqlite
