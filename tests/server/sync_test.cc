// Accounts of a server that follow a service, which is another weir: what is shown, logged
// and measured, reload, and documents that `weir sync` brings.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/system/contract/accounts.h"

namespace weir::server {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// So that nothing comes back while a test runs.
constexpr const char* kSyncedPolicies =
    "policies: [ { type: PROCESSING_UNITS, capacity: 10, period: P31D } ]";

struct SyncTest : HttpTest {
  SyncTest() { ::setenv("no_proxy", "*", 1); }
  ~SyncTest() override { service.reset(); }

  void begin_service(const std::string& settings = "") {
    auto config = config::parse(settings + kListen + "contracts: [ { name: acme, role: service, " +
                                    kSyncedPolicies + " } ]\n",
                                "service.yaml");
    ASSERT_TRUE(config) << config.error().message;
    auto started = Server::start(std::move(*config), clock);
    ASSERT_TRUE(started) << started.error().message;
    service = std::move(*started);
  }
  std::string url() const { return "http://" + service->addresses()[0]; }
  // A guard's settings; with a `sync` if there is one.
  static std::string guard(const std::string& sync) {
    return std::string(kListen) + "contracts: [ { name: acme, jitter: 0s" +
           (sync.empty() ? "" : ", sync: { " + sync + " }") + " } ]\n";
  }
  void begin_guard(const std::string& sync) {
    write(guard(sync));
    auto config = config::load(path());
    ASSERT_TRUE(config) << config.error().message;
    auto started = Server::start(std::move(*config), clock, StartEmpty::kNo,
                                 [this](const LogLine& line) { note(line); });
    ASSERT_TRUE(started) << started.error().message;
    server = std::move(*started);
  }
  void note(const LogLine& line) {
    const std::scoped_lock lock(lines_lock);
    std::string text(line.event);
    for (const LogField& field : line.fields) {
      if (field.name != "error") text += " " + field.value;
    }
    lines.push_back(std::move(text));
  }
  std::vector<std::string> logged() {
    const std::scoped_lock lock(lines_lock);
    return lines;
  }
  std::string shown() { return ask(get("/v1/contract/acme")).body; }
  bool shows(std::string_view text) {
    return eventually([&] { return shown().find(text) != std::string::npos; });
  }
  std::string mark() {
    const std::string body = shown();
    const std::size_t at = body.find(R"("mark":")") + 8;
    return body.substr(at, body.find('"', at) - at);
  }

  std::unique_ptr<Server> service;
  std::mutex lines_lock;
  std::vector<std::string> lines;
};

TEST_F(SyncTest, TakesOverWhatTheServiceHas) {
  begin_service();
  begin_guard("url: '" + url() + "/'");
  EXPECT_TRUE(shows(R"("fetches":2,"failures":0,"error":null})")) << shown();
  EXPECT_THAT(shown(), AllOf(HasSubstr(R"("policy":"PU_10_PT744H")"), HasSubstr(R"("left":10,)"),
                             Not(HasSubstr(R"("contract_age":null)"))));
  // It is logged after it is shown.
  EXPECT_TRUE(eventually([&] { return !logged().empty(); }));
  EXPECT_THAT(logged(), ElementsAre("contract acme PU_10_PT744H"));
}

TEST_F(SyncTest, IsReadyWithoutTheServiceAndSaysWhatIsMissing) {
  begin_guard("url: 'http://127.0.0.1:1', retry: 100ms");
  EXPECT_TRUE(eventually([&] {
    const std::size_t at = shown().find(R"("failures":)");
    return at != std::string::npos && std::atoi(shown().c_str() + at + 11) >= 3;
  })) << shown();
  EXPECT_EQ(ask(get("/readyz")).status, 200);
  const HttpAnswer reserved = ask(post("/v1/contract/acme/reserve", "{}"));
  EXPECT_EQ(reserved.status, 503) << "it knows no policies";
  EXPECT_THAT(reserved.body, HasSubstr("no policies until its service has answered"));
  EXPECT_THAT(shown(), AllOf(HasSubstr(R"("contract_age":null,"counts_age":null)"),
                             HasSubstr("account 'acme': contract: no answer ("),
                             HasSubstr("; the last good values stay in force")));
  EXPECT_THAT(logged(), ElementsAre("outage sync acme")) << "once, not at each failure";
  EXPECT_THAT(ask(get("/metrics")).body,
              AllOf(HasSubstr("weir_sync_failing{account=\"acme\"} 1\n"),
                    HasSubstr("weir_sync_fetches_total{account=\"acme\",result=\"done\"} 0\n"),
                    HasSubstr("weir_sync_age_seconds{account=\"acme\",of=\"counts\"} +Inf\n")));
}

TEST_F(SyncTest, ShowsItsAgeAsAMetric) {
  begin_service();
  begin_guard("url: '" + url() + "'");
  EXPECT_TRUE(shows(R"("fetches":2)"));
  EXPECT_THAT(ask(get("/metrics")).body,
              AllOf(HasSubstr("weir_sync_failing{account=\"acme\"} 0\n"),
                    HasSubstr("weir_sync_fetches_total{account=\"acme\",result=\"done\"} 2\n"),
                    HasSubstr("weir_sync_fetches_total{account=\"acme\",result=\"failed\"} 0\n"),
                    HasSubstr("weir_sync_age_seconds{account=\"acme\",of=\"contract\"} "),
                    HasSubstr("weir_sync_age_seconds{account=\"acme\",of=\"counts\"} ")));
}

TEST_F(SyncTest, ShowsATokenWhereTheServiceWantsOne) {
  begin_service("auth: [ { token: look, role: observe } ]\n");
  begin_guard("url: '" + url() + "', token: look");
  EXPECT_TRUE(shows(R"("error":null})")) << shown();
  server.reset();
  begin_guard("url: '" + url() + "', token: wrong");
  EXPECT_TRUE(shows("contract: status 401")) << shown();
}

TEST_F(SyncTest, BeginsAndEndsWithAReload) {
  begin_service();
  begin_guard("");
  EXPECT_THAT(shown(), HasSubstr(R"("sync":null})"));
  write(guard("url: '" + url() + "'"));
  EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
  EXPECT_TRUE(shows(R"("policy":"PU_10_PT744H")")) << shown();
  write(guard(""));
  EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
  EXPECT_THAT(shown(), AllOf(HasSubstr(R"("sync":null})"), HasSubstr(R"("policy":"PU_10_PT744H")")))
      << "what it has learnt stays";
}

TEST_F(SyncTest, StartsOverOnlyIfItsSettingsHaveChanged) {
  begin_service();
  begin_guard("url: '" + url() + "'");
  EXPECT_TRUE(shows(R"("fetches":2)"));
  EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
  EXPECT_THAT(shown(), HasSubstr(R"("fetches":2)"));
  write(guard("url: 'http://127.0.0.1:1'"));
  EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
  EXPECT_TRUE(shows(R"("failures":2)")) << shown();
  EXPECT_THAT(shown(), HasSubstr(R"("policy":"PU_10_PT744H")")) << "what it has learnt stays";
}

TEST_F(SyncTest, FollowsNobodyAnyMoreWhenAReloadIsOver) {
  begin_guard("");
  for (int i = 0; i < 10; ++i) {
    write(guard("url: 'http://127.0.0.1:1'"));
    EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
    EXPECT_THAT(shown(), Not(HasSubstr(R"("sync":null})")));
    write(guard(""));
    EXPECT_EQ(ask(post("/v1/reload", "")).status, 200);
    EXPECT_THAT(shown(), HasSubstr(R"("sync":null})"));
  }
}

TEST_F(SyncTest, LetsWaitersInWhenTheServiceHasMoreLeft) {
  begin_service();
  HttpClient to_service(service->addresses()[0]);
  const std::string body =
      to_service.ask(post("/v1/contract/acme/consume", R"({"processing_units":10})")).body;
  const std::size_t at = body.find(R"("reservation":")") + 15;
  const std::string reservation = body.substr(at, body.find('"', at) - at);
  write(guard("url: '" + url() + "', refresh: 1s") +
        "bounds: { wait: 3000s }\nlimits: [ { name: all, contract: acme } ]\n");
  auto config = config::load(path());
  ASSERT_TRUE(config) << config.error().message;
  auto started = Server::start(std::move(*config), clock);
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  ASSERT_TRUE(eventually([&] {
    const std::string text = shown();
    return text.find(R"("counts_age":)") != std::string::npos &&
           text.find(R"("counts_age":null)") == std::string::npos;
  })) << shown();
  HttpClient waiting(server->addresses()[0]);
  waiting.send(post("/v1/acquire",
                    R"({"attributes":{},"costs":{"processing_units":0.001},"wait":"3000s"})"));
  ASSERT_TRUE(someone_waits());
  to_service.ask(post("/v1/contract/acme/release", R"({"reservation":")" + reservation + R"("})"));
  EXPECT_THAT(waiting.read().body, HasSubstr(R"("verdict":"allowed")"));
}

// --- documents that somebody brings

constexpr std::string_view kContract =
    R"({"data":[{"userId":"acme","policies":[{"capacity":10,"samplingPeriod":"PT744H"}],)"
    R"("type":{"name":"PROCESSING_UNITS"}}]})";
constexpr std::string_view kCounts = R"({"data":{"PROCESSING_UNITS":{"PT744H":8}}})";

// A few millionths may have come back since.
auto has_left(int units) {
  return ContainsRegex("\"left\":" + std::to_string(units) + R"((\.000[0-9]+)?,)");
}

TEST_F(SyncTest, TakesDocumentsThatAreBrought) {
  begin_guard("");
  EXPECT_EQ(ask(with_body("PUT", "/v1/contract/acme/contract", kContract)).body,
            R"({"state":"changed"})");
  EXPECT_EQ(ask(with_body("PUT", "/v1/contract/acme/counts", kCounts)).body,
            R"({"state":"refreshed"})");
  EXPECT_THAT(shown(), AllOf(HasSubstr(R"("policy":"PU_10_PT744H")"), has_left(8),
                             Not(HasSubstr(R"("refreshed_at":null)"))));
}

TEST_F(SyncTest, DebitsWhatBecameFinalAfterTheMark) {
  begin_guard("");
  ask(with_body("PUT", "/v1/contract/acme/contract", kContract));
  const std::string told = ask(post("/v1/contract/acme/reserve", R"({"processing_units":3})")).body;
  const std::size_t at = told.find(R"("reservation":")") + 15;
  const std::string reservation = told.substr(at, told.find('"', at) - at);
  const std::string before = mark();
  ask(post("/v1/contract/acme/commit", R"({"reservation":")" + reservation + R"("})"));
  EXPECT_THAT(mark(), StartsWith("1000000-3000000-"));
  ask(with_body("PUT", "/v1/contract/acme/counts?mark=" + before, kCounts));
  EXPECT_THAT(shown(), has_left(5));
  ask(with_body("PUT", "/v1/contract/acme/counts?mark=" + mark(), kCounts));
  EXPECT_THAT(shown(), has_left(8));
}

TEST_F(SyncTest, RefusesDocumentsThatAreWrongAndKeepsWhatItHas) {
  begin_guard("");
  ask(with_body("PUT", "/v1/contract/acme/contract", kContract));
  const auto put = [&](const std::string& what, std::string_view body) {
    return ask(with_body("PUT", "/v1/contract/acme/" + what, body));
  };
  EXPECT_THAT(put("contract", "<html>").body, HasSubstr("not_json"));
  EXPECT_THAT(put("contract", R"({"data":[]})").body, HasSubstr("unknown_user"));
  EXPECT_THAT(put("counts", R"({"data":{"REQUESTS":[]}})").body, HasSubstr("wrong_type"));
  EXPECT_EQ(put("counts", R"({"data":{"COFFEE":{"PT1M":1}}})").body,
            R"({"state":"refreshed","left_out":["COFFEE"]})");
  for (const char* wrong :
       {"", "1", "1-", "1-1", "1-1-", "-1-1-1", "1-x-1", "1-1-x", "99999999999999999999-1-1"}) {
    const HttpAnswer answer = put("counts?mark=" + std::string(wrong), kCounts);
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_THAT(answer.body, HasSubstr("query: mark is '")) << wrong;
  }
  EXPECT_THAT(shown(), AllOf(HasSubstr(R"("policy":"PU_10_PT744H")"), HasSubstr(R"("left":10,)")));
}

TEST_F(SyncTest, LetsNobodyTellAServiceWhatItCounts) {
  begin_service();
  HttpClient client(service->addresses()[0]);
  const HttpAnswer answer = client.ask(with_body("PUT", "/v1/contract/acme/counts", kCounts));
  EXPECT_EQ(answer.status, 409);
  EXPECT_THAT(answer.body, HasSubstr("its role is 'service', which counts itself"));
  const HttpAnswer met = client.ask(
      post("/v1/contract/acme/feedback", R"({"processing_units":1,"retry_after":1000})"));
  EXPECT_EQ(met.status, 409);
  EXPECT_THAT(met.body, HasSubstr("its role is 'service', which counts itself"));
}

}  // namespace
}  // namespace weir::server
