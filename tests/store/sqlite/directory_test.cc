#include "weir/store/sqlite/directory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/store/sqlite/support.h"

namespace weir::store::sqlite {
namespace {

TEST(StateDirectory, IsTheServersAlone) {
  TemporaryDirectory dir;
  for (const unsigned mode : {0700u, 0750u, 0755u, 0770u, 0702u, 01777u}) {
    ASSERT_EQ(::chmod(dir.path().c_str(), mode), 0);
    const auto opened = Directory::open(dir.path());
    EXPECT_EQ(opened.ok(), (mode & 022) == 0) << mode;
    if (!opened) {
      EXPECT_NE(opened.error().message.find("'chmod go-w'"), std::string::npos);
    }
  }
  fs::permissions(dir.path(), fs::perms::owner_all);
  const auto made = Directory::open(dir.path() / "made");
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(fs::status(dir.path() / "made").permissions(), fs::perms::owner_all);
}

TEST(StateDirectory, BelongsToNobodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  TemporaryDirectory dir;
  ASSERT_EQ(::chown(dir.path().c_str(), 4711, 4711), 0);
  const auto opened = Directory::open(dir.path());
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("it belongs to user 4711, but"), std::string::npos);
}

// Whoever could put the link there would have had a file of the server's user emptied.
TEST(StateDirectory, OpensNoLockThroughALink) {
  TemporaryDirectory dir;
  const fs::path other = dir.path() / "precious";
  write_bytes(other, "something");
  fs::create_directory(dir.path() / "state");
  fs::permissions(dir.path() / "state", fs::perms::owner_all);
  fs::create_symlink(other, dir.path() / "state" / "lock");
  const auto opened = Directory::open(dir.path() / "state");
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.error().message.find("lock: it is a link"), std::string::npos);
  EXPECT_EQ(bytes_of(other), "something");
}

}  // namespace
}  // namespace weir::store::sqlite
