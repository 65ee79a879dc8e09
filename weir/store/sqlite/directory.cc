#include "weir/store/sqlite/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace weir::store::sqlite {
namespace {

namespace fs = std::filesystem;

Error failed(const fs::path& path, std::string_view what, int code) {
  return Error{ErrorCode::kUnavailable,
               fmt::format("{}: {}: {}; check the directory and who may write there", path.string(),
                           what, std::generic_category().message(code))};
}

// The number that the holder of the lock wrote into its file.
std::string holder(int lock) {
  std::array<char, 16> text{};
  const ssize_t size = ::pread(lock, text.data(), text.size() - 1, 0);
  const std::string number(text.data(), size > 0 ? std::strspn(text.data(), "0123456789") : 0);
  return number.empty() ? "another process" : "process " + number;
}

// Nobody but the server's user, and root, may put files there: a link in place of one of ours would
// let them choose what is overwritten.
Status check_private(const fs::path& path, int directory) {
  struct stat found {};
  if (::fstat(directory, &found) != 0) return failed(path, "it cannot be looked at", errno);
  if (found.st_uid != ::geteuid() && found.st_uid != 0) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("{}: it belongs to user {}, but the server runs as user {}; give it to "
                    "that user with chown, or write a directory of its own",
                    path.string(), found.st_uid, ::geteuid())};
  }
  if ((found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: its mode is {:04o}, so others may write there; take that away "
                             "with 'chmod go-w', or write a directory of the server's own",
                             path.string(), found.st_mode & 07777)};
  }
  return Done{};
}

struct Handle {
  explicit Handle(int file) noexcept : number(file) {}
  ~Handle() {
    if (number >= 0) ::close(number);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const int number;
};

}  // namespace

Result<Directory> Directory::open(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  if (error) return failed(path, "its parent cannot be made", error.value());
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return failed(path, "it cannot be made", errno);
  }
  const Handle opened(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.number < 0) return failed(path, "it cannot be opened", errno);
  if (Status status = check_private(path, opened.number); !status) return std::move(status).error();
  const fs::path file = path / "lock";
  const int lock =
      ::openat(opened.number, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (lock < 0) {
    return failed(file, errno == ELOOP ? "it is a link" : "it cannot be opened", errno);
  }
  Directory directory(path, lock);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return failed(file, "it cannot be locked", errno);
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{}: it is in use by {}; stop that one, or give this one a directory "
                             "of its own",
                             path.string(), holder(lock))};
  }
  const std::string number = fmt::format("{}\n", ::getpid());
  // Only for people to read: the lock holds without it, on a full disk too.
  if (::ftruncate(lock, 0) == 0) {
    static_cast<void>(::pwrite(lock, number.data(), number.size(), 0) > 0);
  }
  return directory;
}

Directory::Directory(Directory&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

Directory::~Directory() {
  if (lock_ >= 0) ::close(lock_);
}

Status Directory::move_aside(std::string_view name) const {
  std::error_code error;
  const std::string from = file(name).string();
  int n = 1;
  const auto to = [&](std::string_view tail) { return fmt::format("{}.bad-{}{}", from, n, tail); };
  while (fs::exists(to(""), error) || fs::exists(to("-wal"), error)) n += 1;
  for (const std::string_view tail : {"-wal", ""}) {
    const std::string source = from + std::string(tail);
    if (!fs::exists(source, error)) continue;
    fs::rename(source, to(tail), error);
    if (error) return failed(source, "it cannot be moved aside", error.value());
  }
  fs::remove(from + "-shm", error);
  sync();
  return Done{};
}

void Directory::sync() const {
  const int handle = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return;
  ::fsync(handle);
  ::close(handle);
}

}  // namespace weir::store::sqlite
