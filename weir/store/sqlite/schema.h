// Schema: the file meters.db, made, checked and opened.
//
//   facts       blobs by name: what the server is known by, the eras of limits, the places of
//               the base, and parts (parts.h) under `part:` and their names; those that could not
//               be used under `bad-<n>:` and their names
//   meter_base  a blob for each range of prints, which replaces the changes before its place
//   hold_base   blobs of holds
//   changes     blobs on top of these, in the order in which they were written
//
// Thread safety: functions of values.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"
#include "weir/store/sqlite/eras.h"
#include "weir/store/sqlite/file.h"
#include "weir/store/sqlite/packing.h"
#include "weir/store/sqlite/parts.h"

namespace weir::store::sqlite {

constexpr std::string_view kDatabaseName = "meters.db";
constexpr std::int64_t kSchemaVersion = 2;

// A process begins with the number this far beyond the last that is known to have been
// given out: what a crash forgot is not given out again.
constexpr std::uint64_t kHoldNumbersSkipped = std::uint64_t{1} << 40;

// Of one part, so many are kept that could not be used; the next replaces the last.
constexpr int kBadPartsMax = 8;

// Opens the directory's database, made if it is missing, brought to this schema if it is older.
Result<Database> open_database(const Directory& directory);

// Counts one more process, and makes sure that it lasts.
Result<Facts> begin_process(Database& database, const std::string& file);

Result<Eras> read_eras(Database& database, const std::string& file);
Result<Places> read_places(Database& database, const std::string& file);
Status write(Database& database, const Facts& facts);
Status write(Database& database, const Eras& eras);
Status write(Database& database, const Places& places);

Status write(Database& database, const Part& part);
// Brings back what can be used, and sets the rest aside, so that no flush replaces it.
Result<std::vector<UnusablePart>> restore_parts(Database& database, const std::string& file,
                                                Parts& parts, Instant now);

// The error for a file that cannot be used: what was found there, and what to do.
Error unusable(const std::string& file, std::string_view found);
// The same for an error of the database, unless it is the disk's.
Error unusable(const std::string& file, const Error& error);

}  // namespace weir::store::sqlite
