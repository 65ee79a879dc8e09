// Throttles over sockets: an ordinary acquire, the routes of their own, reload, metrics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/store/sqlite/database.h"
#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/throttle_routes.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// One call in 1,000 seconds, so that nothing comes back while a test runs.
std::string calls(int at_once) {
  return R"({"buckets":[{"name":"Calls","burstPeriod":)" + std::to_string(at_once * 1000) +
         R"(,"throttleGroups":[{"milliOpsPerSec":1,"operations":["ContractCall"]}]}]})";
}

constexpr std::string_view kLimits =
    "limits: [ { name: per-client, per: [client], window: { limit: 3, every: 10000d } } ]\n";

struct ThrottleServer : HttpTest {
  void begin(const std::string& rest = "", std::string_view limits = kLimits) {
    define(calls(2));
    start(settings(rest), limits);
  }
  std::string settings(const std::string& rest = "") const {
    return "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\nthrottles: { file: '" + file() + "'" +
           rest + " }\n";
  }
  std::string file() const { return dir / "throttles.json"; }
  void define(const std::string& text) const { std::ofstream(file()) << text; }

  std::string resp(const std::string& command) {
    return Client(server->addresses()[0]).ask_until(command + "\r\nPING\r\n", "+PONG\r\n");
  }
  HttpAnswer http(std::string_view request) {
    return HttpClient(server->addresses()[1]).ask(request);
  }
  HttpAnswer acquire(std::string_view body) { return http(post("/v1/acquire", body)); }
  static std::string claim_of(const HttpAnswer& answer) {
    EXPECT_THAT(answer.body, HasSubstr(R"("status":"OK")"));
    const std::size_t at = answer.body.find(R"("claim":)") + 8;
    return answer.body.substr(at, answer.body.find('}', at) - at);
  }
  // The level after the last decision: read at an instant before it, nothing has leaked.
  std::int64_t used() {
    return in_force<wire::http::ThrottlePart>(*server)
        ->reading(Instant{0})
        .front_end.buckets.at(0)
        .used;
  }
};

constexpr std::string_view kCall =
    R"({"attributes":{"client":"a","operation":"ContractCall"},"costs":{"gas":50}})";

TEST_F(ThrottleServer, ThrottlesAnOrdinaryAcquireOverResp) {
  begin();
  const std::string call = "WEIR.ACQUIRE client=a operation=ContractCall COST gas=50";
  EXPECT_THAT(resp(call), HasSubstr("allowed"));
  EXPECT_THAT(resp(call), HasSubstr("allowed"));
  EXPECT_THAT(resp(call), HasSubstr("denied"));
  EXPECT_THAT(resp("WEIR.INSPECT per-client client=a"), HasSubstr(":1\r\n"))
      << "the refused one was not charged at the other limit";
}

TEST_F(ThrottleServer, ThrottlesAnOrdinaryAcquireOverHttp) {
  begin();
  EXPECT_EQ(acquire(kCall).status, 200);
  EXPECT_EQ(acquire(kCall).status, 200);
  const HttpAnswer refused = acquire(kCall);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"("limit":"throttles")"));
  EXPECT_THAT(http(get("/v1/meters?limit=per-client&key=a")).body, HasSubstr(R"("remaining":1,)"));
}

TEST_F(ThrottleServer, ClaimsNothingWhenAnotherLimitRefuses) {
  begin();
  const HttpAnswer refused =
      acquire(R"({"attributes":{"client":"a","operation":"ContractCall"},"costs":{"requests":4}})");
  EXPECT_EQ(refused.status, 422);
  for (int i = 0; i < 3; ++i) acquire(R"({"attributes":{"client":"b"}})");
  EXPECT_EQ(acquire(R"({"attributes":{"client":"b","operation":"ContractCall"}})").status, 429);
  EXPECT_EQ(used(), 0);
}

TEST_F(ThrottleServer, LetsARequestWithoutAnOperationPass) {
  begin();
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer answer = acquire(R"({"attributes":{"client":"a"}})");
    EXPECT_EQ(answer.status, 200);
    EXPECT_THAT(answer.body, Not(HasSubstr("throttles")));
    EXPECT_THAT(answer.head, Not(HasSubstr("throttles")));
  }
  EXPECT_EQ(used(), 0);
}

TEST_F(ThrottleServer, NeverPassesAnOperationThatNoBucketLists) {
  begin();
  const HttpAnswer answer = acquire(R"({"attributes":{"client":"a","operation":"Juggle"}})");
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr(R"("verdict":"never","limit":"throttles")"));
}

TEST_F(ThrottleServer, CountsGasOnceAGasLimitIsWritten) {
  begin(", contracts.frontendThrottleMaxGasLimit: 100");
  EXPECT_EQ(
      acquire(R"({"attributes":{"client":"a","operation":"ContractCall"},"costs":{"gas":101}})")
          .status,
      422);
  EXPECT_EQ(acquire(kCall).status, 200);
}

TEST_F(ThrottleServer, GivesAHoldBackWhenItIsCancelled) {
  begin();
  const HttpAnswer held =
      acquire(R"({"attributes":{"client":"a","operation":"ContractCall"},"hold":"60s"})");
  const std::size_t at = held.body.find(R"("hold":")") + 8;
  const std::string hold = held.body.substr(at, held.body.find('"', at) - at);
  EXPECT_GT(used(), 0);
  EXPECT_EQ(http(post("/v1/cancel", R"({"hold":")" + hold + R"("})")).status, 200);
  EXPECT_EQ(used(), 0);
}

TEST_F(ThrottleServer, SubmitsSettlesAndCancels) {
  begin();
  const std::string call = post("/v1/throttle/submit", R"({"operation":"ContractCall","gas":9})");
  const std::string first = claim_of(http(call));
  const std::string second = claim_of(http(call));
  EXPECT_EQ(http(call).status, 429);
  EXPECT_EQ(http(post("/v1/throttle/settle", R"({"claim":)" + first + R"(,"gas":5})")).status, 200);
  EXPECT_EQ(http(call).status, 429) << "settling gives no operation back";
  EXPECT_EQ(http(post("/v1/throttle/cancel", R"({"claim":)" + second + "}")).status, 200);
  EXPECT_EQ(http(call).status, 200);
  EXPECT_EQ(acquire(kCall).status, 429) << "both ways share the buckets of the front end";
}

TEST_F(ThrottleServer, SavesAndBringsBackLevels) {
  begin();
  const std::string submit =
      post("/v1/throttle/submit",
           R"({"operation":"ContractCall","role":"consensus","at_ns":1700000000000000000})");
  EXPECT_EQ(http(submit).status, 200);
  const std::string saved = http(get("/v1/throttle/snapshot")).body;
  const std::string published = http(get("/v1/throttle/snapshot?form=positional")).body;
  EXPECT_EQ(http(submit).status, 200);
  EXPECT_EQ(http(submit).status, 429);
  EXPECT_EQ(http(with_body("PUT", "/v1/throttle/snapshot", saved)).status, 200);
  EXPECT_EQ(http(submit).status, 200);
  EXPECT_EQ(http(submit).status, 429);
  EXPECT_EQ(http(with_body("PUT", "/v1/throttle/snapshot?form=positional", published)).status, 200);
  EXPECT_EQ(http(submit).status, 200);
}

TEST_F(ThrottleServer, DecidesForConsensusForTheTokenThatMay) {
  begin("",
        "auth: [ { token: a, role: admin }, { token: d, role: decide },\n"
        "        { token: c, role: decide, consensus: true } ]\n" +
            std::string(kLimits));
  const auto submits = [&](std::string_view token) {
    std::string call =
        post("/v1/throttle/submit",
             R"({"operation":"ContractCall","role":"consensus","at_ns":1700000000000000000})");
    call.insert(call.find("\r\n") + 2, "Authorization: Bearer " + std::string(token) + "\r\n");
    return http(call).status;
  };
  EXPECT_EQ(submits("d"), 403);
  EXPECT_EQ(submits("c"), 200);
  EXPECT_EQ(submits("a"), 200);
  EXPECT_EQ(submits("b"), 401);
}

TEST_F(ThrottleServer, TakesUploadedDefinitionsWholeOrNotAtAll) {
  begin();
  acquire(kCall);
  const std::int64_t before = used();
  const HttpAnswer wrong = http(with_body("PUT", "/v1/throttle/definitions", "{\"buckets\":5}"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("body:1:12: UNPARSEABLE_THROTTLE_DEFINITIONS"));
  EXPECT_EQ(used(), before);
  EXPECT_EQ(http(with_body("PUT", "/v1/throttle/definitions", calls(3))).status, 200);
  EXPECT_EQ(used(), 0);
}

TEST_F(ThrottleServer, KeepsItsDefinitionsWhenItIsSentNonsense) {
  begin("", "bounds: { request_bytes: 2000000 }\n" + std::string(kLimits));
  acquire(kCall);
  const std::int64_t before = used();
  const auto levels = [&] {
    return in_force<wire::http::ThrottlePart>(*server)->snapshot(
        system::throttle::SetRole::kFrontEnd);
  };
  const std::string snapshot = levels();
  // As much as is read: not JSON, or no end of it.
  for (std::string nonsense : {"x", "[", R"({"buckets":[{"name":")"}) {
    nonsense.resize(1 << 20, nonsense[0] == '{' ? 'x' : nonsense[0]);
    const HttpAnswer answer = http(with_body("PUT", "/v1/throttle/definitions", nonsense));
    EXPECT_EQ(answer.status, 400);
    EXPECT_THAT(answer.body, HasSubstr("body:1:"));
    EXPECT_THAT(answer.body, HasSubstr("UNPARSEABLE_THROTTLE_DEFINITIONS"));
  }
  // Ten times that: refused by its length, whether it says it or not.
  HttpClient announced(server->addresses()[1]);
  announced.send(
      "PUT /v1/throttle/definitions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nContent-Length: 10485760\r\n\r\nxxx");
  const HttpAnswer refused = announced.read();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("urn:weir:"));
  HttpClient chunked(server->addresses()[1]);
  chunked.send(
      "PUT /v1/throttle/definitions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
      false);
  const std::string piece = "100000\r\n" + std::string(1 << 20, 'x') + "\r\n";
  for (int i = 0; i < 10 && chunked.send(piece, false); ++i) {
  }
  EXPECT_EQ(used(), before);
  EXPECT_EQ(levels(), snapshot);
  EXPECT_EQ(acquire(kCall).status, 200);
}

// --- reload

TEST_F(ThrottleServer, KeepsLevelsAndHoldsWhenAReloadChangesNothing) {
  begin();
  const auto running = in_force<wire::http::ThrottlePart>(*server);
  const std::string held =
      acquire(R"({"attributes":{"client":"a","operation":"ContractCall"},"hold":"60s"})").body;
  const std::size_t at = held.find(R"("hold":")") + 8;
  const std::string hold = held.substr(at, held.find('"', at) - at);
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(in_force<wire::http::ThrottlePart>(*server), running);
  EXPECT_GT(used(), 0);
  EXPECT_EQ(http(post("/v1/cancel", R"({"hold":")" + hold + R"("})")).status, 200);
  EXPECT_EQ(used(), 0);
}

TEST_F(ThrottleServer, TakesChangedDefinitionsOnReload) {
  begin();
  acquire(kCall);
  const auto running = in_force<wire::http::ThrottlePart>(*server);
  define(calls(1));
  EXPECT_EQ(resp("WEIR.RELOAD"), "+OK\r\n+PONG\r\n");
  EXPECT_EQ(in_force<wire::http::ThrottlePart>(*server), running);
  EXPECT_EQ(used(), 0);
  EXPECT_EQ(acquire(kCall).status, 200);
  EXPECT_EQ(acquire(kCall).status, 429);
}

TEST_F(ThrottleServer, KeepsEverythingWhenReloadedDefinitionsAreWrong) {
  begin();
  acquire(kCall);
  const std::int64_t before = used();
  define("{\"buckets\":[\n  5]}");
  const HttpAnswer answer = http(post("/v1/reload", ""));
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr("throttles.json:2:3: UNPARSEABLE_THROTTLE_DEFINITIONS"));
  EXPECT_EQ(used(), before);
  EXPECT_EQ(acquire(kCall).status, 200);
  EXPECT_EQ(acquire(kCall).status, 429);
}

TEST_F(ThrottleServer, KeepsAnUploadWhenTheFileHasNotChanged) {
  begin();
  EXPECT_EQ(http(with_body("PUT", "/v1/throttle/definitions", calls(1))).status, 200);
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(acquire(kCall).status, 200);
  EXPECT_EQ(acquire(kCall).status, 429);
}

TEST_F(ThrottleServer, ComesAndGoesWithItsSection) {
  begin();
  write("listen: { resp: 127.0.0.1:0 }\nattributes: [operation]\n" + std::string(kLimits));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(http(get("/v1/throttle")).status, 404);
  EXPECT_EQ(acquire(R"({"attributes":{"client":"a","operation":"Juggle"}})").status, 200);
  EXPECT_THAT(http(get("/metrics")).body, Not(HasSubstr("weir_throttle_bucket")));
  write(settings() + std::string(kLimits));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(http(get("/v1/throttle")).status, 200);
  EXPECT_EQ(acquire(R"({"attributes":{"client":"a","operation":"Juggle"}})").status, 422);
}

TEST_F(ThrottleServer, TakesTheOtherKeysOfItsSectionOnReload) {
  begin();
  acquire(kCall);
  const std::int64_t before = used();
  write(settings(", front_end_gas: 60") + std::string(kLimits));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(used(), before);
  EXPECT_EQ(acquire(kCall).status, 200);
  // It leaks one unit in 17 ms, so its level is read at an instant before it was used.
  EXPECT_EQ(in_force<wire::http::ThrottlePart>(*server)->reading(Instant{0}).front_end.gas.used,
            50);
  EXPECT_THAT(http(get("/v1/throttle")).body, HasSubstr(R"("capacity":60,)"));
  write(settings(", nodes: 2") + std::string(kLimits));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_THAT(http(get("/v1/throttle")).body, HasSubstr(R"({"nodes":2,)"));
}

TEST_F(ThrottleServer, KeepsItsLevelsOverARestart) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  define(calls(2));
  start(settings() + state, kLimits);
  EXPECT_EQ(acquire(kCall).status, 200);
  EXPECT_EQ(acquire(kCall).status, 200);
  const std::string saved = http(get("/v1/throttle/snapshot?role=front_end")).body;
  ASSERT_TRUE(server->stop(std::chrono::seconds{0}));
  server.reset();
  start(settings() + state, kLimits);
  EXPECT_EQ(http(get("/v1/throttle/snapshot?role=front_end")).body, saved);
  EXPECT_EQ(acquire(kCall).status, 429);
}

TEST_F(ThrottleServer, KeepsTheShareOfLevelsOverARestartWithSmallerLimits) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  define(calls(2));
  const auto gas = [&] {
    return in_force<wire::http::ThrottlePart>(*server)->reading(Instant{0}).front_end.gas.used;
  };
  start(settings(", front_end_gas: 1000, consensus_gas: 1000, excess_bytes: 10") + state, kLimits);
  EXPECT_EQ(
      acquire(R"({"attributes":{"client":"a","operation":"ContractCall"},"costs":{"gas":900}})")
          .status,
      200);
  EXPECT_EQ(gas(), 900);
  ASSERT_TRUE(server->stop(std::chrono::seconds{0}));
  server.reset();
  start(settings(", front_end_gas: 501, consensus_gas: 1, excess_bytes: 1") + state, kLimits);
  EXPECT_EQ(gas(), 451) << "of 501, as 900 of 1000: 450.9, rounded up";
  EXPECT_EQ(http(get("/readyz")).body, "ready\n");
}

TEST_F(ThrottleServer, StartsWithoutAPartOfItsStateThatCannotBeUsed) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  define(calls(2));
  start(settings() + state, kLimits);
  EXPECT_EQ(acquire(kCall).status, 200);
  ASSERT_TRUE(server->stop(std::chrono::seconds{0}));
  server.reset();
  {
    auto database = store::sqlite::Database::open(dir / "state" / "meters.db");
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(
        database->run("UPDATE facts SET blob = x'00' WHERE name = 'part:throttle/front_end'"));
  }
  std::mutex lock;
  std::vector<std::string> told;
  auto config = config::load(path());
  ASSERT_TRUE(config.ok());
  auto started =
      Server::start(std::move(*config), clock, StartEmpty::kNo, [&](const LogLine& line) {
        const std::scoped_lock locked(lock);
        if (line.event == "part-unusable") {
          for (const LogField& field : line.fields) told.push_back(field.value);
        }
      });
  ASSERT_TRUE(started.ok()) << started.error().message;
  server = std::move(*started);
  EXPECT_EQ(used(), 0);
  EXPECT_THAT(http(get("/v1/meters?limit=per-client&key=a")).body, HasSubstr(R"("remaining":2,)"))
      << "the rest of the file is used";
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0], "throttle/front_end");
  EXPECT_EQ(told[2], "bad-1:throttle/front_end");
  EXPECT_EQ(http(get("/readyz")).body,
            "ready\nthrottle/front_end: what was kept could not be used; it began empty, or as "
            "configured\n");
  EXPECT_EQ(acquire(kCall).status, 200);
  ASSERT_TRUE(server->stop(std::chrono::seconds{0}));
  server.reset();
  {
    auto database = store::sqlite::Database::open(dir / "state" / "meters.db");
    ASSERT_TRUE(database.ok());
    EXPECT_EQ(*database->integer("SELECT count(*) FROM facts WHERE blob = x'00' "
                                 "AND name = 'bad-1:throttle/front_end'"),
              1);
  }
  start(settings() + state, kLimits);
  EXPECT_GT(used(), 0) << "what was written since is sound";
  EXPECT_EQ(http(get("/readyz")).body, "ready\n");
}

// --- waiting

TEST_F(ThrottleServer, LetsWaitersInWhenItsOwnRoutesMakeRoom) {
  const std::string patient =
      post("/v1/acquire", R"({"attributes":{"operation":"ContractCall"},"wait":"3000s"})");
  const std::string submit = post("/v1/throttle/submit", R"({"operation":"ContractCall"})");
  begin("", "bounds: { wait: 3000s }\n" + std::string(kLimits));
  const std::string claim = claim_of(http(submit));
  const auto lets_in = [&](const std::string& request) {
    while (http(submit).status == 200) {
    }
    HttpClient waiting(server->addresses()[1]);
    waiting.send(patient);
    ASSERT_TRUE(someone_waits());
    EXPECT_EQ(http(request).status, 200) << request;
    EXPECT_THAT(waiting.read().body, HasSubstr(R"("verdict":"allowed")")) << request;
  };
  lets_in(post("/v1/throttle/cancel", R"({"claim":)" + claim + "}"));
  lets_in(with_body("PUT", "/v1/throttle/definitions", calls(3)));
  define(calls(4));
  lets_in(post("/v1/reload", ""));
}

// --- metrics

TEST_F(ThrottleServer, ShowsItsBucketsAsMetrics) {
  define(R"({"buckets":[
    {"name":"A","burstPeriod":1,"throttleGroups":[{"opsPerSec":1,"operations":["X"]}]},
    {"name":"A","burstPeriod":1,"throttleGroups":[{"opsPerSec":1,"operations":["X"]}],
     "highVolume":true}]})");
  start(settings(), kLimits);
  const std::string text = http(get("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("weir_throttle_bucket_used{role=\"front_end\",bucket=\"A\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("weir_throttle_bucket_capacity{role=\"front_end\",bucket=\"A#2\"} "));
  EXPECT_THAT(text, HasSubstr("weir_throttle_bucket_capacity{role=\"consensus\",bucket=\"gas\"} "
                              "15000000\n"));
  EXPECT_THAT(text, HasSubstr("weir_throttle_multiplier{of=\"generic\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_throttle_refusals_total{role=\"front_end\",bucket=\"A\"} 0\n"));
  acquire(R"({"attributes":{"operation":"Juggle"}})");
  EXPECT_THAT(http(get("/metrics")).body,
              HasSubstr("weir_throttle_objections_total{role=\"front_end\",why=\"unlisted\"} 1\n"));
}

}  // namespace
}  // namespace weir::server
