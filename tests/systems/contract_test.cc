// Contracts with the real program, statement by statement against the source document: the two
// published documents, the account as a service, as a guard, as a limit, and as one who follows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/systems/support.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using server::HttpAnswer;
using ::testing::HasSubstr;

// As the source document prints it, the user apart.
constexpr std::string_view kSourceContract = R"({
  "data" : [ {
    "@id" : "https://services.sentinel-hub.com/aux/ratelimit//contract/1547",
    "id" : 1547,
    "policies" : [
      { "capacity" : 1000, "samplingPeriod" : "PT1M",
        "nanosBetweenRefills" : 60000000, "niceSamplindPeriod" : "1 minute" },
      { "capacity" : 400000, "samplingPeriod" : "PT744H",
        "nanosBetweenRefills" : 6696000000, "niceSamplindPeriod" : "31 days" } ],
    "usageNotificationExtra" : { },
    "userId" : "u1",
    "type" : { "name" : "PROCESSING_UNITS", "suffix" : "PU", "defaultPolicies" : [
      { "capacity" : 30000, "samplingPeriod" : "PT744H",
        "nanosBetweenRefills" : 89280000000, "niceSamplindPeriod" : "31 days" },
      { "capacity" : 300, "samplingPeriod" : "PT1M",
        "nanosBetweenRefills" : 200000000, "niceSamplindPeriod" : "1 minute" } ] }
  }, {
    "@id" : "https://services.sentinel-hub.com/aux/ratelimit//contract/364",
    "id" : 364,
    "policies" : [ { "capacity" : 1000, "samplingPeriod" : "PT1M",
                     "nanosBetweenRefills" : 60000000, "niceSamplindPeriod" : "1 minute" } ],
    "usageNotificationExtra" : { },
    "userId" : "u1",
    "type" : { "name" : "REQUESTS", "suffix" : "", "defaultPolicies" : [
      { "capacity" : 30000, "samplingPeriod" : "PT744H",
        "nanosBetweenRefills" : 89280000000, "niceSamplindPeriod" : "31 days" },
      { "capacity" : 300, "samplingPeriod" : "PT1M",
        "nanosBetweenRefills" : 200000000, "niceSamplindPeriod" : "1 minute" } ] }
  } ],
  "links" : { "currentToken" : "0" }
})";

struct ContractProgram : ::testing::Test {
  // One account `acme` of user u1, and what comes after it in the file.
  void begin(const std::string& account, const std::string& more = "") {
    weir.configure("contracts: [ { name: acme, user_id: u1, " + account + " } ]\n" + more);
    weir.start();
  }
  void begin_with_source(const std::string& options) {
    std::ofstream(weir.path("contracts.json")) << kSourceContract;
    begin("file: '" + weir.path("contracts.json") + "'" + options);
  }
  HttpAnswer ask(std::string_view call, std::string_view body) const {
    return weir.post("/v1/contract/acme/" + std::string(call), body);
  }
  boost::json::object account() const { return json(weir.get("/v1/contract/acme")).as_object(); }
  static std::int64_t whole(const HttpAnswer& answer, std::string_view member) {
    return json(answer).at(member).as_int64();
  }

  Weir weir;
};

// "tokenCounts … Returns", "contract … returns"
TEST_F(ContractProgram, PublishesBothDocumentsAsTheServiceDoes) {
  begin_with_source(", role: service");
  EXPECT_EQ(weir.get("/aux/ratelimit/statistics/tokenCounts/u1").body,
            R"({"data":{"REQUESTS":{"PT1M":1000.0},)"
            R"("PROCESSING_UNITS":{"PT1M":1000.0,"PT744H":400000.0}}})");
  boost::json::value source = boost::json::parse(kSourceContract);
  boost::json::value given = json(weir.get("/aux/ratelimit/contract?userId=eq%3Au1"));
  // The display key is spelt in the other way, and is for people.
  const auto without_display = [](auto& self, boost::json::value& value) -> void {
    if (auto* list = value.if_array()) {
      for (boost::json::value& each : *list) self(self, each);
    } else if (auto* object = value.if_object()) {
      object->erase("niceSamplindPeriod");
      object->erase("niceSamplingPeriod");
      for (auto& member : *object) self(self, member.value());
    }
  };
  without_display(without_display, source);
  without_display(without_display, given);
  EXPECT_EQ(given, source);
  const boost::json::value types = json(weir.get("/aux/ratelimit/contract/types"));
  ASSERT_EQ(types.at("data").as_array().size(), 2u);
  EXPECT_EQ(types.at("data").at(0).at("defaultPolicies").at(1).at("capacity"), 300);
}

// "All of the limits are checked; request is rejected with 429 if any of them are breached."
TEST_F(ContractProgram, RefusesWith429IfAnyLimitIsBreachedAndThenTakesNothing) {
  begin(
      "role: service, policies: [ { type: REQUESTS, capacity: 5, period: PT1H }, "
      "{ type: PROCESSING_UNITS, capacity: 100, period: PT1H } ]");
  ASSERT_EQ(ask("consume", R"({"processing_units":90})").status, 200);
  const HttpAnswer refused = ask("consume", R"({"processing_units":20})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(json(refused).at("error").at("code"), "RATE_LIMIT_EXCEEDED");
  // 10 units take 6 minutes; the header is in milliseconds, rounded up.
  const int wait_ms = std::atoi(refused.field("Retry-After").c_str());
  EXPECT_LE(wait_ms, 360'000);
  EXPECT_GT(wait_ms, 330'000);
  EXPECT_EQ(ask("consume", R"({"processing_units":10})").status, 200) << "nothing was taken";
  EXPECT_EQ(json(ask("consume", R"({"processing_units":101})")).at("error").at("code"),
            "RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY");
}

// "all bucket values are decremented … if all bucket values are above or equal to 0, delay = 0 is
// returned … otherwise max(delays)"; "values in the bucket can be negative"
TEST_F(ContractProgram, AnswersByThePublishedRuleWhereThatIsAskedFor) {
  begin(
      "rule: published, policies: [ { type: REQUESTS, capacity: 5, period: PT10S }, "
      "{ type: PROCESSING_UNITS, capacity: 100, period: PT1000S } ]");
  EXPECT_EQ(whole(ask("reserve", R"({"processing_units":60})"), "delay_ms"), 0);
  // 20 units too many, of which one refills in 10 s.
  const std::int64_t delay_ms = whole(ask("reserve", R"({"processing_units":60})"), "delay_ms");
  EXPECT_LE(delay_ms, 200'000);
  EXPECT_GT(delay_ms, 190'000);
  const double left = json(weir.get("/aux/ratelimit/statistics/tokenCounts/u1"))
                          .at("data")
                          .at("PROCESSING_UNITS")
                          .at("PT16M40S")
                          .to_number<double>();
  EXPECT_GE(left, -20);
  EXPECT_LT(left, -19);
}

// "a worker would get a delayed permission based on one bucket. Because of delay, another bucket …
// could reach zero at the time of the actual request": not here.
TEST_F(ContractProgram, GivesStartsThatLeaveEveryBucketEnough) {
  begin(
      "jitter: 0s, policies: [ { type: REQUESTS, capacity: 5, period: PT10S }, "
      "{ type: PROCESSING_UNITS, capacity: 100, period: PT10S } ]");
  std::vector<std::int64_t> starts;
  for (const int units : {100, 100, 0, 0, 0, 0, 0}) {
    const HttpAnswer reserved =
        ask("reserve", R"({"processing_units":)" + std::to_string(units) + "}");
    ASSERT_EQ(reserved.status, 200);
    starts.push_back(whole(reserved, "start_ns"));
  }
  EXPECT_EQ(starts[1] - starts[0], 10'000'000'000);
  for (int i = 2; i < 6; ++i) EXPECT_EQ(starts[static_cast<std::size_t>(i)], starts[1]);
  EXPECT_EQ(starts[6] - starts[1], 2'000'000'000);
}

// "the workers have requested capacity they haven't used": given back here.
TEST_F(ContractProgram, GivesBackWhatWasNotUsed) {
  begin("jitter: 0s, policies: [ { type: PROCESSING_UNITS, capacity: 100, period: PT1H } ]");
  const std::string first =
      json(ask("reserve", R"({"processing_units":100})")).at("reservation").as_string().c_str();
  EXPECT_EQ(ask("reserve", R"({"processing_units":60,"max_delay":"1s"})").status, 429);
  ASSERT_EQ(ask("release", R"({"reservation":")" + first + R"("})").status, 200);
  EXPECT_EQ(whole(ask("reserve", R"({"processing_units":60,"max_delay":"1s"})"), "delay_ms"), 0);
}

// A limit beside others: who waits or books has a place among those who reserve.
TEST_F(ContractProgram, LetsNobodyStarveWhoWaitsWhileOthersReserve) {
  begin("policies: [ { type: REQUESTS, capacity: 10, period: PT1S } ]",
        "limits: [ { name: provider, contract: acme } ]\n");
  std::atomic<bool> is_over{false};
  std::vector<std::thread> others;
  for (int i = 0; i < 5; ++i) {
    others.emplace_back([&] {
      server::HttpClient client(weir.http_address());
      while (!is_over) {
        const HttpAnswer reserved = client.ask(server::post("/v1/contract/acme/reserve", "{}"));
        if (reserved.status != 200) return;
        std::this_thread::sleep_for(std::chrono::nanoseconds{whole(reserved, "delay_ns")});
      }
    });
  }
  std::this_thread::sleep_for(1s);
  server::HttpClient client(weir.http_address());
  for (const char* how :
       {R"({"wait":"10s"})", R"({"wait":"10s","costs":{"requests":10}})",
        R"({"book_within":"10s"})", R"({"book_within":"10s","costs":{"requests":10}})"}) {
    const HttpAnswer answer = client.ask(server::post("/v1/acquire", how));
    EXPECT_EQ(answer.status, 200) << how << answer.body;
  }
  is_over = true;
  for (std::thread& other : others) other.join();
}

// A capacity of one, under the default jitter.
TEST_F(ContractProgram, GrantsTheWholeCapacityOfAFullAccountAtOnce) {
  begin("policies: [ { type: REQUESTS, capacity: 1, period: PT1S } ]",
        "limits: [ { name: provider, contract: acme } ]\n");
  EXPECT_EQ(account().at("policies").at(0).at("left"), 1);
  EXPECT_EQ(weir.post("/v1/acquire", "{}").status, 200);
  const HttpAnswer denied = weir.post("/v1/acquire", "{}");
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(weir.post("/v1/acquire", R"({"wait":"3s"})").status, 200);
}

// "These limits are fetched at start time": from a service as small as a test writes it.
TEST_F(ContractProgram, FollowsAServiceThatSaysAsLittleAsItMay) {
  ::setenv("no_proxy", "*", 1);  // a proxy of the environment does not reach loopback
  Process service({"/usr/bin/python3",
                   std::string(WEIR_SOURCE_DIR) + "/tests/systems/contract_service.py", "0"});
  ASSERT_TRUE(eventually([&] { return service.printed().find('\n') != std::string::npos; }))
      << service.said();
  std::istringstream first(service.printed());
  std::string word;
  int port = 0;
  first >> word >> port;
  const std::string url = "http://127.0.0.1:" + std::to_string(port);
  weir.configure("contracts: [ { name: acme, sync: { url: '" + url + "', token_url: '" + url +
                 "/oauth/token', client_id: weir, client_secret: secret, refresh: 1s } } ]\n");
  weir.start();
  ASSERT_TRUE(eventually([&] { return account().at("policies").as_array().size() == 1; }));
  const boost::json::object shown = account();
  EXPECT_EQ(shown.at("policies").at(0).at("policy"), "RQ_10_PT2S");
  EXPECT_TRUE(shown.at("sync").at("error").is_null());
  EXPECT_EQ(shown.at("sync").at("left_out"), boost::json::array{"DATA_TRANSFER"});
  EXPECT_THAT(weir.get("/metrics").body, HasSubstr(R"(weir_sync_left_out{account="acme"} 1)"));
  const HttpAnswer published = weir.get("/aux/ratelimit/contract?userId=eq:acme");
  EXPECT_EQ(json(published).at("data").at(0).at("id"), 364);
  // A worker that starts when it is told is not refused.
  server::HttpClient guard(weir.http_address());
  server::HttpClient work("127.0.0.1:" + std::to_string(port));
  for (int i = 0; i < 25; ++i) {
    const HttpAnswer reserved = guard.ask(server::post("/v1/contract/acme/reserve", "{}"));
    ASSERT_EQ(reserved.status, 200) << reserved.body;
    std::this_thread::sleep_for(std::chrono::nanoseconds{whole(reserved, "delay_ns")});
    EXPECT_EQ(work.ask(server::post("/work", "")).status, 200) << i;
    const std::string id = json(reserved).at("reservation").as_string().c_str();
    guard.ask(server::post("/v1/contract/acme/commit", R"({"reservation":")" + id + R"("})"));
  }
}

// Equal tiles of a batch are one line; what has no size is a mistake.
TEST_F(ContractProgram, WorksOutProcessingUnitsOfManyEqualTiles) {
  begin("policies: [ { type: REQUESTS, capacity: 1, period: PT1S } ]");
  const HttpAnswer batch = weir.post("/v1/contract/processing-units",
                                     R"({"api":"batch","bands":["B01","B02","B03"],)"
                                     R"("tiles":[{"width":512,"height":512,"count":20000}]})");
  EXPECT_EQ(batch.status, 200) << batch.body;
  EXPECT_EQ(json(batch).at("processing_units"), "20000/3");
  for (const char* tile : {R"({"width":0,"height":100})", R"({"width":100})"}) {
    EXPECT_EQ(weir.post("/v1/contract/processing-units",
                        R"({"bands":["B"],"tiles":[)" + std::string(tile) + "]}")
                  .status,
              400);
  }
}

}  // namespace
}  // namespace weir
