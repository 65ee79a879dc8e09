// State that outlives the server, with the real program: killed, stopped, on a full
// disk, over a damaged file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/client.h"
#include "tests/support/eventually.h"
#include "tests/support/process.h"
#include "tests/support/small_disk.h"
#include "tests/support/temporary_directory.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kPlenty = 1'000'000'000;

std::int64_t wall_ns() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The whole number after `name` in a reply.
std::int64_t number_after(const std::string& reply, const std::string& name) {
  const std::size_t at = reply.find(name);
  return at == std::string::npos ? -1 : std::atoll(reply.c_str() + at + name.size());
}

struct StateTest : ::testing::Test {
  StateTest() { keep_state_in(dir / "state"); }

  void keep_state_in(const std::filesystem::path& where) {
    state = where;
    std::ofstream(config()) << "listen: { resp: 'unix:" << socket()
                            << "', http: 'unix:" << http_socket() << "' }\nstate: { dir: '"
                            << state.string()
                            << "', flush: 50ms }\n"
                               "limits:\n"
                               "  - { name: used, per: [client], window: { limit: 1000000000, "
                               "every: 365d } }\n"
                               "  - { name: running, per: [worker], slots: { limit: 2, hold: 1h } "
                               "}\n";
  }

  std::string config() const { return (dir / "weir.yaml").string(); }
  std::string socket() const { return (dir / "socket").string(); }
  std::string http_socket() const { return (dir / "http").string(); }
  std::string file() const { return (state / "meters.db").string(); }

  std::unique_ptr<Process> launch(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {WEIR_PROGRAM, "serve", config()};
    words.insert(words.end(), more.begin(), more.end());
    return std::make_unique<Process>(words);
  }

  // Launches it and waits until it answers.
  void start(const std::vector<std::string>& more = {}) {
    process = launch(more);
    ASSERT_TRUE(eventually([&] { return client().is_connected(); }))
        << "the server does not answer; it said: " << process->said();
  }
  void kill() {
    process->signal(SIGKILL);
    EXPECT_EQ(process->wait(), -SIGKILL);
  }
  int stop() {
    process->signal(SIGTERM);
    return process->wait();
  }

  Client client() const { return Client("unix:" + socket()); }

  std::string info() const {
    return client().ask_until("INFO\r\n", "flush_error:") + " ";  // without the error's text
  }
  std::string get(const std::string& path) const {
    return Client("unix:" + http_socket())
        .ask_until("GET " + path + " HTTP/1.0\r\n\r\n", "nothing like this");
  }
  std::string readiness() const { return get("/readyz"); }
  std::string metrics() const { return get("/metrics"); }
  void wait_for_flush_after(std::int64_t wall) const {
    // The server's clock follows the wall's within a millisecond.
    ASSERT_TRUE(
        eventually([&] { return number_after(info(), "flushed_until_ns:") >= wall + 5'000'000; }));
  }

  std::int64_t used(const std::string& who) const {
    const std::string reply =
        client().ask_until("WEIR.INSPECT used client=" + who + "\r\n", "capacity");
    return kPlenty - number_after(reply, "remaining\r\n:");
  }

  TemporaryDirectory dir;
  std::filesystem::path state;
  std::unique_ptr<Process> process;
};

// Charges one unit after the other until the server is gone.
struct Load {
  void run(Client client) {
    const std::string request = "WEIR.ACQUIRE client=load\r\n";
    while (client.send(request)) {
      if (!client.receive_until("used\r\n:").ends_with("used\r\n:")) break;
      if (client.receive_until("\r\n").empty()) break;
      answered_at.push_back(wall_ns());
      is_answered = true;
    }
  }
  bool has_begun() const {
    return eventually([&] { return is_answered.load(); });
  }

  std::vector<std::int64_t> answered_at;  // once it has ended
  std::atomic<bool> is_answered{false};
};

TEST_F(StateTest, AKillForgetsAtMostWhatCameAfterTheLastFlush) {
  std::mt19937 random(std::random_device{}());
  std::int64_t before = 0;
  for (int round = 0; round < 4; ++round) {
    start();
    Load load;
    std::thread loader([&] { load.run(client()); });
    EXPECT_TRUE(load.has_begun());
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 150));
    wait_for_flush_after(wall_ns());  // so that there is something it must keep
    const std::string last = info();
    kill();
    loader.join();
    const std::int64_t flushed_until = number_after(last, "flushed_until_ns:");
    std::int64_t covered = 0;
    for (const std::int64_t at : load.answered_at) covered += at + 5'000'000 < flushed_until;
    ASSERT_GT(covered, 0) << "no flush came while there was load";

    start();
    const std::int64_t after = used("load");
    EXPECT_GE(after - before, covered) << "round " << round;
    // One more may have been charged whose answer never came.
    EXPECT_LE(after - before, static_cast<std::int64_t>(load.answered_at.size()) + 1);
    before = after;
    EXPECT_EQ(stop(), 0);
  }
}

TEST_F(StateTest, FlushesKeepUpWithTheInterval) {
  start();
  Load load;
  std::thread loader([&] { load.run(client()); });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(20ms);
    const std::string text = info();
    const std::int64_t age = wall_ns() - number_after(text, "flushed_until_ns:");
    // The interval and a flush, with a machine that has other things to do.
    EXPECT_LT(age, 30'000'000'000) << text;
  }
  EXPECT_TRUE(eventually([&] { return number_after(info(), "flushes:") > 1; })) << info();
  EXPECT_THAT(metrics(), AllOf(HasSubstr("weir_state_flushes_total{result=\"failed\"} 0\n"),
                               HasSubstr("weir_state_unwritten_seconds ")));
  kill();
  loader.join();
}

TEST_F(StateTest, AKillKeepsAHoldThatAFlushHadCovered) {
  start();
  const std::string reply =
      client().ask_until("WEIR.ACQUIRE worker=w client=h HOLD 1h\r\n", "running\r\n:1\r\n");
  const std::size_t begin = reply.find("\r\n", reply.find("hold\r\n$") + 6) + 2;
  const std::string hold = reply.substr(begin, reply.find("\r\n", begin) - begin);
  wait_for_flush_after(wall_ns());
  kill();

  start();
  EXPECT_THAT(client().ask_until("WEIR.INSPECT running worker=w\r\n", "capacity"),
              HasSubstr("remaining\r\n:1\r\n"));
  EXPECT_THAT(client().ask_until("WEIR.SETTLE " + hold + "\r\n", "\r\n"), HasSubstr("settled"));
  EXPECT_THAT(client().ask_until("WEIR.INSPECT running worker=w\r\n", "capacity"),
              HasSubstr("remaining\r\n:2\r\n"));
  EXPECT_EQ(used("h"), 1);
}

TEST_F(StateTest, AStopForgetsNothing) {
  start();
  Load load;
  std::thread loader([&] { load.run(client()); });
  EXPECT_TRUE(load.has_begun());
  std::this_thread::sleep_for(220ms);
  EXPECT_EQ(stop(), 0) << process->said();
  loader.join();
  ASSERT_GT(load.answered_at.size(), 0u);
  start();
  EXPECT_EQ(used("load"), static_cast<std::int64_t>(load.answered_at.size()));
  // It answers before it says so.
  const std::string line = "event=state dir=" + state.string() + " meters=1 ";
  for (int i = 0; i < 2000 && process->said().find(line) == std::string::npos; ++i) {
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_THAT(process->said(), HasSubstr(line));
}

TEST_F(StateTest, TwoServersDoNotShareADirectory) {
  start();
  const std::unique_ptr<Process> second = launch();
  EXPECT_EQ(second->wait(), 1);
  EXPECT_THAT(second->said(), HasSubstr(state.string()));
}

struct DamagedStateTest : StateTest {
  void SetUp() override {
    start();
    for (int i = 0; i < 3; ++i) client().ask_until("WEIR.ACQUIRE client=a\r\n", "used\r\n:");
    ASSERT_EQ(stop(), 0);
  }

  void expect_refusal_and_empty_start_on_request() {
    const std::unique_ptr<Process> refused = launch();
    EXPECT_EQ(refused->wait(), 1);
    EXPECT_THAT(refused->said(), AllOf(HasSubstr(file()), HasSubstr("--start-empty")));
    EXPECT_FALSE(client().is_connected());

    start({"--start-empty"});
    EXPECT_EQ(used("a"), 0);
    EXPECT_EQ(stop(), 0);
    EXPECT_TRUE(std::filesystem::exists(file() + ".bad-1"));
    start();  // nothing is wrong with the new one
  }
};

TEST_F(DamagedStateTest, ATruncatedFileIsRefusedByName) {
  std::filesystem::resize_file(file(), std::filesystem::file_size(file()) / 2);
  expect_refusal_and_empty_start_on_request();
}

TEST_F(DamagedStateTest, ACorruptedFileIsRefusedByName) {
  const std::uintmax_t size = std::filesystem::file_size(file());
  std::fstream damaged(file(), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(static_cast<std::streamoff>(size / 4));
  damaged << std::string(size / 2, '\x5a');
  damaged.close();
  expect_refusal_and_empty_start_on_request();
}

TEST_F(DamagedStateTest, AnEmptyStartKeepsTheOldFile) {
  start({"--start-empty"});
  EXPECT_EQ(used("a"), 0);
  EXPECT_EQ(stop(), 0);
  std::filesystem::rename(file() + ".bad-1", file());
  start();
  EXPECT_EQ(used("a"), 3);
}

TEST_F(StateTest, AFullDiskIsReportedAndDecidingGoesOn) {
  const SmallDisk disk;
  keep_state_in(disk.path() / "state");
  start();
  disk.fill(process->id());
  std::int64_t charged = 0;
  ASSERT_TRUE(eventually([&] {
    client().ask_until("WEIR.ACQUIRE client=a\r\n", "used\r\n:");
    charged += 1;
    return number_after(info(), "failed_flushes:") >= 3;
  }));
  EXPECT_EQ(used("a"), charged);
  EXPECT_THAT(client().ask_until("INFO\r\n", "make room"), HasSubstr(file()));
  EXPECT_TRUE(eventually([&] { return readiness().find(" 503 ") != std::string::npos; }));
  EXPECT_THAT(metrics(), Not(HasSubstr("weir_state_flushes_total{result=\"failed\"} 0\n")));
  EXPECT_THAT(readiness(), AllOf(HasSubstr("state: "), HasSubstr(file()), HasSubstr("make room")));

  disk.make_room(process->id());
  wait_for_flush_after(wall_ns());
  EXPECT_TRUE(eventually([&] { return readiness().find(" 200 ") != std::string::npos; }));
  kill();
  start();
  EXPECT_EQ(used("a"), charged);
  EXPECT_EQ(stop(), 0);
}

}  // namespace
}  // namespace weir::server
