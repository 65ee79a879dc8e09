// The bounds of `weir.yaml` that the engine keeps, as a client meets them: each from both
// sides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/server/recording.h"

namespace weir::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Bounds : HttpTest {
  // The first line of the reply to a command that is answered by an error or a map.
  std::string first_line(Client& client, const std::string& command) {
    client.send(command + "\r\nPING\r\n");
    const std::string reply = client.receive_until("+PONG\r\n");
    return reply.substr(0, reply.find("\r\n"));
  }
};

TEST_F(Bounds, Waiting) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { waiting: 1 }\n");
  Client taker(address()), first(address()), second(address());
  taker.ask_until("WEIR.ACQUIRE worker=w\r\n", "running\r\n:0\r\n");
  first.send("WEIR.ACQUIRE worker=w WAIT 60s\r\n");
  ASSERT_TRUE(someone_waits());
  EXPECT_THAT(second.ask_until("WEIR.ACQUIRE worker=w WAIT 60s\r\n", "overloaded\r\n"),
              HasSubstr("overloaded"));
  EXPECT_EQ(server->engine().usage().waiters, 1u);
}

TEST_F(Bounds, Holds) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { holds: 2 }\n");
  Client client(address());
  const std::string hold = "WEIR.ACQUIRE client=a HOLD 60s";
  EXPECT_THAT(first_line(client, hold), StartsWith("*"));
  EXPECT_THAT(first_line(client, hold), StartsWith("*"));
  EXPECT_THAT(first_line(client, hold), StartsWith("-EXHAUSTED"));
}

// Keys are dealt out to 256 shards, and each keeps its share, an eighth of it and eight
// more: of 1,000 keys 3 + 0 + 8.
TEST_F(Bounds, Keys) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { keys: 1000 }\n");
  constexpr std::size_t kMost = 256 * (3 + 0 + 8);
  Client client(address());
  const auto refused = [&](std::size_t begin, std::size_t end) {
    std::string commands;
    for (std::size_t i = begin; i < end; ++i) {
      commands += "WEIR.ACQUIRE client=" + std::to_string(i) + "\r\n";
    }
    std::thread sender([&] { client.send(commands + "PING\r\n"); });
    const std::string replies = client.receive_until("+PONG\r\n");
    sender.join();
    std::size_t count = 0;
    for (std::size_t at = replies.find("-EXHAUSTED"); at != std::string::npos;
         at = replies.find("-EXHAUSTED", at + 1)) {
      count += 1;
    }
    return count;
  };
  // Few enough that twelve of them in one shard would be seen once in a hundred million runs.
  EXPECT_EQ(refused(0, 200), 0u);
  EXPECT_GE(refused(200, 4000), 4000 - kMost);
  EXPECT_LE(server->engine().usage().keys, kMost);
  EXPECT_EQ(refused(0, 200), 0u) << "those that are there stay";
}

TEST_F(Bounds, LogRuns) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { log_runs: 64 }\n",
        "limits: [ { name: log, log: { limit: 1000, window: 1d } } ]\n");
  Client client(address());
  std::size_t admitted = 0;
  std::string reply;
  // One at a time: those of one read share their instant, and so their entry.
  for (; admitted < 1000; ++admitted) {
    reply = first_line(client, "WEIR.ACQUIRE");
    if (!reply.starts_with("*")) break;
  }
  EXPECT_GE(admitted, 16u);
  EXPECT_LE(admitted, 64u);
  EXPECT_THAT(reply, StartsWith("-EXHAUSTED"));
}

TEST_F(Bounds, Batch) {
  serve("bounds: { batch: 2 }\n");
  EXPECT_EQ(ask(post("/v1/batch", R"({"requests":[{},{}]})")).status, 200);
  EXPECT_EQ(ask(post("/v1/batch", R"({"requests":[{},{},{}]})")).status, 413);
}

TEST_F(Bounds, Streams) {
  serve("bounds: { streams: 2 }\n");
  HttpClient one(address()), two(address()), three(address());
  for (HttpClient* each : {&one, &two}) {
    each->send(get("/v1/events"));
    EXPECT_THAT(each->receive_until("\r\n\r\n"), StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(each->receive_until("\n\n"), StartsWith("id: 1\nevent: state\n"));
  }
  const HttpAnswer refused = three.ask(get("/v1/events"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("bounds.streams"));
  EXPECT_EQ(three.ask(get("/healthz")).status, 200) << "the connection stays";
  two.leave();
  EXPECT_TRUE(eventually([&] {
    HttpClient next(address());
    next.send(get("/v1/events"));
    return next.receive(12) == "HTTP/1.1 200";
  }));
}

// --- while it stops, and what is kept of it

TEST_F(Bounds, WaitersBehindEachOtherAreAnsweredBeforeItStops) {
  serve();
  take_slot();
  HttpClient client(address());
  const std::string wait = post("/v1/acquire", kPatient);
  client.send(wait + wait + wait + get("/healthz"));
  ASSERT_TRUE(someone_waits());
  EXPECT_TRUE(server->stop(30s).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.read().status, 503) << i;
  EXPECT_EQ(client.read().status, 200);
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
}

TEST_F(Bounds, WhatAProxyAsksIsRecorded) {
  const std::string file = dir / "decisions.rec";
  serve("record: '" + file + "'\n");
  EXPECT_EQ(ask(get("/v1/authorize", "Weir-Attribute-Client: acme\r\n")).status, 200);
  EXPECT_TRUE(server->stop(10s).ok());
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  std::vector<Recorded> lines;
  ASSERT_TRUE(read_recording(text, [&](const Recorded& line) { lines.push_back(line); }));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].attributes[0].second, "acme");
}

// --- what messages call them

TEST_F(ServerTest, SaysWhichKeysOfItsFileAMessageMeans) {
  start("listen: { resp: 127.0.0.1:0, http: none }\nbounds: { holds: 1, overrides: 0 }\n");
  Client client(address());
  ASSERT_TRUE(
      client.ask_until("WEIR.ACQUIRE client=a HOLD 60s\r\n", "999999\r\n").starts_with("*"));
  const auto error = [&](const std::string& command) {
    return client.ask_until(command + "\r\n", "\r\n");
  };
  EXPECT_THAT(error("WEIR.ACQUIRE client=a HOLD 60s"),
              EndsWith("1 holds are active, as many as this engine keeps; settle some, or raise "
                       "bounds.holds\r\n"));
  EXPECT_THAT(error("WEIR.ACQUIRE client=a HOLD 25h"),
              EndsWith("but bounds.hold allows at most '1d'; write a shorter time, or raise "
                       "bounds.hold\r\n"));
  EXPECT_THAT(error("WEIR.ACQUIRE nobody=a"), EndsWith("or write it under 'attributes'\r\n"));
}

}  // namespace
}  // namespace weir::server
