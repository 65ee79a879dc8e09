// File marks: when another version of a file is there, and stands still.
//
// A file that someone writes piece by piece may be in order at every length: rules end anywhere.
// So a change counts when two looks in a row have seen the same.
//
//   look 1   1,200 bytes, as loaded
//   look 2     400 bytes: another version
//   look 3     800 bytes: it still grows
//   look 4     800 bytes: changed, load it
//
// Thread safety: none; one thread looks.

#pragma once

#include <sys/stat.h>
#include <time.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weir::app {

// What tells two versions of a file apart.
struct FileMark {
  timespec changed{};
  ino_t inode = 0;  // 0: there is no file
  off_t bytes = 0;

  static FileMark of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {found.st_mtim, found.st_ino, found.st_size};
  }
  friend bool operator==(const FileMark& a, const FileMark& b) {
    return a.changed.tv_sec == b.changed.tv_sec && a.changed.tv_nsec == b.changed.tv_nsec &&
           a.inode == b.inode && a.bytes == b.bytes;
  }
};

class FileMarks {
 public:
  // From now on these are looked at. One that was not before counts as loaded as it is.
  void watch(const std::vector<std::string>& paths) {
    std::map<std::string, Watched> now;
    for (const std::string& path : paths) {
      const auto known = files_.find(path);
      const FileMark mark = known == files_.end() ? FileMark::of(path) : FileMark{};
      now.emplace(path, known == files_.end() ? Watched{mark, mark} : known->second);
    }
    files_ = std::move(now);
  }

  // They are about to be loaded, as the last look saw them or later.
  void load() {
    for (auto& [path, watched] : files_) watched.loaded = watched.seen;
  }

  // Looks at the files. True: one of them is another than was loaded, and none has changed since
  // the look before. One that is not there, as between two steps of replacing it, does not count.
  bool look() {
    bool has_changed = false;
    bool stands_still = true;
    for (auto& [path, watched] : files_) {
      const FileMark now = FileMark::of(path);
      const FileMark before = std::exchange(watched.seen, now);
      if (now.inode == 0 || now == watched.loaded) continue;
      has_changed = true;
      stands_still = stands_still && now == before;
    }
    return has_changed && stands_still;
  }

 private:
  struct Watched {
    FileMark loaded;
    FileMark seen;
  };
  std::map<std::string, Watched> files_;
};

}  // namespace weir::app
