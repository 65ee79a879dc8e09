// What HTTP clients may ask too much, too slowly or wrongly: each bound from both sides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/http_client.h"
#include "tests/support/seed.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;

struct HttpBounds : HttpTest {
  // A body of so many bytes that is a good request.
  static std::string padded(std::size_t bytes) {
    return std::string(kAcme) + std::string(bytes - kAcme.size(), ' ');
  }
  // A request whose header has so many bytes.
  static std::string header_of(std::size_t bytes) {
    const std::string empty = get("/healthz", "X: \r\n");
    return get("/healthz", "X: " + std::string(bytes - empty.size(), 'x') + "\r\n");
  }
};

TEST_F(HttpBounds, BodyBytes) {
  serve("bounds: { request_bytes: 1024 }\n");
  EXPECT_EQ(ask(post("/v1/acquire", padded(1024))).status, 200);
  HttpClient client(address());
  const HttpAnswer answer = client.ask(post("/v1/acquire", padded(1025)));
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("urn:weir:too-large"));
  EXPECT_EQ(answer.field("Connection"), "close");
}

TEST_F(HttpBounds, BodyBytesWithoutAToken) {
  serve("auth: [ { token: secret, role: decide } ]\n");
  const std::string token = "Authorization: Bearer secret\r\n";
  const auto begin = [](std::size_t bytes, const std::string& fields) {
    const std::string whole = post("/v1/acquire", padded(bytes), fields);
    return whole.substr(0, whole.size() - 1);
  };
  const std::size_t header = post("/v1/acquire", padded(10'000)).size() - 10'000;
  HttpClient little(address()), much(address()), known(address());
  much.send(begin(kStrangerBytesMax - header + 1, ""));
  const HttpAnswer refused = much.read();
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.body, HasSubstr("at most 16384 bytes"));
  EXPECT_EQ(refused.field("Connection"), "close");
  little.send(begin(kStrangerBytesMax - header, ""));
  EXPECT_EQ(little.receive(1, 100), "") << "may still come whole";
  EXPECT_EQ(little.ask(" ").status, 401);
  EXPECT_EQ(known.ask(begin(60'000, token) + " ").status, 200);

  const auto chunked = [](const std::string& fields, const std::string& body) {
    return "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
           "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n" +
           fields + "\r\n4e20\r\n" + body + "\r\n0";
  };
  HttpClient chunks(address()), known_chunks(address());
  chunks.send(chunked("", padded(20'000)));
  EXPECT_EQ(chunks.read().status, 401);
  EXPECT_EQ(known_chunks.ask(chunked(token, padded(20'000)) + "\r\n\r\n").status, 200);
}

TEST_F(HttpBounds, BodyBytesInChunks) {
  serve("bounds: { request_bytes: 1024 }\n");
  const auto chunked = [](std::size_t last) {
    return "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
           "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n200\r\n" +
           padded(512) + "\r\n" + (last == 512 ? "200" : "201") + "\r\n" + std::string(last, ' ') +
           "\r\n0\r\n\r\n";
  };
  EXPECT_EQ(ask(chunked(512)).status, 200);
  EXPECT_EQ(ask(chunked(513)).status, 413);
}

TEST_F(HttpBounds, HeaderBytes) {
  serve("bounds: { header_bytes: 1024 }\n");
  EXPECT_EQ(ask(header_of(1024)).status, 200);
  EXPECT_EQ(ask(header_of(1025)).status, 431);
  EXPECT_EQ(ask(post("/v1/acquire", padded(5000))).status, 200) << "the body is no header";
  EXPECT_EQ(ask("GET /" + std::string(2000, 'x')).status, 431) << "also before it has ended";
}

TEST_F(HttpBounds, FieldsThatAreForUs) {
  serve();
  const auto with = [](int count) {
    std::string fields;
    for (int i = 0; i < count; ++i) fields += "Weir-Attribute-Client: a\r\n";
    return get("/healthz", fields);
  };
  EXPECT_EQ(ask(with(32)).status, 200);
  EXPECT_EQ(ask(with(33)).status, 400);
}

TEST_F(HttpBounds, Connections) {
  serve("bounds: { connections: 3 }\n");
  HttpClient one(address()), two(address()), three(address());
  for (HttpClient* each : {&one, &two, &three}) ASSERT_EQ(each->ask(get("/healthz")).status, 200);
  HttpClient four(address());
  const HttpAnswer answer = four.read();
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("bounds.connections"));
  two.leave();
  EXPECT_TRUE(eventually([&] { return ask(get("/healthz")).status == 200; }));
}

TEST_F(HttpBounds, Idle) {
  serve("bounds: { idle: 1s }\n");
  HttpClient client(address());
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(client.ask(get("/healthz")).status, 200);
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 900ms);
}

TEST_F(HttpBounds, IdleIsNotWhoeverWaitsOrStreams) {
  // Long enough that nobody is idle who is only slow to ask; the stream is followed for twice that.
  serve("bounds: { idle: 1500ms }\n");
  take_slot();
  HttpClient waiting(address());
  waiting.send(post("/v1/acquire", kPatient));
  HttpClient streaming(address());
  streaming.send(get("/v1/events"));
  EXPECT_THAT(streaming.receive_until("id: 4\n"), HasSubstr("id: 4\n"));
  EXPECT_EQ(server->engine().usage().waiters, 1u);
}

TEST_F(HttpBounds, SlowRequests) {
  serve("bounds: { slow: 400ms }\n");
  HttpClient idle(address());
  HttpClient slow(address());
  slow.send("GET /healthz HTTP/1.1\r\nHo");
  const HttpAnswer answer = slow.read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_THAT(answer.body, HasSubstr("urn:weir:timeout"));
  EXPECT_TRUE(slow.is_closed_within(kPatienceMs));
  EXPECT_EQ(idle.ask(get("/healthz")).status, 200) << "an idle one is not slow";
}

TEST_F(HttpBounds, WhoHasBeenAnsweredIsIdleAlsoAfterChunks) {
  serve("bounds: { slow: 300ms }\n");
  const std::string chunked =
      "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" +
      padded(32) + "\r\n0\r\n\r\n";
  HttpClient client(address());
  ASSERT_EQ(client.ask(chunked).status, 200);
  EXPECT_EQ(client.receive(1, 1000), "") << "nobody asked";
  EXPECT_EQ(client.ask(chunked).status, 200);
  client.stop_sending();
  EXPECT_EQ(client.receive(1), "") << "it ended between two requests";
}

TEST_F(HttpBounds, BodiesBeyondWhatIsEverReadAreRefusedBeforeTheyCome) {
  serve("bounds: { request_bytes: 2000000 }\n");
  HttpClient client(address());
  client.send(
      "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1048577\r\n\r\nthe "
      "beginning");
  const HttpAnswer refused = client.read();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("longer than 1048576 bytes; send less\""))
      << "the bound of the configuration would not help";
  EXPECT_EQ(ask(post("/v1/acquire", padded(1'048'576))).status, 200);
}

TEST_F(HttpBounds, RequestsThatDripInAreSlowToo) {
  serve("bounds: { slow: 400ms }\n");
  for (const std::string& begin :
       {std::string("GET /healthz HTTP/1.1\r\nX: "),
        std::string(
            "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 60000\r\n\r\n"),
        std::string("POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "ffff\r\n")}) {
    HttpClient client(address());
    client.send(begin);
    std::string got;
    for (int i = 0; i < 400 && got.empty(); ++i) {
      client.send("x");
      got = client.receive(1, 25);
    }
    EXPECT_EQ(got + client.receive(11), "HTTP/1.1 408") << begin;
  }
}

TEST_F(HttpBounds, OutputThatNobodyReads) {
  serve();
  HttpClient client(address());
  bool taken = true;
  const std::string asked = get("/openapi.json");
  std::string many;
  for (int i = 0; i < 100; ++i) many += asked;
  for (int i = 0; i < 2000 && taken; ++i) {
    taken = client.send(many, false);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_FALSE(taken) << "200,000 requests were taken from a client that reads nothing";
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  // Who begins to read again is answered in full.
  for (int i = 0; i < 100; ++i) ASSERT_EQ(client.read().status, 200) << i;
}

// --- wrong input

TEST_F(HttpBounds, MalformedRequestsGetAProblemAndAreClosed) {
  serve();
  const std::string acquire = "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  const std::vector<std::string> requests = {
      "NONSENSE\r\n\r\n",
      "\x16\x03\x01\x02\x01\x01\xfc\x03\x03",
      "GET /healthz HTTP/2.0\r\nHost: 127.0.0.1\r\n\r\n",
      "GET /healthz HTTP/1.1\nHost: w\n\n",
      "GET /healthz HTTP/1.1\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nBad Name: x\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n folded\r\n\r\n",
      "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX:\r\n folded\r\n\r\n",
      "GET /he althz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
      acquire + "Content-Length: -1\r\n\r\n",
      acquire + "Content-Length: 2x\r\n\r\n{}",
      acquire + "Content-Length: 99999999999999999999\r\n\r\n",
      acquire + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      acquire + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      acquire + "Transfer-Encoding: gzip\r\n\r\n",
      acquire + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
      acquire + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
      acquire + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx0\r\n\r\n",
      "POST /v1/acquire HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  };
  for (const std::string& request : requests) {
    HttpClient client(address());
    const HttpAnswer answer = client.ask(request);
    EXPECT_EQ(answer.status, 400) << request;
    EXPECT_EQ(answer.field("Content-Type"), "application/problem+json") << request;
    EXPECT_EQ(answer.field("Connection"), "close") << request;
    EXPECT_TRUE(client.is_closed_within(kPatienceMs)) << request;
  }
}

TEST_F(HttpBounds, WhatIsWrongComesAfterTheAnswersBefore) {
  serve();
  HttpClient client(address());
  client.send(get("/healthz") + "NONSENSE\r\n\r\n" + get("/healthz"));
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.read().status, 400);
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
}

TEST_F(HttpBounds, TruncatedRequestsGetAProblem) {
  serve();
  const std::string whole = post("/v1/acquire", kAcme);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{10}, whole.size() - 1}) {
    HttpClient client(address());
    client.send(whole.substr(0, bytes));
    client.stop_sending();
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, 400) << bytes;
    EXPECT_THAT(answer.body, HasSubstr("ends before it is whole"));
  }
}

TEST_F(HttpBounds, NoBytesWhateverStopTheServer) {
  serve();
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string good = post("/v1/acquire", kAcme) +
                           "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                           "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                           "\r\n2\r\n{}\r\n0\r\n\r\n" +
                           get("/v1/limits");
  for (int i = 0; i < 300; ++i) {
    std::string bytes = good;
    for (std::uint64_t n = random() % 4 + 1; n > 0; --n) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    HttpClient client(address());
    std::string_view left = bytes;
    while (!left.empty()) {
      const std::size_t piece = std::min<std::size_t>(random() % 80 + 1, left.size());
      if (!client.send(left.substr(0, piece))) break;
      left.remove_prefix(piece);
    }
    client.stop_sending();
    EXPECT_NE(client.read().status, 0) << bytes;
  }
  EXPECT_EQ(ask(get("/healthz")).status, 200);
}

TEST_F(HttpBounds, StreamsAndWaitsThatOutliveTheirToken) {
  const auto auth = [](std::string_view token) {
    return "auth: [ { token: kept, role: admin }, { token: " + std::string(token) +
           ", role: decide } ]\n";
  };
  serve(auth("old"));
  const std::string old = "Authorization: Bearer old\r\n", kept = "Authorization: Bearer kept\r\n";
  ask(post("/v1/acquire", kSlot, kept));
  HttpClient stream(address()), kept_stream(address()), wait(address());
  for (auto [client, token] : {std::pair{&stream, &old}, std::pair{&kept_stream, &kept}}) {
    client->send(get("/v1/events", *token));
    EXPECT_THAT(client->receive_until("\n\n"), HasSubstr("HTTP/1.1 200"));
  }
  wait.send(post("/v1/acquire", kPatient, old));
  ASSERT_TRUE(someone_waits());
  write(kListen + auth("new") + std::string(kServerLimits));
  ASSERT_TRUE(server->reload().ok());
  const HttpAnswer answer = wait.read();
  EXPECT_EQ(answer.status, 401);
  EXPECT_THAT(answer.body, HasSubstr("lost its role while it waited"));
  EXPECT_EQ(server->engine().usage().waiters, 0u);
  EXPECT_TRUE(eventually([&] { return stream.is_closed_within(1); }));
  EXPECT_THAT(kept_stream.receive_until("id: 3\n"), HasSubstr("id: 3\n")) << "goes on";
}

// More than the server reads behind a request that waits, so that the end lies behind it.
TEST_F(HttpBounds, PlaceOfAClientThatLeavesMuchBehindItsWait) {
  serve("bounds: { slow: 1s, wait: 1h }\n");
  take_slot();
  std::string much;
  while (much.size() < 200'000) much += get("/healthz");
  HttpClient client(address());
  client.send(post("/v1/acquire", R"({"attributes":{"worker":"w"},"wait":"800s"})"));
  ASSERT_TRUE(someone_waits());
  client.send(much, false);
  std::this_thread::sleep_for(50ms);
  client.leave();
  EXPECT_TRUE(eventually([&] { return server->engine().usage().waiters == 0; }));
}

}  // namespace
}  // namespace weir::server
