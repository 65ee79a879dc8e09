#include "weir/store/sqlite/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace weir::store::sqlite {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};

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

// Filled under another name and then renamed, so that a crash on the way leaves no
// half of one.
Status create(const Directory& directory, const FileKind& kind, const fs::path& file,
              const std::function<Status(Database&)>& fill) {
  const fs::path draft = file.string() + ".new";
  Status made = make_file(draft);
  if (!made) return made;
  {
    Result<Database> database = Database::open(draft);
    if (!database) return std::move(database).error();
    const std::string pages = fmt::format("PRAGMA page_size = {}", kind.page_bytes);
    Status sized = database->run(pages.c_str());
    if (!sized) return sized;
    Result<Transaction> transaction = Transaction::begin(*database);
    if (!transaction) return std::move(transaction).error();
    Status status = fill(*database);
    const std::string marks = fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                          kind.application_id, kind.version);
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
Status check_head(const FileKind& kind, const fs::path& file) {
  std::array<char, 18> head{};
  std::ifstream in(file, std::ios::binary);
  in.read(head.data(), head.size());
  if (in.gcount() == 0) return unusable(kind, file.string(), "it is empty");
  if (std::string_view(head.data(), kSqliteMagic.size()) != kSqliteMagic) {
    return unusable(kind, file.string(), "it is not a database");
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
    return unusable(kind, file.string(),
                    fmt::format("it was cut: {} bytes are no whole number of pages "
                                "of {}",
                                bytes, page_bytes));
  }
  return Done{};
}

Status check(Database& database, const FileKind& kind, const std::string& file) {
  const Result<std::int64_t> id = database.integer("PRAGMA application_id");
  if (!id) return unusable(kind, file, id.error());
  if (*id != kind.application_id)
    return unusable(kind, file, "it is a database, but not one of weir's");
  const Result<std::int64_t> version = database.integer("PRAGMA user_version");
  if (!version) return unusable(kind, file, version.error());
  if (*version > kind.version) {
    return Error{ErrorCode::kBadArgument,
                 fmt::format("{}: its schema version is {}, but this weir knows versions up to {}; "
                             "use a newer weir, or move the file away",
                             file, *version, kind.version)};
  }
  if (*version < 1) return unusable(kind, file, fmt::format("its schema version is {}", *version));
  Result<Statement> checking = database.prepare("PRAGMA quick_check(1)");
  if (!checking) return unusable(kind, file, checking.error());
  const Result<bool> row = checking->step();
  if (!row) return unusable(kind, file, row.error());
  const std::string_view found = checking->text(0);
  if (found != "ok") return unusable(kind, file, found);
  return Done{};
}

}  // namespace

Error unusable(const FileKind& kind, const std::string& file, std::string_view found) {
  return Error{ErrorCode::kUnavailable, fmt::format("{}: {}; {}", file, found, kind.advice)};
}

Error unusable(const FileKind& kind, const std::string& file, const Error& error) {
  if (error.code != ErrorCode::kUnavailable) {
    const std::string where = file + ": ";  // which the database has said already
    return unusable(kind, file,
                    std::string_view(error.message)
                        .substr(error.message.starts_with(where) ? where.size() : 0));
  }
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}; check the disk, and who may write there", error.message)};
}

Result<Database> open_file(const Directory& directory, const FileKind& kind,
                           const std::function<Status(Database&)>& fill) {
  const fs::path file = directory.file(kind.name);
  std::error_code error;
  if (!fs::exists(file, error)) {
    const std::string log = file.string() + "-wal";
    if (fs::exists(log, error))
      return unusable(kind, log, fmt::format("{} is gone", file.string()));
    Status created = create(directory, kind, file, fill);
    if (!created) return std::move(created).error();
  }
  Status head = check_head(kind, file);
  if (!head) return std::move(head).error();
  Result<Database> database = Database::open(file);
  if (!database) return unusable(kind, file.string(), database.error());
  Status checked = check(*database, kind, file.string());
  if (!checked) return std::move(checked).error();
  Status tuned = database->run(
      "PRAGMA journal_mode = WAL; PRAGMA journal_size_limit = 16777216; PRAGMA synchronous = FULL");
  if (!tuned) return unusable(kind, file.string(), tuned.error());
  return database;
}

}  // namespace weir::store::sqlite
