// Clients that guess tokens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/server/support.h"
#include "weir/server/attempts.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kAuth = "auth: [ { token: secret, role: decide } ]\n";
constexpr std::string_view kGuess = "AUTH guess\r\n";

struct GuessingTest : ServerTest {
  // With a log that is kept.
  void serve(const std::string& listen) {
    write(listen + std::string(kAuth) + std::string(kServerLimits));
    auto config = config::load(path());
    ASSERT_TRUE(config) << config.error().message;
    auto started =
        Server::start(std::move(*config), clock, StartEmpty::kNo, [this](const LogLine& line) {
          const std::scoped_lock lock(log_lock);
          if (line.event == "auth-failed") failures.push_back(line.fields);
        });
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  // How long `ask` takes.
  template <typename Ask>
  Duration time_of(const Ask& ask) {
    const Instant before = clock.now();
    ask();
    return clock.now() - before;
  }

  std::mutex log_lock;
  std::vector<std::vector<LogField>> failures;
};

TEST_F(GuessingTest, IsCountedLoggedSeldomAndSlowed) {
  serve("listen: { resp: 127.0.0.1:0, http: none }\n");
  Client guesser(address());
  for (unsigned i = 0; i < Attempts::kFreeFailures; ++i) {
    EXPECT_THAT(guesser.ask_until(kGuess, "\r\n"), StartsWith("-WRONGPASS"));
  }
  const Duration slow = time_of([&] {
    guesser.send(kGuess);
    // Others of the same address are answered meanwhile.
    Client other(address());
    EXPECT_EQ(other.ask("AUTH secret\r\n", 5), "+OK\r\n");
    EXPECT_EQ(other.ask("PING\r\n", 7), "+PONG\r\n");
    EXPECT_THAT(guesser.receive_until("\r\n"), StartsWith("-WRONGPASS"));
  });
  EXPECT_GE(slow, Attempts::kFirstDelay);
  EXPECT_EQ(guesser.ask("AUTH secret\r\n", 5), "+OK\r\n");
  EXPECT_THAT(server->metrics(), HasSubstr("weir_auth_failures_total{protocol=\"resp\"} 4\n"));
  const std::scoped_lock lock(log_lock);
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0][0].value, "127.0.0.1");
}

TEST_F(GuessingTest, IsSlowedWithinOnePipelineToo) {
  serve("listen: { resp: 127.0.0.1:0, http: none }\n");
  Client guesser(address());
  std::string many;
  for (int i = 0; i < 5; ++i) many += kGuess;
  const Duration slow = time_of([&] {
    guesser.send(many + "HELLO 3 AUTH default guess\r\nAUTH secret\r\n");
    for (int i = 0; i < 6; ++i) {
      EXPECT_THAT(guesser.receive_until("\r\n"), StartsWith("-WRONGPASS"));
    }
    EXPECT_EQ(guesser.receive(5), "+OK\r\n");
  });
  EXPECT_GE(slow, Attempts::kFirstDelay * 7);
}

TEST_F(GuessingTest, EndsAConnectionOfHttpLate) {
  serve("listen: { resp: none, http: 127.0.0.1:0 }\n");
  const std::string guess = get("/v1/limits", "Authorization: Bearer guess\r\n");
  HttpClient guesser(address());
  for (unsigned i = 0; i < Attempts::kFreeFailures; ++i) {
    EXPECT_EQ(guesser.ask(guess).status, 401);
  }
  HttpAnswer last;
  const Duration slow = time_of([&] { last = guesser.ask(guess + guess); });
  EXPECT_EQ(last.status, 401);
  EXPECT_EQ(last.field("Connection"), "close");
  EXPECT_GE(slow, Attempts::kFirstDelay);
  EXPECT_EQ(HttpClient(address()).ask(get("/v1/limits", "Authorization: Bearer secret\r\n")).status,
            200);
  EXPECT_THAT(server->metrics(), HasSubstr("weir_auth_failures_total{protocol=\"http\"} 4\n"));
}

TEST_F(GuessingTest, OnAUnixSocketIsCountedOnly) {
  serve("listen: { resp: \"unix:" + (dir / "s").string() + "\", http: none }\n");
  Client guesser(address());
  constexpr int kGuesses = 2'000;
  std::string many;
  for (int i = 0; i < kGuesses; ++i) many += kGuess;
  ASSERT_TRUE(guesser.send(many));
  for (int i = 0; i < kGuesses; ++i) {
    ASSERT_THAT(guesser.receive_until("\r\n"), StartsWith("-WRONGPASS")) << i;
  }
  EXPECT_THAT(server->metrics(), HasSubstr("weir_auth_failures_total{protocol=\"resp\"} 2000\n"));
  const std::scoped_lock lock(log_lock);
  ASSERT_FALSE(failures.empty());
  EXPECT_EQ(failures[0][0].value, "unix");
}

}  // namespace
}  // namespace weir::server
