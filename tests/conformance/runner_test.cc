// What weir-conformance prints, to the letter, and how it exits.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/process.h"
#include "tests/support/temporary_directory.h"

namespace weir::conformance {
namespace {

constexpr std::string_view kRight =
    R"({"id":"right","epoch_s":1200,"cu":3,"x":{"interval_ns":400000000000}})";
constexpr std::string_view kWrong =
    R"({"id":"wrong","epoch_s":1200,"cu":3,"x":{"interval_ns":400000000001}})";
constexpr std::string_view kOptional = R"({"id":"optional","kind":"interval"})";

// A folder of cases, and what the runner says to it.
class ConformanceRunner : public ::testing::Test {
 protected:
  // Opens DIR/`file` for cases, one a line.
  std::ofstream write(const std::string& file) const {
    const std::filesystem::path path = directory_ / file;
    std::filesystem::create_directories(path.parent_path());
    return std::ofstream(path);
  }

  std::string path(const std::string& file) const { return (directory_ / file).string(); }

  // Everything printed, then the exit code.
  std::string run() const {
    Process runner({WEIR_CONFORMANCE, directory_.path().string()});
    const int code = runner.wait();
    return runner.printed() + runner.said() + "exit " + std::to_string(code);
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(ConformanceRunner, CountsWhatPassedFailedAndWasSkippedForEachFileAndInAll) {
  write("compute/rate.jsonl") << kRight << '\n' << kWrong << "\n\n" << kRight << '\n';
  write("compute/tides.jsonl") << kRight << '\n' << kRight << '\n';
  write("contract/fill.jsonl") << kOptional << '\n';

  EXPECT_EQ(run(),
            "compute/rate 2 passed, 1 failed\n"
            "  wrong: 3 units in 1200 s: interval 400000000000 ns, expected 400000000001 ns\n"
            "compute/tides 0 passed, 0 failed, 2 skipped: family not known (2)\n"
            "contract/fill 0 passed, 0 failed, 1 skipped: optional kind 'interval' (1)\n"
            "2 passed, 1 failed, 3 skipped\n"
            "exit 1");
}

TEST_F(ConformanceRunner, ExitsWithZeroIfNothingFailed) {
  write("compute/rate.jsonl") << kRight << '\n';
  write("compute/tides.jsonl") << kRight << '\n';

  EXPECT_EQ(run(),
            "compute/rate 1 passed, 0 failed\n"
            "compute/tides 0 passed, 0 failed, 1 skipped: family not known (1)\n"
            "1 passed, 0 failed, 1 skipped\n"
            "exit 0");
}

TEST_F(ConformanceRunner, TakesAFileThatCannotBeOpenedForAFailure) {
  write("compute/rate.jsonl") << kRight << '\n';
  std::filesystem::create_symlink("nowhere", path("compute/cu.jsonl"));

  EXPECT_EQ(run(),
            "compute/cu 0 passed, 1 failed\n"
            "  " +
                path("compute/cu.jsonl") +
                ": cannot be opened\n"
                "compute/rate 1 passed, 0 failed\n"
                "1 passed, 1 failed, 0 skipped\n"
                "exit 1");
}

TEST_F(ConformanceRunner, TakesAFolderThatIsNamedLikeAFileForAFailure) {
  std::filesystem::create_directories(path("compute/rate.jsonl"));

  EXPECT_EQ(run(),
            "compute/rate 0 passed, 1 failed\n"
            "  " +
                path("compute/rate.jsonl") +
                ": cannot be read to its end\n"
                "0 passed, 1 failed, 0 skipped\n"
                "exit 1");
}

}  // namespace
}  // namespace weir::conformance
