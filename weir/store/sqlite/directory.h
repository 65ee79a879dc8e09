// Directory: where the files of one server's state lie, for it alone.
//
// Opening it makes it if need be, readable by its owner only, and locks it: a second
// server that uses the same directory is told who has it. The lock ends with the
// process, however it ends. One that others may write to, or that belongs to another user than
// the process's and root, is an error.
//
// Thread safety: values.

#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "weir/base/result.h"

namespace weir::store::sqlite {

class Directory {
 public:
  static Result<Directory> open(const std::filesystem::path& path);
  Directory(Directory&& other) noexcept;
  Directory& operator=(Directory&&) = delete;
  ~Directory();

  std::filesystem::path file(std::string_view name) const { return path_ / name; }

  // Renames the file, with what SQLite keeps beside it, to `<name>.bad-<n>`, the first
  // free n. Nothing happens if there is none.
  Status move_aside(std::string_view name) const;

  // Makes renames and new files last.
  void sync() const;

 private:
  Directory(std::filesystem::path path, int lock) : path_(std::move(path)), lock_(lock) {}

  std::filesystem::path path_;
  int lock_;  // of the lock file
};

}  // namespace weir::store::sqlite
