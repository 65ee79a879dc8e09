#include "apps/weir/file_marks.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace weir::app {
namespace {

struct FileMarksTest : ::testing::Test {
  FileMarksTest() {
    dir = std::filesystem::temp_directory_path() /
          ("weir-file-marks-" + std::to_string(::getpid()) + "-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(dir);
    write("limits:\n");
    marks.watch({path()});
  }
  ~FileMarksTest() override { std::filesystem::remove_all(dir); }

  std::string path() const { return dir / "weir.yaml"; }
  // Each version is longer than the one before, so that they differ whatever the clock does.
  void write(const std::string& more) const { std::ofstream(path(), std::ios::app) << more; }

  std::filesystem::path dir;
  FileMarks marks;
};

TEST_F(FileMarksTest, SayNothingOfAFileThatStaysAsItIs) {
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(marks.look()) << i;
}

TEST_F(FileMarksTest, TakeAChangeThatTwoLooksHaveSeen) {
  write("- a\n");
  EXPECT_FALSE(marks.look());
  EXPECT_TRUE(marks.look());
  marks.load();
  EXPECT_FALSE(marks.look());
  EXPECT_FALSE(marks.look());
}

TEST_F(FileMarksTest, WaitForAFileThatIsStillBeingWritten) {
  for (int i = 0; i < 5; ++i) {
    write("- a\n");
    EXPECT_FALSE(marks.look()) << i;
  }
  EXPECT_TRUE(marks.look());
}

TEST_F(FileMarksTest, SayNothingOfAFileThatIsAsItWasAgain) {
  std::filesystem::rename(path(), dir / "aside");
  EXPECT_FALSE(marks.look());
  EXPECT_FALSE(marks.look());
  std::filesystem::rename(dir / "aside", path());
  EXPECT_FALSE(marks.look());
  EXPECT_FALSE(marks.look());
}

TEST_F(FileMarksTest, WaitUntilAllFilesStandStill) {
  const std::string other = dir / "throttles.json";
  std::ofstream(other) << "{";
  marks.watch({path(), other});
  write("- a\n");
  std::ofstream(other, std::ios::app) << "\"buckets\":";
  EXPECT_FALSE(marks.look());
  std::ofstream(other, std::ios::app) << "[]}";
  EXPECT_FALSE(marks.look()) << "one of them has changed again";
  EXPECT_TRUE(marks.look());
}

TEST_F(FileMarksTest, SeeAFileOnlyFromWhenItIsNamed) {
  const std::string other = dir / "throttles.json";
  std::ofstream(other) << "{}";
  marks.watch({path(), other});
  EXPECT_FALSE(marks.look());
  marks.watch({path()});
  std::ofstream(other) << "{  }";
  EXPECT_FALSE(marks.look());
  EXPECT_FALSE(marks.look());
}

}  // namespace
}  // namespace weir::app
