#include "weir/server/recorder.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/temporary_directory.h"
#include "weir/server/recording.h"
#include "weir/testing/manual_clock.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Instant kNow{1'800'000'000'000'000'000};

struct RecorderTest : ::testing::Test {
  std::string path() const { return dir / "decisions"; }
  std::unique_ptr<Recorder> open() const {
    auto opened = Recorder::open(path(), clock);
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  static std::vector<Recorded> read(const std::string& file) {
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::vector<Recorded> lines;
    const Status status =
        read_recording(text, [&](const Recorded& line) { lines.push_back(line); });
    EXPECT_TRUE(status) << status.error().message;
    return lines;
  }
  static void record(Recorder& recorder, std::string_view client, int times = 1) {
    const engine::Attribute who[] = {{"client", client}};
    for (int i = 0; i < times; ++i) {
      recorder.record({.request = {.attributes = who}}, kNow, Decision());
    }
  }

  TemporaryDirectory dir;
  mutable testing::ManualClock clock{kNow};
};

TEST_F(RecorderTest, WritesWhatItIsToldWhenItIsClosed) {
  auto recorder = open();
  record(*recorder, "acme", 1000);
  recorder->record_ad_hoc({"key", 1, 2, 3}, kNow, false);
  ASSERT_TRUE(recorder->close());
  const std::vector<Recorded> lines = read(path());
  ASSERT_EQ(lines.size(), 1001u);
  EXPECT_EQ(lines[0].attributes[0].second, "acme");
  EXPECT_EQ(recorder->stats().recorded, 1001u);
  EXPECT_EQ(recorder->stats().dropped, 0u);
}

TEST_F(RecorderTest, WritesByItself) {
  auto recorder = open();
  record(*recorder, "acme");
  EXPECT_TRUE(eventually([&] { return recorder->stats().recorded == 1; }));
  EXPECT_EQ(read(path()).size(), 1u);
}

TEST_F(RecorderTest, KeepsTheOrderOfEachThread) {
  auto recorder = open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        recorder->record_ad_hoc({std::to_string(t), 1, 1, i}, kNow, true);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(recorder->close());
  std::map<std::string, std::int64_t> next;
  for (const Recorded& line : read(path())) EXPECT_EQ(line.quantity, next[line.key]++);
  for (const auto& [key, count] : next) EXPECT_EQ(count, 2000) << key;
  EXPECT_EQ(next.size(), 4u);
}

TEST_F(RecorderTest, GoesOnWithAFileThatIsThereAndCutsALineThatWasNotFinished) {
  record(*open(), "first");
  std::ofstream(path(), std::ios::app) << "d 18000000";
  record(*open(), "second");
  const std::vector<Recorded> lines = read(path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].attributes[0].second, "second");
}

TEST_F(RecorderTest, DoesNotTouchAFileThatIsNoRecording) {
  std::ofstream(path()) << "precious\n";
  const auto refused = Recorder::open(path(), clock);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(path()));
  std::ifstream in(path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "precious\n");
}

TEST_F(RecorderTest, NamesAFileThatCannotBeOpened) {
  const auto refused = Recorder::open(dir / "no/such/directory", clock);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no/such/directory: No such file"));
}

TEST_F(RecorderTest, OpensItsNameAgainAfterTheFileWasMoved) {
  auto recorder = open();
  record(*recorder, "before");
  std::filesystem::rename(path(), path() + ".1");
  record(*recorder, "between");
  ASSERT_TRUE(recorder->reopen());
  record(*recorder, "after");
  ASSERT_TRUE(recorder->close());
  EXPECT_EQ(read(path() + ".1").size(), 2u);
  ASSERT_EQ(read(path()).size(), 1u);
  EXPECT_EQ(read(path())[0].attributes[0].second, "after");
}

TEST_F(RecorderTest, SaysWhatTheDiskRefusedAndHowMuchIsMissing) {
  auto recorder = open();
  // A file that may not grow stands for a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  record(*recorder, "lost", 7);
  // All is read while the limit stands: the writer tries again every moment, and is out of
  // trouble as soon as it may write.
  const bool noticed = eventually([&] { return recorder->stats().dropped == 7; });
  const std::string trouble = recorder->trouble();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_TRUE(noticed);
  EXPECT_THAT(trouble, HasSubstr("cannot write " + path()));
  EXPECT_TRUE(eventually([&] { return recorder->trouble().empty(); })) << "it says so once it can";
  record(*recorder, "kept");
  ASSERT_TRUE(recorder->close());

  const std::vector<Recorded> lines = read(path());
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].kind, Recorded::Kind::kDropped);
  EXPECT_EQ(lines[0].dropped, 7u);
  EXPECT_EQ(lines[1].attributes[0].second, "kept");
}

// The writer is held up by a pipe that nobody reads.
TEST_F(RecorderTest, DropsAndCountsWhatTheWriterCannotKeepUpWith) {
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  auto recorder = open();
  const std::string long_key(1000, 'x');
  constexpr std::uint64_t kAsked = 40'000;  // ten times what a lane holds
  for (std::uint64_t i = 0; i < kAsked; ++i) {
    recorder->record_ad_hoc({long_key, 1, 1, 1}, kNow, true);
  }
  std::string text;
  std::thread reader([&] {
    std::ifstream in(path());
    text.assign(std::istreambuf_iterator<char>(in), {});
  });
  static_cast<void>(recorder->close().ok());
  reader.join();
  std::uint64_t recorded = 0;
  std::uint64_t dropped = 0;
  ASSERT_TRUE(read_recording(text, [&](const Recorded& line) {
    line.kind == Recorded::Kind::kDropped ? dropped += line.dropped : recorded += 1;
  }));
  EXPECT_GT(dropped, 0u);
  EXPECT_EQ(recorded + dropped, kAsked);
  EXPECT_EQ(recorder->stats().recorded, recorded);
  EXPECT_EQ(recorder->stats().dropped, dropped);
}

}  // namespace
}  // namespace weir::server
