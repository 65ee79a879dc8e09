// Database: the little of SQLite that the store uses, with errors as values.
//
//   Result<Statement> rows = database.prepare("SELECT blob FROM hold_base WHERE place > ?1");
//   if (!rows) return std::move(rows).error();
//   Result<bool> row = rows->bind(1, place).step();
//   for (; row && *row; row = rows->step()) use(rows->blob(0));
//
// An error is kBadArgument if the file is not as it should be, and kUnavailable if the
// disk or the system refused something.
//
// Thread safety: one thread at a time for a database and its statements.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weir/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace weir::store::sqlite {

using Bytes = std::span<const std::byte>;

// One command, made ready. It must end before its database.
class Statement {
 public:
  // Parameters count from 1. What they refer to must stay until the last step.
  Statement& bind(int parameter, std::int64_t value);
  Statement& bind(int parameter, std::string_view text);
  Statement& bind(int parameter, Bytes blob);

  // True: there is a row, whose columns count from 0. False: that was all.
  Result<bool> step();
  // Steps to the end, and is ready to be bound again.
  Status run();

  std::int64_t integer(int column) const;
  std::string_view text(int column) const;
  Bytes blob(int column) const;  // until the next step

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  Statement(sqlite3_stmt* statement, std::string where)
      : statement_(statement), where_(std::move(where)) {}

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string where_;
};

// One open file.
class Database {
 public:
  // Opens a file that exists.
  static Result<Database> open(const std::filesystem::path& file);

  // An error if the command is not SQL, or names what the file does not have.
  Result<Statement> prepare(std::string_view sql);
  Status run(const char* sql);
  // The first column of the first row; kNotFound if there is no row.
  Result<std::int64_t> integer(std::string_view sql);

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  Database(sqlite3* database, std::string where) : database_(database), where_(std::move(where)) {}

  std::unique_ptr<sqlite3, Close> database_;
  std::string where_;
};

// All or nothing; nothing unless commit() succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Status commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}
  Database* database_;
};

}  // namespace weir::store::sqlite
