// HTTP over sockets: connections, order, waiting, roles, streams.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <thread>

#include "tests/server/http_client.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(HttpTest, AnswersOverEveryKindOfSocket) {
  start("listen: { http: [127.0.0.1:0, '[::1]:0', 'unix:" + (dir / "socket").string() + "'] }\n");
  ASSERT_EQ(server->addresses().size(), 3u);
  for (const std::string& where : server->addresses()) {
    EXPECT_EQ(HttpClient(where).ask(get("/healthz")).body, "ok\n") << where;
  }
}

TEST_F(HttpTest, AnswersADecisionWithHeadersAndABody) {
  serve();
  const HttpAnswer answer = ask(post("/v1/acquire", kAcme));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("Content-Type"), "application/json");
  EXPECT_THAT(answer.field("RateLimit"), StartsWith(R"("per-client";r=999999;t=)"));
  EXPECT_EQ(answer.field("Connection"), "(missing)");
  EXPECT_THAT(answer.field("Date"), ::testing::EndsWith(" GMT"));
  EXPECT_THAT(answer.body, HasSubstr(R"("verdict":"allowed")"));
}

TEST_F(HttpTest, UsesTheStyleOfHeadersThatIsSet) {
  serve("headers: x-ratelimit\n");
  const HttpAnswer answer = ask(post("/v1/acquire", kAcme));
  EXPECT_EQ(answer.field("X-RateLimit-Remaining"), "999999");
  EXPECT_EQ(answer.field("RateLimit"), "(missing)");
}

// Every route, on one connection. Those that change much come last.
TEST_F(HttpTest, AnswersEveryRoute) {
  serve();
  HttpClient client(address());
  struct Row {
    std::string_view route;
    std::string request;
    int status;
  };
  const std::string hold = take_slot();
  const std::string held = R"({"hold":")" + hold + R"("})";
  const std::vector<Row> rows = {
      {"acquire", post("/v1/acquire", kAcme), 200},
      {"batch", post("/v1/batch", R"({"requests":[{"attributes":{"client":"b"}},{}]})"), 200},
      {"peek", post("/v1/peek", kAcme), 200},
      {"authorize", get("/v1/authorize", "Weir-Attribute-Client: acme\r\n"), 200},
      {"renew", post("/v1/renew", R"({"hold":")" + hold + R"(","ttl":"9s"})"), 200},
      {"settle", post("/v1/settle", held), 200},
      {"cancel", post("/v1/cancel", held), 409},
      {"limits", get("/v1/limits"), 200},
      {"meters", get("/v1/meters?limit=per-client&key=acme"), 200},
      {"set_override",
       with_body("PUT", "/v1/overrides/per-client?key=acme",
                 R"({"kind":"window","limit":5,"every":"10000d"})"),
       200},
      {"clear_override", with_body("DELETE", "/v1/overrides/per-client?key=acme", ""), 200},
      {"reset", post("/v1/reset", R"({"limit":"per-client","key":["acme"]})"), 200},
      {"contract_processing_units", post("/v1/contract/processing-units", "{}"), 400},
      {"reload", post("/v1/reload", ""), 200},
      {"metrics", get("/metrics"), 200},
      {"healthz", get("/healthz"), 200},
      {"readyz", get("/readyz"), 200},
      {"openapi", get("/openapi.json"), 200},
      {"events", get("/v1/events"), 200},
  };
  for (const Row& row : rows) {
    const HttpAnswer answer = client.ask(row.request);
    EXPECT_EQ(answer.status, row.status) << row.route << ": " << answer.body;
  }
  // The others are of systems, of which none is configured. The first client has a stream now.
  HttpClient others(address());
  const boost::json::value described = boost::json::parse(others.ask(get("/openapi.json")).body);
  std::size_t count = 0;
  for (const auto& path : described.at("paths").as_object()) {
    for (const auto& operation : path.value().as_object()) {
      const std::string_view name = operation.value().at("operationId").as_string();
      if (std::any_of(rows.begin(), rows.end(),
                      [&](const Row& row) { return row.route == name; })) {
        continue;
      }
      std::string method(operation.key());
      for (char& c : method) c = static_cast<char>(c - 32);
      const HttpAnswer answer = others.ask(with_body(method, path.key(), "{}"));
      EXPECT_EQ(answer.status, 404) << name << ": " << answer.body;
      EXPECT_THAT(answer.body, HasSubstr("weir.yaml")) << name;
      count += 1;
    }
  }
  EXPECT_GT(count, 40u);
}

// --- connections

TEST_F(HttpTest, AnswersAPipelineInOrderAndInOneGo) {
  serve();
  HttpClient client(address());
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += post("/v1/acquire", R"({"attributes":{"client":"c)" + std::to_string(i % 2) + "\"}}");
  }
  client.send(many);
  for (int i = 0; i < 100; ++i) {
    const std::string left = R"("remaining":)" + std::to_string(999'999 - i / 2);
    ASSERT_THAT(client.read().body, HasSubstr(left)) << i;
  }
}

TEST_F(HttpTest, PutsTogetherWhatArrivesInPieces) {
  serve();
  for (const std::string& request :
       {post("/v1/acquire", kAcme),
        std::string(
            "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            "4\r\n{\"at\r\n1c;x=y\r\ntributes\":{\"client\":\"acme\"}}\r\n0\r\nT: x\r\n\r\n")}) {
    HttpClient client(address());
    for (const char byte : request) {
      ASSERT_TRUE(client.send(std::string_view(&byte, 1)));
      std::this_thread::sleep_for(100us);
    }
    const HttpAnswer answer = client.read();
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(client.ask(get("/healthz")).status, 200) << "the connection goes on";
  }
}

TEST_F(HttpTest, ReadsAChunkedBodyInTheMiddleOfAPipeline) {
  serve();
  HttpClient client(address());
  client.send(get("/healthz") +
              "POST /v1/acquire HTTP/1.1\r\nHost: 127.0.0.1\r\n"
              "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
              "2\r\n{}\r\n0\r\n\r\n" +
              get("/readyz"));
  EXPECT_EQ(client.read().body, "ok\n");
  EXPECT_THAT(client.read().body, HasSubstr("allowed"));
  EXPECT_EQ(client.read().body, "ready\n");
}

TEST_F(HttpTest, SaysContinueToAClientThatWaitsForIt) {
  serve();
  HttpClient client(address());
  const std::string request = post("/v1/acquire", kAcme, "Expect: 100-continue\r\n");
  const std::size_t body = request.size() - kAcme.size();
  client.send(request.substr(0, body));
  EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send(request.substr(body));
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(client.ask(request).status, 200) << "not when the body is there already";
}

TEST_F(HttpTest, ClosesWhenToldToAndSaysSo) {
  serve();
  HttpClient client(address());
  const HttpAnswer answer = client.ask(get("/healthz", "Connection: close\r\n"));
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(client.is_closed_within(kPatienceMs));
}

TEST_F(HttpTest, SpeaksToClientsOfHttp10) {
  serve();
  HttpClient once(address());
  EXPECT_EQ(once.ask("GET /healthz HTTP/1.0\r\n\r\n").body, "ok\n");
  EXPECT_TRUE(once.is_closed_within(kPatienceMs));
  HttpClient often(address());
  for (int i = 0; i < 2; ++i) {
    const HttpAnswer answer = often.ask("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(answer.field("Connection"), "keep-alive");
  }
}

TEST_F(HttpTest, SendsNoBodyWithHead) {
  serve();
  HttpClient client(address());
  client.send("HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + get("/readyz"));
  EXPECT_EQ(client.read(false).status, 200);
  EXPECT_EQ(client.read().body, "ready\n");
}

TEST_F(HttpTest, TakesTheFormOfTargetThatProxiesAreSent) {
  serve();
  EXPECT_EQ(ask(get("http://weir.example/healthz")).body, "ok\n");
}

// --- waiting

TEST_F(HttpTest, LetsOneConnectionWaitAndAnswersTheOthers) {
  serve();
  const std::string hold = take_slot();
  HttpClient waiting(address());
  HttpClient other(address());
  waiting.send(post("/v1/acquire", kPatient) + get("/healthz"));
  ASSERT_TRUE(someone_waits());
  EXPECT_EQ(other.ask(get("/healthz")).body, "ok\n");
  EXPECT_EQ(waiting.receive(1, 50), "");
  EXPECT_EQ(other.ask(post("/v1/settle", R"({"hold":")" + hold + R"("})")).status, 200);
  EXPECT_THAT(waiting.read().body, HasSubstr(R"("verdict":"allowed")"));
  EXPECT_EQ(waiting.read().body, "ok\n");
}

TEST_F(HttpTest, GivesUpThePlaceOfAClientThatLeaves) {
  serve();
  take_slot();
  {
    HttpClient waiting(address());
    waiting.send(post("/v1/acquire", kPatient));
    ASSERT_TRUE(someone_waits());
  }
  EXPECT_TRUE(eventually([&] { return server->engine().usage().waiters == 0; }));
}

TEST_F(HttpTest, AnswersWaitersAndWhatFollowsThemBeforeItStops) {
  serve();
  take_slot();
  HttpClient waiting(address());
  waiting.send(post("/v1/acquire", kPatient) + get("/readyz"));
  ASSERT_TRUE(someone_waits());
  EXPECT_TRUE(server->stop(kPatience).ok());
  const HttpAnswer first = waiting.read();
  EXPECT_EQ(first.status, 503);
  EXPECT_THAT(first.body, HasSubstr("the server is stopping"));
  const HttpAnswer second = waiting.read();
  EXPECT_EQ(second.status, 503);
  EXPECT_THAT(second.body, HasSubstr("server: it is stopping"));
  EXPECT_EQ(second.field("Connection"), "close");
  EXPECT_FALSE(Client(address()).is_connected());
}

// --- tokens

TEST_F(HttpTest, AsksForATokenWithTheRoleOfTheRoute) {
  serve(
      "auth: [ { token: looker, role: observe }, { token: asker, role: decide },\n"
      "        { token: boss, role: admin } ]\n");
  const auto status = [&](const std::string& token) {
    const std::string field = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    return std::vector{ask(get("/healthz", field)).status, ask(get("/v1/limits", field)).status,
                       ask(post("/v1/acquire", kAcme, field)).status,
                       ask(post("/v1/reload", "", field)).status};
  };
  EXPECT_EQ(status(""), (std::vector{200, 401, 401, 401}));
  EXPECT_EQ(status("wrong"), (std::vector{200, 401, 401, 401}));
  EXPECT_EQ(status("looker"), (std::vector{200, 200, 403, 403}));
  EXPECT_EQ(status("asker"), (std::vector{200, 200, 200, 403}));
  EXPECT_EQ(status("boss"), (std::vector{200, 200, 200, 200}));
  EXPECT_THAT(ask(get("/v1/limits")).field("WWW-Authenticate"), StartsWith("Bearer"));
}

TEST_F(HttpTest, FollowsTokensThatAReloadChanges) {
  serve("auth: [ { token: old, role: admin } ]\n");
  write(std::string(kListen) + "auth: [ { token: new, role: admin } ]\n" +
        std::string(kServerLimits));
  EXPECT_EQ(ask(post("/v1/reload", "", "Authorization: Bearer old\r\n")).status, 200);
  EXPECT_EQ(ask(get("/v1/limits", "Authorization: Bearer old\r\n")).status, 401);
  EXPECT_EQ(ask(get("/v1/limits", "Authorization: bearer new\r\n")).status, 200);
}

// --- reload and readiness

TEST_F(HttpTest, ReloadsItsLimitsAndKeepsWhatWasUsed) {
  serve();
  ask(post("/v1/acquire", kAcme));
  write(std::string(kListen) +
        "limits: [ { name: per-client, per: [client], window: { limit: 10, every: 10000d } } ]\n");
  EXPECT_EQ(ask(post("/v1/reload", "")).body, R"({"state":"reloaded"})");
  EXPECT_THAT(ask(get("/v1/meters?limit=per-client&key=acme")).body, HasSubstr(R"("remaining":9)"));
}

TEST_F(HttpTest, KeepsTheOldLimitsWhenTheFileHasMistakes) {
  serve();
  write("limits: [ { name: broken } ]\n");
  const HttpAnswer answer = ask(post("/v1/reload", ""));
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr("weir.yaml:1:"));
  EXPECT_EQ(ask(post("/v1/acquire", kAcme)).status, 200);
}

TEST_F(HttpTest, IsNotReadyWhileSomethingStandsInTheWay) {
  serve();
  // Not a part that the server looks after itself: it would clear the way at its next tick.
  server->readiness().obstruct("disk", "the disk is full");
  const HttpAnswer answer = ask(get("/readyz"));
  EXPECT_EQ(answer.status, 503);
  EXPECT_THAT(answer.body, HasSubstr("disk: the disk is full"));
  EXPECT_EQ(ask(get("/healthz")).status, 200);
  server->readiness().clear("disk");
  EXPECT_EQ(ask(get("/readyz")).status, 200);
}

// --- events

TEST_F(HttpTest, StreamsAnEventEverySecondUntilTheClientLeaves) {
  serve();
  HttpClient client(address());
  const auto begin = std::chrono::steady_clock::now();
  client.send(get("/v1/events"));
  const std::string head = client.receive_until("\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(head, HasSubstr("Connection: close\r\n"));
  for (const char* id : {"id: 1\n", "id: 2\n", "id: 3\n"}) {
    EXPECT_THAT(client.receive_until("\n\n"), StartsWith(id));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1900ms);
  client.leave();
  EXPECT_TRUE(eventually([&] {
    return server->metrics().find("weir_connections{protocol=\"http\"} 0\n") != std::string::npos;
  }));
}

}  // namespace
}  // namespace weir::server
