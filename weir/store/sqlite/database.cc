#include "weir/store/sqlite/database.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace weir::store::sqlite {
namespace {

Error failed(sqlite3* database, const std::string& where) {
  const int code = sqlite3_errcode(database) & 0xff;
  const bool is_damage = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
  return Error{is_damage ? ErrorCode::kBadArgument : ErrorCode::kUnavailable,
               fmt::format("{}: {}", where, sqlite3_errmsg(database))};
}

}  // namespace

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement& Statement::bind(int parameter, std::int64_t value) {
  sqlite3_bind_int64(statement_.get(), parameter, value);
  return *this;
}

Statement& Statement::bind(int parameter, std::string_view text) {
  sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(), SQLITE_STATIC,
                      SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(int parameter, Bytes blob) {
  sqlite3_bind_blob64(statement_.get(), parameter, blob.data(), blob.size(), SQLITE_STATIC);
  return *this;
}

Result<bool> Statement::step() {
  switch (sqlite3_step(statement_.get())) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return failed(sqlite3_db_handle(statement_.get()), where_);
  }
}

Status Statement::run() {
  Result<bool> row = true;
  while (row && *row) row = step();
  sqlite3_reset(statement_.get());
  if (!row) return std::move(row).error();
  return Done{};
}

std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view Statement::text(int column) const {
  const auto* begin = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
  return {begin, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

Bytes Statement::blob(int column) const {
  const auto* begin = static_cast<const std::byte*>(sqlite3_column_blob(statement_.get(), column));
  return {begin, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column))};
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

Result<Database> Database::open(const std::filesystem::path& file) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Database database(handle, file.string());
  if (code != SQLITE_OK) return failed(handle, file.string());
  return database;
}

Result<Statement> Database::prepare(std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &statement,
                         nullptr) != SQLITE_OK) {
    return failed(database_.get(), where_);
  }
  return Statement(statement, where_);
}

Status Database::run(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) {
    return failed(database_.get(), where_);
  }
  return Done{};
}

Result<std::int64_t> Database::integer(std::string_view sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return std::move(statement).error();
  Result<bool> row = statement->step();
  if (!row) return std::move(row).error();
  if (!*row) return Error{ErrorCode::kNotFound, fmt::format("{}: no row for {}", where_, sql)};
  return statement->integer(0);
}

Result<Transaction> Transaction::begin(Database& database) {
  Status begun = database.run("BEGIN IMMEDIATE");
  if (!begun) return std::move(begun).error();
  return Transaction(database);
}

Transaction::~Transaction() {
  // It may have been rolled back already, by the error that ended it.
  if (database_ != nullptr) static_cast<void>(database_->run("ROLLBACK").ok());
}

Status Transaction::commit() {
  Status committed = database_->run("COMMIT");
  if (committed) database_ = nullptr;
  return committed;
}

}  // namespace weir::store::sqlite
