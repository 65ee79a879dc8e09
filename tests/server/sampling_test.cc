// Sampling over sockets: grants over HTTP and RESP, reload, metrics, the disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/sampling_support.h"
#include "tests/support/small_disk.h"
#include "weir/system/sampling/sampling.h"
#include "weir/wire/http/sampling_routes.h"

namespace weir::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Windows of a day, so that nothing comes back while a test runs.
constexpr std::string_view kSix =
    "sampling:\n"
    "  window: 1d\n"
    "  horizon: 1d\n"
    "  exempt: { ids: [0], above: 1000 }\n"
    "  environments:\n"
    "    - { name: E, rotation_count: 0, sampling_count: 6 }\n"
    "    - { name: 'E#2', rotation_count: 0, sampling_count: 6, parent: 8 }\n"
    "    - { name: U, rotation_count: 0, sampling_count: 0 }\n";

struct SamplingServer : HttpTest {
  void begin(const std::string& rest = "", std::string_view section = kSix) {
    start(kBoth + rest, section);
  }
  HttpAnswer http(std::string_view request) {
    return HttpClient(server->addresses()[1]).ask(request);
  }
  HttpAnswer grant(std::string_view hotkey, int want, std::string_view revision = "r1",
                   std::string_view environment = "E") {
    return http(post("/v1/sampling/grant", grant_body(hotkey, want, revision, environment)));
  }
  std::string granted(std::string_view hotkey, int want) {
    return number_text(grant(hotkey, want).body, "granted");
  }
  std::string resp(const std::string& command) {
    return Client(server->addresses()[0]).ask_until(command + "\r\nPING\r\n", "+PONG\r\n");
  }

  static constexpr const char* kBoth = "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n";
};

TEST_F(SamplingServer, GrantsUpToWhatIsLeft) {
  begin();
  const HttpAnswer some = grant("a", 4);
  EXPECT_EQ(some.status, 200);
  EXPECT_THAT(some.body, HasSubstr(R"("granted":4,"wanted":4,"reason":"limited","count":4,)"
                                   R"("limit":6,"remaining":2,"parent":null,)"));
  EXPECT_EQ(number_text(some.body, "retry_after_ms"), "0");
  const HttpAnswer rest = grant("a", 20);
  EXPECT_EQ(rest.status, 200);
  EXPECT_EQ(number_text(rest.body, "granted"), "2");
  const HttpAnswer none = grant("a", 20);
  EXPECT_EQ(none.status, 429);
  EXPECT_EQ(number_text(none.body, "granted"), "0");
  EXPECT_EQ(number_text(none.body, "reservation"), "null");
  EXPECT_GT(std::stoll(none.field("Retry-After")), 80'000);
  EXPECT_EQ(granted("b", 20), "6");
}

TEST_F(SamplingServer, SaysWhyItGrants) {
  begin();
  EXPECT_THAT(grant("a", 50, "r1", "U").body,
              HasSubstr(R"("granted":50,"wanted":50,"reason":"unl)"));
  const HttpAnswer exempt =
      http(post("/v1/sampling/grant",
                R"({"hotkey":"a","revision":"r1","environment":"E","uid":1001,"want":50})"));
  EXPECT_THAT(exempt.body, HasSubstr(R"("granted":50,"wanted":50,"reason":"exempt")"));
  EXPECT_THAT(exempt.body, HasSubstr(R"("limit":null,"remaining":null)"));
}

TEST_F(SamplingServer, GivesBackWhatWasNotCreated) {
  begin();
  const std::string first = number_text(grant("a", 6).body, "reservation");
  const HttpAnswer committed =
      http(post("/v1/sampling/commit", R"({"reservation":)" + first + R"(,"created":4})"));
  EXPECT_EQ(committed.status, 200);
  EXPECT_EQ(committed.body, R"({"state":"committed","given_back":2})");
  const std::string second = number_text(grant("a", 6).body, "reservation");
  const std::string release = R"({"reservation":)" + second + "}";
  EXPECT_EQ(http(post("/v1/sampling/release", release)).body,
            R"({"state":"released","given_back":2})");
  EXPECT_EQ(http(post("/v1/sampling/release", release)).body,
            R"({"state":"released","given_back":2})")
      << "said again";
  EXPECT_EQ(granted("a", 6), "2");
}

TEST_F(SamplingServer, GrantsTheSameOverRespWithWant) {
  begin();
  EXPECT_EQ(granted("a", 2), "2");
  const std::string ask = "WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=7 want=20";
  EXPECT_THAT(resp(ask), HasSubstr("granted\r\n:4\r\n"));
  const std::string none = resp(ask);
  EXPECT_THAT(none, HasSubstr("denied"));
  EXPECT_THAT(none, HasSubstr("granted\r\n:0\r\n"));
  EXPECT_EQ(granted("a", 1), "0");
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=0 want=20"),
              HasSubstr("granted\r\n:20\r\n"));
}

TEST_F(SamplingServer, TakesTheHoldOfAnAcquireForAReservation) {
  begin();
  const std::string held =
      resp("WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=7 want=6 HOLD 60s");
  const std::size_t at = held.find("hold\r\n$");
  const std::size_t begin = held.find("\r\n", at + 7) + 2;
  const std::string hold = held.substr(begin, held.find("\r\n", begin) - begin);
  EXPECT_THAT(resp("WEIR.SETTLE " + hold + " requests=5"), HasSubstr("settled"));
  EXPECT_EQ(granted("a", 6), "1");
}

TEST_F(SamplingServer, CountsWhatASettledHoldCreatedBeyondItsGrant) {
  begin();
  const std::string held =
      resp("WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=7 want=2 HOLD 60s");
  const std::size_t at = held.find("hold\r\n$");
  const std::size_t begin = held.find("\r\n", at + 7) + 2;
  const std::string hold = held.substr(begin, held.find("\r\n", begin) - begin);
  EXPECT_THAT(resp("WEIR.SETTLE " + hold + " requests=5"), HasSubstr("settled"));
  EXPECT_EQ(granted("a", 6), "1");
}

// --- waiting

TEST_F(SamplingServer, LetsWaitersInWhenItsOwnRoutesMakeRoom) {
  begin("bounds: { wait: 30h }\n");
  const std::string patient = post(
      "/v1/acquire", R"({"attributes":{"hotkey":"a","revision":"r1","environment":"E","uid":"7"},)"
                     R"("wait":"30h"})");
  const auto lets_in = [&](const std::string& request) {
    HttpClient waiting(server->addresses()[1]);
    waiting.send(patient);
    ASSERT_TRUE(someone_waits());
    EXPECT_EQ(http(request).status, 200) << request;
    EXPECT_THAT(waiting.read().body, HasSubstr(R"("verdict":"allowed")")) << request;
  };
  const std::string first = number_text(grant("a", 3).body, "reservation");
  const std::string second = number_text(grant("a", 3).body, "reservation");
  lets_in(post("/v1/sampling/commit", R"({"reservation":)" + first + R"(,"created":2})"));
  lets_in(post("/v1/sampling/release", R"({"reservation":)" + second + "}"));
  EXPECT_EQ(granted("a", 20), "2");
  std::string more(kSix);
  more.replace(more.find("sampling_count: 6"), 17, "sampling_count: 9");
  write(kBoth + more);
  lets_in(post("/v1/reload", ""));
}

TEST_F(SamplingServer, IsNoOpenDoorForBadInput) {
  begin();
  const auto refused = [&](std::string_view body, std::string_view says) {
    const HttpAnswer answer = http(post("/v1/sampling/grant", body));
    EXPECT_EQ(answer.status / 100, 4) << body;
    EXPECT_THAT(answer.body, HasSubstr(std::string(says))) << body;
  };
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":7,"want":-1})", "want");
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":7,"want":"6"})", "want");
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":7,"want":1000001})", "want");
  refused(R"({"hotkey":"a","revision":"r","environment":"E"})", "uid is missing");
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":null})", "uid");
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":"7"})", "uid");
  refused(R"({"hotkey":"a","revision":"r","environment":"X","uid":7})", "'X' is not configured");
  refused(R"({"hotkey":"","revision":"r","environment":"E","uid":7})", "hotkey is 0 bytes long");
  refused(R"({"revision":"r","environment":"E","uid":7})", "hotkey is 0 bytes long");
  refused(R"({"hotkey":"a","revision":"r","environment":"E","uid":7,"wnat":1})", "wnat");
  EXPECT_EQ(http(post("/v1/sampling/commit", R"({"created":1})")).status, 400);
  EXPECT_EQ(http(post("/v1/sampling/release", R"({"reservation":"00000000000004d2-5"})")).status,
            404);
  for (const char* ask : {"hotkey=a environment=E uid=7 want=1", "hotkey=a revision=r uid=7 want=1",
                          "hotkey=a revision=r environment=E want=1",
                          "hotkey=a revision=r environment=E uid=seven want=1",
                          "hotkey=a revision=r environment=X uid=7 want=1"}) {
    EXPECT_THAT(resp("WEIR.ACQUIRE " + std::string(ask)), HasSubstr("never")) << ask;
  }
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=a revision=r environment=E uid=7 want=-1"),
              HasSubstr("-BADARG want is '-1'"));
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=a want=1 want=2"),
              HasSubstr("-BADARG want is there twice"));
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=a want=1 UPTO requests"), HasSubstr("-BADARG UPTO"));
  EXPECT_EQ(in_force<wire::http::SamplingPart>(*server)->reading().keys, 0u)
      << "nothing was granted";
}

TEST_F(SamplingServer, KeepsNamesWithHashesApart) {
  begin();
  EXPECT_EQ(number_text(grant("a#b", 6, "r", "E#2").body, "granted"), "6");
  EXPECT_EQ(number_text(grant("a", 6, "b#r", "E#2").body, "granted"), "6");
  const HttpAnswer over = grant("a", 6, "r3", "E#2");
  EXPECT_THAT(over.body, HasSubstr(R"("granted":2,)"));
  EXPECT_THAT(over.body, HasSubstr(R"("parent":{"count":8,"limit":8})"));
}

TEST_F(SamplingServer, ShowsEnvironmentsAndKeys) {
  begin();
  grant("a b", 4);
  const std::string all = http(get("/v1/sampling")).body;
  EXPECT_THAT(
      all, HasSubstr(R"({"environment":"E","rotation_count":0,"rotation_interval":0,)"
                     R"("sampling_count":6,"limit":6,"parent_limit":null,"burst":null,"grants":1,)"
                     R"("granted":4,"refused":0})"));
  EXPECT_THAT(all, HasSubstr(R"({"environment":"U",)"));
  EXPECT_THAT(all, Not(HasSubstr("\"key\":")));
  const HttpAnswer key = http(get("/v1/sampling?hotkey=a%20b&revision=r1&environment=E&uid=7"));
  EXPECT_THAT(key.body,
              HasSubstr(R"("key":{"granted":0,"wanted":0,"reason":"limited","count":4,)"));
  EXPECT_EQ(http(get("/v1/sampling?hotkey=a")).status, 400);
  EXPECT_EQ(http(get("/v1/sampling?hotkey=a&revision=r&environment=E&uid=x")).status, 400);
}

TEST_F(SamplingServer, IsAskedWithoutBeingCharged) {
  begin();
  const std::string body = grant_body("a", 4);
  const HttpAnswer said =
      http(post("/v1/sampling/grant", body.substr(0, body.size() - 1) + R"(,"dry_run":true})"));
  EXPECT_EQ(number_text(said.body, "granted"), "4");
  EXPECT_EQ(number_text(said.body, "count"), "4");
  EXPECT_EQ(number_text(said.body, "remaining"), "2");
  EXPECT_EQ(number_text(said.body, "reservation"), "null");
  EXPECT_EQ(granted("a", 20), "6");
}

TEST_F(SamplingServer, SaysWhatToConfigureWhereThereIsNone) {
  start(kBoth, "");
  EXPECT_EQ(http(get("/v1/sampling")).status, 404);
  EXPECT_THAT(grant("a", 1).body, HasSubstr("sampling: none is configured"));
}

// --- reload

TEST_F(SamplingServer, KeepsItsCountersOnReload) {
  begin();
  EXPECT_EQ(granted("a", 20), "6");
  const std::string reservation = number_text(grant("b", 3).body, "reservation");
  std::string more(kSix);
  more.replace(more.find("sampling_count: 6"), 17, "sampling_count: 9");
  write(kBoth + more);
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(granted("a", 20), "3");
  EXPECT_EQ(http(post("/v1/sampling/release", R"({"reservation":)" + reservation + "}")).body,
            R"({"state":"released","given_back":3})");
  write(kBoth + std::string(kSix));
  EXPECT_EQ(resp("WEIR.RELOAD"), "+OK\r\n+PONG\r\n");
  EXPECT_EQ(granted("a", 20), "0");
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=b revision=r1 environment=E uid=7 want=9"),
              HasSubstr("granted\r\n:6\r\n"));
}

TEST_F(SamplingServer, KeepsEverythingWhenAReloadIsWrong) {
  begin();
  EXPECT_EQ(granted("a", 4), "4");
  write(std::string(kBoth) + "sampling: { environments: [] }\n");
  const HttpAnswer answer = http(post("/v1/reload", ""));
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr("environments is empty"));
  EXPECT_EQ(granted("a", 20), "2");
}

TEST_F(SamplingServer, ComesAndGoesWithItsSection) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  begin(state);
  EXPECT_EQ(granted("a", 4), "4");
  write(kBoth + state);
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(grant("a", 1).status, 404);
  write(kBoth + state + std::string(kSix));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(granted("a", 20), "2") << "what was granted before is on the disk";
}

// While others look at the state.
TEST_F(SamplingServer, MayComeWithAReload) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  start(kBoth + state, "");
  std::atomic<bool> is_over{false};
  std::atomic<int> looked{0};
  std::thread observer([&] {
    HttpClient client(server->addresses()[1]);
    while (!is_over) {
      EXPECT_EQ(client.ask(get("/metrics")).status, 200);
      looked += 1;
    }
  });
  while (looked < 3) std::this_thread::yield();
  write(kBoth + state + std::string(kSix));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(granted("a", 4), "4");
  const int before = looked;
  while (looked < before + 3) std::this_thread::yield();
  is_over = true;
  observer.join();
  EXPECT_THAT(http(get("/metrics")).body, HasSubstr("weir_sampling_journal_records_total 1\n"));
}

// --- metrics

TEST_F(SamplingServer, ShowsItsCountersAsMetrics) {
  begin("state: { dir: '" + (dir / "state").string() + "' }\n");
  grant("a", 20);
  const std::string text = http(get("/metrics")).body;
  EXPECT_THAT(text, HasSubstr("weir_sampling_granted_total{environment=\"E\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("weir_sampling_refused_total{environment=\"E\"} 14\n"));
  EXPECT_THAT(text, HasSubstr("weir_sampling_allowance{environment=\"E#2\"} 6\n"));
  EXPECT_THAT(text, Not(HasSubstr("weir_sampling_allowance{environment=\"U\"}")));
  EXPECT_THAT(text, HasSubstr("weir_sampling_keys 1\n"));
  EXPECT_THAT(text, HasSubstr("weir_sampling_journal_records_total 1\n"));
  resp("WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=7 want=5");
  EXPECT_THAT(http(get("/metrics")).body,
              HasSubstr("weir_sampling_refused_total{environment=\"E\"} 19\n"));
}

// --- the disk

TEST_F(SamplingServer, KeepsItsCountersThroughARestart) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  begin(state);
  EXPECT_EQ(granted("a", 4), "4");
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=b revision=r1 environment=E uid=7 want=5"),
              HasSubstr("granted\r\n:5\r\n"));
  const std::string reservation = number_text(grant("c", 6).body, "reservation");
  server.reset();
  begin(state);
  EXPECT_EQ(granted("a", 20), "2");
  EXPECT_EQ(granted("b", 20), "1");
  EXPECT_EQ(granted("c", 20), "0");
  EXPECT_EQ(http(post("/v1/sampling/release", R"({"reservation":)" + reservation + "}")).status,
            200);
  EXPECT_EQ(granted("c", 20), "6");
}

TEST_F(SamplingServer, AnswersNoGrantThatItCannotWrite) {
  const SmallDisk disk;
  begin("state: { dir: '" + disk.path().string() + "' }\n");
  EXPECT_EQ(granted("first", 1), "1");
  disk.fill();
  // Until the log's file has no room left in it; then a connection ends without an answer.
  int answered = 0;
  HttpAnswer last;
  for (int i = 0; i < 100'000; ++i) {
    last = grant("miner-" + std::to_string(i), 1);
    if (last.status != 200) break;
    answered += 1;
  }
  EXPECT_EQ(last.status, 0);
  const HttpAnswer refused = grant("another", 1);
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("make room"));
  EXPECT_THAT(resp("WEIR.ACQUIRE hotkey=a revision=r1 environment=E uid=7 want=5"),
              HasSubstr("granted\r\n:0\r\n"));
  disk.make_room();
  EXPECT_TRUE(eventually([&] { return grant("another", 1).status == 200; }));
  EXPECT_EQ(granted("miner-" + std::to_string(answered), 20), "5")
      << "what was not answered counts all the same";
}

}  // namespace
}  // namespace weir::server
