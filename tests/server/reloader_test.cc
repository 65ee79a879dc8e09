#include "weir/server/reloader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_client.h"

namespace weir::server {
namespace {

TEST(Reloader, TellsAllWhoAskedBeforeItBegan) {
  std::promise<void> begun, go_on;
  std::atomic<int> reloads{0};
  std::vector<int> told;  // the reload of which each was told, on the one thread
  {
    Reloader reloader([&]() -> Status {
      if (++reloads == 1) {
        begun.set_value();
        go_on.get_future().wait();
      }
      return Done{};
    });
    reloader.start();
    const auto note = [&](const Status& status) {
      EXPECT_TRUE(status.ok());
      told.push_back(reloads);
    };
    reloader.ask(note);
    begun.get_future().wait();
    for (int i = 0; i < 3; ++i) reloader.ask(note);
    go_on.set_value();
  }
  EXPECT_EQ(told, (std::vector<int>{1, 2, 2, 2})) << "also those who still wait at the end";
}

TEST(Reloader, SaysThatItIsStopping) {
  Reloader reloader([]() -> Status { return Done{}; });
  reloader.start();
  reloader.stop();
  int told = 0;
  reloader.ask([&](const Status& status) {
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    ++told;
  });
  EXPECT_EQ(told, 1);
}

// A pipe in place of the file keeps the reader waiting.
struct SlowReload : HttpTest {
  std::string file() const { return dir / "throttles.json"; }
  static constexpr std::string_view kDefinitions =
      R"({"buckets":[{"name":"A","burstPeriod":1,"throttleGroups":[)"
      R"({"opsPerSec":5,"operations":["X"]}]}]})";

  void begin() {
    std::ofstream(file()) << kDefinitions;
    start("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nthreads: 1\nthrottles: { file: '" +
          file() + "' }\n");
    std::filesystem::remove(file());
    ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  }
  std::string http() const { return server->addresses()[1]; }
  // There is one loop.
  void expect_others_are_answered() {
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(HttpClient(http()).ask(get("/healthz")).status, 200);
      EXPECT_EQ(Client(address()).ask("PING\r\n", 7), "+PONG\r\n");
    }
  }
};

TEST_F(SlowReload, StopsNoOtherHttpClientOfItsLoop) {
  begin();
  HttpClient client(http());
  client.send(post("/v1/reload", "") + get("/healthz"));
  expect_others_are_answered();
  EXPECT_EQ(client.receive(1, 50), "");
  std::ofstream(file()) << kDefinitions;  // until someone reads it
  EXPECT_EQ(client.read().body, R"({"state":"reloaded"})");
  EXPECT_EQ(client.read().body, "ok\n") << "behind it, in order";
}

TEST_F(SlowReload, StopsNoOtherRespClientOfItsLoop) {
  begin();
  Client client(address());
  client.send("WEIR.RELOAD\r\nPING\r\n");
  expect_others_are_answered();
  EXPECT_EQ(client.receive(1, 50), "");
  std::ofstream(file()) << kDefinitions;
  EXPECT_EQ(client.receive(12), "+OK\r\n+PONG\r\n");
}

TEST_F(SlowReload, IsFinishedBeforeTheServerStops) {
  begin();
  HttpClient client(http());
  client.send(post("/v1/reload", ""));
  expect_others_are_answered();
  std::thread stopping([&] { EXPECT_TRUE(server->stop(5s).ok()); });
  std::ofstream(file()) << kDefinitions;
  EXPECT_EQ(client.read().body, R"({"state":"reloaded"})");
  stopping.join();
}

}  // namespace
}  // namespace weir::server
