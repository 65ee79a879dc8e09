// Schema: the file meters.db, made, checked and opened; and how any file of the state is.
//
//   facts       blobs by name: what the server is known by, and the eras of limits
//   meter_base  a blob for each range of prints
//   hold_base   blobs of holds
//   changes     blobs on top of these, in the order in which they were written
//
// A file that is damaged, not a database, not weir's or of a newer weir is refused,
// saying so: nothing is ever begun anew that might hold what was used.
//
// Thread safety: functions of values.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/packing.h"

namespace weir::store::sqlite {

constexpr std::string_view kDatabaseName = "meters.db";
constexpr std::int64_t kSchemaVersion = 1;

// A process begins with the number this far beyond the last that is known to have been
// given out: what a crash forgot is not given out again.
constexpr std::uint64_t kHoldNumbersSkipped = std::uint64_t{1} << 40;

// What is particular to one file of the state.
struct FileFormat {
  std::string_view name;
  std::int64_t application_id = 0;
  std::int64_t version = 1;
  const char* tables = "";
  Status (*fill)(Database& database) = nullptr;  // what a new one begins with
};

// Opens the directory's file of that format, made if it is missing.
Result<Database> open_database(const Directory& directory, const FileFormat& format);

// The same for meters.db.
Result<Database> open_database(const Directory& directory);

// Counts one more process, and makes sure that it lasts.
Result<Facts> begin_process(Database& database, const std::string& file);

Result<Eras> read_eras(Database& database, const std::string& file);
Status write(Database& database, const Facts& facts);
Status write(Database& database, const Eras& eras);

// The error for a file that cannot be used: what was found there, and what to do.
Error unusable(const std::string& file, std::string_view found);
// The same for an error of the database, unless it is the disk's.
Error unusable(const std::string& file, const Error& error);

}  // namespace weir::store::sqlite
