// A disk small enough to be filled.

#pragma once

#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace weir {

// A directory whose disk can be filled: a file system of its own where that is allowed,
// else a bound on the size of the files of a process, this one unless another is named.
class SmallDisk {
 public:
  SmallDisk()
      : mounted_(::mount("tmpfs", dir_.path().c_str(), "tmpfs", 0, "size=4m,mode=0700") == 0) {}
  ~SmallDisk() {
    make_room();
    if (mounted_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  const std::filesystem::path& path() const { return dir_.path(); }

  void fill(pid_t process = 0) const {
    if (mounted_) {
      std::ofstream(dir_ / "filler") << std::string(std::size_t{8} << 20, 'x');
      return;
    }
    std::signal(SIGXFSZ, SIG_IGN);
    bound_files(process, 4096);
  }
  void make_room(pid_t process = 0) const {
    if (mounted_) {
      std::filesystem::remove(dir_ / "filler");
    } else {
      rlimit bound{};
      ::prlimit(process, RLIMIT_FSIZE, nullptr, &bound);
      bound_files(process, bound.rlim_max);
    }
  }

 private:
  static void bound_files(pid_t process, rlim_t size) {
    rlimit bound{};
    ::prlimit(process, RLIMIT_FSIZE, nullptr, &bound);
    bound.rlim_cur = size;
    ::prlimit(process, RLIMIT_FSIZE, &bound, nullptr);
  }

  TemporaryDirectory dir_;
  bool mounted_;
};

}  // namespace weir
