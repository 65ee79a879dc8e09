// File: one of weir's SQLite files, made, checked and opened.
//
// A file that is missing is made. A damaged file is refused, and so is one that is not a
// database, or is another program's, or a newer weir's: the error says which. It is never
// begun anew, since it might hold what was used.
//
// Thread safety: functions of values.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weir/base/result.h"
#include "weir/store/sqlite/database.h"
#include "weir/store/sqlite/directory.h"

namespace weir::store::sqlite {

struct FileKind {
  std::string_view name;  // in its directory
  std::int64_t application_id;
  std::int64_t version;     // the newest that is known
  std::string_view advice;  // where it cannot be used: `..., so move the file away`
  int page_bytes = 4096;    // of a file that is made
};

// Opens the directory's file; if it is missing, makes it, filled by `fill`.
Result<Database> open_file(const Directory& directory, const FileKind& kind,
                           const std::function<Status(Database&)>& fill);

// The error for a file that cannot be used: what was found there, and what to do.
Error unusable(const FileKind& kind, const std::string& file, std::string_view found);
// The same for an error of the database, unless it is the disk's.
Error unusable(const FileKind& kind, const std::string& file, const Error& error);

}  // namespace weir::store::sqlite
