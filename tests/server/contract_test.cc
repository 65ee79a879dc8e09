// Contracts over sockets: the routes of their own, the published documents, an ordinary
// acquire, bad input, reload, metrics.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/http_client.h"
#include "weir/system/contract/accounts.h"
#include "weir/system/contract/document.h"
#include "weir/wire/http/contract_routes.h"

namespace weir::server {
namespace {

namespace contract = system::contract;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Ten units and five requests in 31 days, so that nothing comes back while a test runs.
constexpr std::string_view kPolicies =
    "policies: [ { type: PROCESSING_UNITS, capacity: 10, period: P31D }, "
    "{ type: REQUESTS, capacity: 5, period: PT744H } ]";

struct ContractServer : HttpTest {
  void begin(const std::string& rest = "", const std::string& after = "") {
    start(settings(rest) + after, "");
  }
  static std::string settings(const std::string& rest = "",
                              const std::string& policies = std::string(kPolicies)) {
    return "listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\ncontracts:\n  - { name: acme, "
           "user_id: u1, " +
           policies + rest + " }\n";
  }

  std::string resp(const std::string& command) {
    return Client(server->addresses()[0]).ask_until(command + "\r\nPING\r\n", "+PONG\r\n");
  }
  HttpAnswer http(std::string_view request) {
    return HttpClient(server->addresses()[1]).ask(request);
  }
  HttpAnswer ask(const std::string& what, std::string_view body) {
    return http(post("/v1/contract/acme/" + what, body));
  }
  // The text or number that a member of an answer has.
  static std::string member(const std::string& body, const std::string& name) {
    const std::size_t at = body.find("\"" + name + "\":");
    if (at == std::string::npos) return "(missing)";
    std::size_t begin = at + name.size() + 3;
    if (body[begin] == '"') return body.substr(begin + 1, body.find('"', begin + 1) - begin - 1);
    return body.substr(begin, body.find_first_of(",}]", begin) - begin);
  }
  std::string reservation(const std::string& body) { return member(body, "reservation"); }
  // What each policy has left, in thousandths: one of them comes back in 268 s, whereas a millionth
  // would while a test runs.
  std::vector<std::int64_t> left_milli() {
    std::vector<std::int64_t> all;
    for (const contract::PolicyView& row : view().policies) all.push_back(row.left_micro / 1000);
    return all;
  }
  contract::AccountView view() {
    return (*in_force<wire::http::ContractPart>(*server)->find("acme"))->view(clock.now());
  }
};

using Left = std::vector<std::int64_t>;

// --- routes

TEST_F(ContractServer, ReservesCommitsAndReleases) {
  begin(", jitter: 0s");
  const HttpAnswer first = ask("reserve", R"({"processing_units":0.64})");
  EXPECT_EQ(first.status, 200);
  EXPECT_THAT(first.body, StartsWith(R"({"verdict":"allowed","reason":null,"policy":null,)"));
  EXPECT_THAT(first.body, HasSubstr(R"("delay_ns":0,"delay_ms":0,)"));
  EXPECT_THAT(first.body, HasSubstr(R"("debited":{"requests":1,"processing_units":0.64}})"));
  EXPECT_EQ(left_milli(), (Left{9'360, 4'000}));

  const std::string commit =
      R"({"reservation":")" + reservation(first.body) + R"(","processing_units":"0.5"})";
  EXPECT_EQ(ask("commit", commit).body,
            R"({"state":"settled","debited":{"requests":1,"processing_units":0.5}})");
  EXPECT_EQ(ask("commit", commit).body,
            R"({"state":"settled","debited":{"requests":1,"processing_units":0.5}})")
      << "told the same again";
  EXPECT_EQ(left_milli(), (Left{9'500, 4'000})) << "requests stay as they were reserved";

  const std::string second = reservation(ask("reserve", R"({"processing_units":2})").body);
  const std::string release = R"({"reservation":")" + second + R"("})";
  EXPECT_EQ(ask("release", release).body, R"({"state":"cancelled"})");
  EXPECT_EQ(left_milli(), (Left{9'500, 4'000}));
  EXPECT_EQ(ask("commit", release).status, 409);
  EXPECT_EQ(ask("release", R"({"reservation":"00000000000004d2-17"})").status, 404);
}

TEST_F(ContractServer, RoundsACostUpOnceAndSaysWhatWasDebited) {
  begin();
  const HttpAnswer answer = ask("reserve", R"({"processing_units":0.0000001})");
  EXPECT_THAT(answer.body, HasSubstr(R"("debited":{"requests":1,"processing_units":0.000001})"));
}

TEST_F(ContractServer, BooksAheadAndTellsHowLong) {
  begin(", jitter: 0s", "");
  EXPECT_EQ(ask("reserve", R"({"processing_units":10})").status, 200);
  const HttpAnswer later = ask("reserve", R"({"processing_units":10})");
  EXPECT_EQ(later.status, 200);
  EXPECT_EQ(member(later.body, "policy"), "PU_10_PT744H");
  EXPECT_GT(std::stoll(member(later.body, "delay_ms")), 2'678'400'000 - 600'000);
  EXPECT_LE(std::stoll(member(later.body, "delay_ms")), 2'678'400'000);
  EXPECT_EQ(view().outstanding, 2u);
}

TEST_F(ContractServer, DeniesWhatCannotStartInTimeAndDebitsNothing) {
  begin(", jitter: 0s, retry_after: seconds");
  EXPECT_EQ(ask("reserve", R"({"processing_units":10})").status, 200);
  for (const std::string_view body :
       {R"({"processing_units":10,"max_delay":"1h"})", R"({"processing_units":10,"max_delay":0})",
        R"({"processing_units":10,"deadline_ns":1})"}) {
    const HttpAnswer denied = ask("reserve", body);
    EXPECT_EQ(denied.status, 429) << body;
    EXPECT_EQ(member(denied.body, "verdict"), "denied");
    EXPECT_EQ(reservation(denied.body), "null");
    EXPECT_GT(std::stoll(denied.field("Retry-After")), 2'678'400 - 600);
    EXPECT_LE(std::stoll(denied.field("Retry-After")), 2'678'400);
  }
  EXPECT_EQ(view().outstanding, 1u);
}

TEST_F(ContractServer, TakesTheLongestDelayOfTheAccountUnlessAnAskNamesOne) {
  begin(", jitter: 0s, max_delay: 1m");
  EXPECT_EQ(ask("reserve", R"({"processing_units":10})").status, 200);
  EXPECT_EQ(ask("reserve", R"({"processing_units":1})").status, 429);
  EXPECT_EQ(ask("reserve", R"({"processing_units":1,"max_delay":"365d"})").status, 200);
}

TEST_F(ContractServer, NeverReservesMoreThanAPolicyHolds) {
  begin();
  const HttpAnswer never = ask("reserve", R"({"processing_units":10.000001})");
  EXPECT_EQ(never.status, 422);
  EXPECT_EQ(member(never.body, "reason"), "exceeds_capacity");
  EXPECT_EQ(member(never.body, "policy"), "PU_10_PT744H");
  EXPECT_EQ(member(never.body, "start"), "null");
  EXPECT_EQ(view().outstanding, 0u);
}

TEST_F(ContractServer, NeverReservesFromAQuotaThatIsUsedUp) {
  start(settings("", "policies: [ { type: REQUESTS, capacity: 1, period: PT0S } ]"), "");
  EXPECT_EQ(ask("reserve", "{}").status, 200);
  const HttpAnswer never = ask("reserve", "{}");
  EXPECT_EQ(never.status, 422);
  EXPECT_EQ(member(never.body, "reason"), "exhausted");
}

TEST_F(ContractServer, FollowsThePublishedRuleIfToldTo) {
  begin(", rule: published");
  EXPECT_THAT(ask("reserve", R"({"processing_units":10})").body, HasSubstr(R"("delay_ns":0,)"));
  const HttpAnswer second = ask("reserve", R"({"processing_units":20})");
  EXPECT_EQ(second.status, 200) << "the published rule refuses nobody";
  EXPECT_EQ(reservation(second.body), "null");
  EXPECT_GT(std::stoll(member(second.body, "delay_ms")), 2 * 2'678'400'000LL - 600'000);
  const HttpAnswer consume = ask("consume", "{}");
  EXPECT_EQ(consume.status, 400);
  EXPECT_THAT(consume.body, HasSubstr("wrong_rule"));
}

TEST_F(ContractServer, ConsumesUntilItRefusesAsTheServiceDoes) {
  begin(", role: service");
  const HttpAnswer taken = ask("consume", R"({"processing_units":9.5})");
  EXPECT_EQ(taken.status, 200);
  EXPECT_EQ(taken.field("X-ProcessingUnits-Spent"), "9.5");
  const HttpAnswer refused = ask("consume", R"({"processing_units":1})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.body,
            R"({"error":{"status":429,"reason":"Too Many Requests","message":"You have exceeded )"
            R"(your rate limit: policy PU_10_PT744H","code":"RATE_LIMIT_EXCEEDED"}})");
  // Half a unit takes 133,920 s; in milliseconds, as the service has it.
  EXPECT_GT(std::stoll(refused.field("Retry-After")), 133'920'000 - 600'000);
  EXPECT_LE(std::stoll(refused.field("Retry-After")), 133'920'000);
  EXPECT_EQ(left_milli()[1], 4'000) << "nothing was debited elsewhere";
}

TEST_F(ContractServer, RefusesALargerRequestThanAPolicyHoldsWith429) {
  begin(", role: service");
  const HttpAnswer refused = ask("consume", R"({"processing_units":11})");
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"("code":"RATE_LIMIT_TOKEN_COUNT_EXCEEDS_CAPACITY")"));
  EXPECT_EQ(refused.field("Retry-After"), "(missing)") << "waiting does not help";
}

TEST_F(ContractServer, ChargesProcessingUnitsOnlyOnSuccess) {
  begin(", role: service");
  const std::string id = reservation(ask("consume", R"({"processing_units":10})").body);
  EXPECT_EQ(ask("consume", R"({"processing_units":10})").status, 429);
  EXPECT_EQ(ask("commit", R"({"reservation":")" + id + R"(","processing_units":0})").status, 200);
  EXPECT_EQ(ask("consume", R"({"processing_units":10})").status, 200);
  EXPECT_EQ(left_milli()[1], 3'000) << "failed work costs a request";
}

TEST_F(ContractServer, LearnsFromARefusalThatAWorkerMet) {
  begin(", jitter: 0s");
  const std::string id = reservation(ask("reserve", R"({"processing_units":1})").body);
  // The service has it in a tenth of the time that a unit takes: 0.9 units are there.
  EXPECT_EQ(ask("feedback",
                R"({"reservation":")" + id + R"(","retry_after":26784000,"policy":"PU_10_PT744H"})")
                .body,
            R"({"state":"noted"})");
  EXPECT_EQ(view().refusals_met, 1u);
  EXPECT_EQ(view().outstanding, 0u) << "the service has debited nothing";
  const HttpAnswer unknown = ask("feedback", R"({"policy":"PU_11_PT744H"})");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(ask("feedback", R"({"reservation":"00000000000004d2-17"})").status, 404);
  EXPECT_EQ(view().refusals_met, 1u);
}

TEST_F(ContractServer, ReadsRetryAfterInTheUnitOfTheAccount) {
  start(settings(", jitter: 0s, retry_after: seconds", "policies: []"), "");
  const std::pair<std::string_view, std::int64_t> cases[] = {
      {R"({"retry_after":60})", 60'000},
      {R"({"retry_after":"120"})", 120'000},
      {R"({"retry_after":"180000ms"})", 180'000},
  };
  for (const auto& [body, most_ms] : cases) {
    EXPECT_EQ(ask("feedback", body).status, 200) << body;
    const std::int64_t delay_ms = std::stoll(member(ask("reserve", "{}").body, "delay_ms"));
    EXPECT_LE(delay_ms, most_ms);
    EXPECT_GT(delay_ms, most_ms - 30'000);
  }
  EXPECT_EQ(ask("feedback", R"({"retry_after":"Wed, 21 Oct 2026 07:28:00 GMT"})").status, 400);
  EXPECT_EQ(ask("feedback", R"({"retry_after":-1})").status, 400);
}

TEST_F(ContractServer, ShowsAnAccount) {
  begin(", jitter: 0s");
  ask("reserve", R"({"processing_units":2.5})");
  const HttpAnswer answer = http(get("/v1/contract/acme"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.body,
              StartsWith(R"({"account":"acme","user_id":"u1","role":"guard","rule":"reservation",)"
                         R"("jitter":"0s","policies":[{"policy":"PU_10_PT744H",)"
                         R"("type":"PROCESSING_UNITS","capacity":10,"period":"PT744H",)"
                         R"("refill_ns":267840000000000,"left":7.5)"));
  // A few millionths may have come back.
  EXPECT_THAT(answer.body, ContainsRegex(R"("left":7\.5(00[0-9]+)?,"full_in_ns":)"));
  EXPECT_THAT(answer.body,
              HasSubstr(R"("outstanding":1,"outstanding_costs":{"requests":1,)"
                        R"("processing_units":2.5},"booked_until":null,"refreshed_at":null,)"
                        R"("overages_clipped":0,"granted":1,"refused":0,"refusals_met":0,)"
                        R"("mark":"0-0-)"));
  EXPECT_THAT(answer.body, HasSubstr(R"("sync":null})"));
}

TEST_F(ContractServer, WorksOutProcessingUnits) {
  begin();
  const HttpAnswer answer =
      http(post("/v1/contract/processing-units",
                R"({"tiles":[{"width":1024,"height":1024}],"bands":["B01","B02","B03","B04"],)"
                R"("output":"float32","samples":2,"orthorectify":true})"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"processing_units":"128/3","debited":42.666667})");
  const HttpAnswer catalogue = http(post("/v1/contract/processing-units",
                                         R"({"api":"catalog","area_km2":"500000","months":1.5})"));
  EXPECT_EQ(member(catalogue.body, "debited"), "1");
}

TEST_F(ContractServer, AnswersARepeatedAskAsBeforeAndListsWhoseReservationsThereAre) {
  begin(", jitter: 0s");
  const std::string asked = R"({"processing_units":0.5,"who":"job 7","key":"k-1"})";
  const HttpAnswer first = ask("reserve", asked);
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(member(ask("reserve", asked).body, "reservation"), member(first.body, "reservation"));
  EXPECT_EQ(ask("reserve", R"({"processing_units":0.6,"key":"k-1"})").status, 400);
  ASSERT_EQ(ask("reserve", R"({"who":"job 8"})").status, 200);
  const auto list = [&](const std::string& query) {
    return http(get("/v1/contract/acme/reservations" + query));
  };
  const HttpAnswer all = list("");
  EXPECT_EQ(all.status, 200) << all.body;
  EXPECT_THAT(all.body, AllOf(HasSubstr(R"("who":"job 7")"), HasSubstr(R"("who":"job 8")"),
                              HasSubstr(R"("next":null)")));
  const HttpAnswer one = list("?limit=1");
  EXPECT_THAT(one.body, Not(HasSubstr("job 8")));
  const HttpAnswer next = list("?limit=1&after=" + member(one.body, "next"));
  EXPECT_THAT(next.body, AllOf(HasSubstr("job 8"), Not(HasSubstr("job 7"))));
  EXPECT_THAT(list("?who=job%207").body, Not(HasSubstr("job 8")));
  for (const char* wrong : {"?limit=0", "?limit=1001", "?after=x", "?what=1"}) {
    EXPECT_EQ(list(wrong).status, 400) << wrong;
  }
}

// --- the published documents

TEST_F(ContractServer, PublishesItsContracts) {
  begin();
  for (const std::string_view query : {"userId=eq:u1", "userId=eq%3Au1"}) {
    const HttpAnswer answer = http(get("/aux/ratelimit/contract?" + std::string(query)));
    ASSERT_EQ(answer.status, 200) << answer.body;
    const auto contracts = contract::read_contracts(answer.body);
    ASSERT_TRUE(contracts) << contracts.error().message;
    EXPECT_EQ(*policies_of(*contracts, "u1"),
              (*in_force<wire::http::ContractPart>(*server)->find("acme"))->policies());
    EXPECT_THAT(answer.body, HasSubstr(R"("links":{"currentToken":"0"})"));
  }
  EXPECT_EQ(http(get("/aux/ratelimit/contract?userId=eq:acme")).body,
            R"({"data":[],"links":{"currentToken":"0"}})");
  EXPECT_EQ(http(get("/aux/ratelimit/contract?userId=u1")).status, 400);
  EXPECT_EQ(http(get("/aux/ratelimit/contract")).status, 400);
}

TEST_F(ContractServer, PublishesWhatIsLeft) {
  begin(", role: service");
  ask("consume", R"({"processing_units":2.5})");
  const HttpAnswer answer = http(get("/aux/ratelimit/statistics/tokenCounts/u1"));
  ASSERT_EQ(answer.status, 200);
  const auto counts = contract::read_token_counts(answer.body);
  ASSERT_TRUE(counts) << counts.error().message;
  ASSERT_EQ(counts->size(), 2u);
  for (const contract::Account::Count& count : *counts) {
    const bool is_units = count.resource == contract::Resource::kProcessingUnits;
    EXPECT_EQ(count.left_micro / 100'000, is_units ? 75 : 40);
  }
  EXPECT_EQ(http(get("/aux/ratelimit/statistics/tokenCounts/u2")).status, 404);
}

// --- roles

TEST_F(ContractServer, AsksForTheRoleOfEachRoute) {
  begin("", "auth: [ { token: looks, role: observe } ]\n");
  const std::string looks = "Authorization: Bearer looks\r\n";
  EXPECT_EQ(http(get("/v1/contract/acme", looks)).status, 200);
  EXPECT_EQ(http(get("/aux/ratelimit/contract?userId=eq:u1", looks)).status, 200);
  EXPECT_EQ(http(get("/aux/ratelimit/statistics/tokenCounts/u1", looks)).status, 200);
  EXPECT_EQ(http(get("/v1/contract/acme")).status, 401);
  for (const char* what : {"reserve", "commit", "release", "consume", "feedback"}) {
    EXPECT_EQ(http(post("/v1/contract/acme/" + std::string(what), "{}", looks)).status, 403);
  }
  EXPECT_EQ(view().outstanding, 0u);
}

// --- bad input

TEST_F(ContractServer, NamesBadCostsAndDebitsNothing) {
  begin();
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"processing_units":-5})", "body:1:21: processing_units is '-5'"},
      {R"({"processing_units":"-0.1"})", "body:1:21: processing_units is '-0.1'"},
      {R"({"processing_units":NaN})", "body:1:21: processing_units is 'N'"},
      {R"({"processing_units":"NaN"})", "body:1:21: processing_units is 'NaN'"},
      {R"({"processing_units":Infinity})", "body:1:21: processing_units is 'I'"},
      {R"({"processing_units":"inf"})", "body:1:21: processing_units is 'inf'"},
      {R"({"processing_units":1e999})", "body:1:21: processing_units is '1e999'"},
      {R"({"processing_units":1e18})", "body:1:21: processing_units"},
      {R"({"processing_units":""})", "body:1:21: processing_units is an empty text"},
      {R"({"processing_units":0x10})", "body:1:22: what follows is 'x'"},
      {R"({"processing_units":1.})", "body:1:21: processing_units is not a number"},
      {R"({"processing_units":007})", "body:1:21: processing_units is not a number"},
      {R"({"processing_units":null})", "body:1:21: processing_units is null"},
      {R"({"processing_units":[1]})", "body:1:21: processing_units is a list"},
      {R"({"requests":-1})", "body:1:13: requests is '-1'"},
      {R"({"units":1})", "body:1:2: the body has a member 'units'"},
      {R"({"requests":1,"requests":1})", "body:1:15: the body has the member 'requests' twice"},
      {"", "body: it is empty"},
      {"[]", "body:1:1: the body is a list"},
  };
  for (const std::string_view what : {"reserve", "consume"}) {
    for (const auto& [body, message] : cases) {
      const HttpAnswer answer = ask(std::string(what), body);
      EXPECT_EQ(answer.status, 400) << what << " " << body;
      EXPECT_THAT(member(answer.body, "detail"), StartsWith(std::string(message))) << body;
    }
  }
  EXPECT_EQ(view().outstanding, 0u);
  EXPECT_EQ(view().granted, 0u);
  const std::string id = reservation(ask("reserve", R"({"processing_units":1})").body);
  const HttpAnswer wrong =
      ask("commit", R"({"reservation":")" + id + R"(","processing_units":-1})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(view().outstanding, 1u) << "it has not ended";
}

TEST_F(ContractServer, NamesUnknownAccounts) {
  begin();
  const std::pair<std::string, std::string> calls[] = {
      {"reserve", "{}"},  {"commit", R"({"reservation":"00000000000004d2-1"})"},
      {"consume", "{}"},  {"release", R"({"reservation":"00000000000004d2-1"})"},
      {"feedback", "{}"},
  };
  for (const auto& [what, body] : calls) {
    const HttpAnswer answer = http(post("/v1/contract/acme%20/" + what, body));
    EXPECT_EQ(answer.status, 404) << what;
    EXPECT_THAT(answer.body, HasSubstr("account 'acme ' is unknown; known are 'acme'"));
  }
  EXPECT_EQ(http(get("/v1/contract/umbrella")).status, 404);
  EXPECT_EQ(http(post("/v1/contract/acme/steal", "{}")).status, 404);
  EXPECT_EQ(http(get("/v1/contract/acme/reserve")).status, 405);
}

TEST_F(ContractServer, SaysSoWhereNoContractsAreConfigured) {
  start("listen: { resp: 127.0.0.1:0, http: 127.0.0.1:0 }\n");
  EXPECT_EQ(ask("reserve", "{}").status, 404);
  EXPECT_EQ(http(get("/v1/contract/acme")).status, 404);
  EXPECT_EQ(http(get("/aux/ratelimit/contract?userId=eq:u1")).status, 404);
  EXPECT_EQ(http(get("/aux/ratelimit/statistics/tokenCounts/u1")).status, 404);
  EXPECT_EQ(http(post("/v1/contract/processing-units",
                      R"({"tiles":[{"width":512,"height":512}],"bands":["A","B","C"]})"))
                .status,
            200)
      << "working out a cost needs no account";
}

TEST_F(ContractServer, RefusesBodiesOfTenMegabytes) {
  begin();
  const std::string body = R"({"processing_units":")" + std::string(10 << 20, '1') + "\"}";
  HttpClient client(server->addresses()[1]);
  client.send("POST /v1/contract/acme/reserve HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
  EXPECT_EQ(view().outstanding, 0u);
}

// --- with ordinary limits

constexpr const char* kWithLimits =
    "limits:\n"
    "  - { name: per-client, per: [client], window: { limit: 3, every: 10000d } }\n"
    "  - { name: provider, contract: acme }\n";

TEST_F(ContractServer, DecidesTogetherWithOrdinaryLimitsOverResp) {
  begin(", jitter: 0s", kWithLimits);
  const std::string call = "WEIR.ACQUIRE client=a COST processing_units=4.5";
  EXPECT_THAT(resp(call), HasSubstr("allowed"));
  EXPECT_THAT(resp(call), HasSubstr("allowed"));
  EXPECT_THAT(resp(call), HasSubstr("denied"));
  EXPECT_THAT(resp("WEIR.INSPECT per-client client=a"), HasSubstr(":1\r\n"))
      << "the refused one was not charged at the other limit";
  EXPECT_EQ(left_milli()[0] / 100, 10);
}

TEST_F(ContractServer, DecidesTogetherWithOrdinaryLimitsOverHttp) {
  begin(", jitter: 0s", kWithLimits);
  const std::string call =
      post("/v1/acquire", R"({"attributes":{"client":"a"},"costs":{"processing_units":6}})");
  EXPECT_EQ(http(call).status, 200);
  const HttpAnswer refused = http(call);
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr(R"("limit":"provider")"));
  EXPECT_THAT(http(get("/v1/meters?limit=per-client&key=a")).body, HasSubstr(R"("remaining":2,)"));
  const HttpAnswer too_many =
      http(post("/v1/acquire", R"({"attributes":{"client":"a"},"costs":{"requests":4}})"));
  EXPECT_EQ(too_many.status, 422);
  EXPECT_EQ(left_milli()[1] / 100, 40) << "refused by another limit, it took nothing here";
  EXPECT_EQ(http(post("/v1/acquire",
                      R"({"attributes":{"client":"b"},"costs":{"processing_units":10.000001}})"))
                .status,
            422);
}

TEST_F(ContractServer, SettlesAndCancelsHoldsOfAnOrdinaryAcquire) {
  begin(", jitter: 0s", kWithLimits);
  const auto acquire = [this] {
    return member(http(post("/v1/acquire", R"({"attributes":{"client":"a"},"hold":"60s",)"
                                           R"("costs":{"processing_units":6}})"))
                      .body,
                  "hold");
  };
  const std::string first = acquire();
  EXPECT_EQ(
      http(post("/v1/settle", R"({"hold":")" + first + R"(","costs":{"processing_units":1.5}})"))
          .status,
      200);
  EXPECT_EQ(left_milli(), (Left{8'500, 4'000}));
  const std::string second = acquire();
  EXPECT_EQ(http(post("/v1/cancel", R"({"hold":")" + second + R"("})")).status, 200);
  EXPECT_EQ(left_milli(), (Left{8'500, 4'000}));
}

TEST_F(ContractServer, SharesThePoliciesBetweenBothWays) {
  begin(", jitter: 0s", kWithLimits);
  EXPECT_EQ(ask("reserve", R"({"processing_units":10})").status, 200);
  // As much as comes back in 268 s.
  EXPECT_EQ(http(post("/v1/acquire",
                      R"({"attributes":{"client":"a"},"costs":{"processing_units":0.001}})"))
                .status,
            429);
}

TEST_F(ContractServer, LetsWaitersInWhenItsOwnRoutesMakeRoom) {
  const std::string hourly = "policies: [ { type: PROCESSING_UNITS, capacity: 10, period: PT1H } ]";
  const std::string patient =
      post("/v1/acquire",
           R"({"attributes":{"client":"a"},"costs":{"processing_units":1},"wait":"3000s"})");
  struct Way {
    std::string method, what, body;  // after the reservation, or the whole
  };
  const Way ways[] = {
      {"POST", "release", "}"},
      {"POST", "commit", R"(,"processing_units":2})"},
      {"PUT", "contract",
       R"({"data":[{"userId":"u1","type":{"name":"PROCESSING_UNITS"},)"
       R"("policies":[{"capacity":50,"samplingPeriod":"PT1H"}]}]})"},
      {"PUT", "counts", R"({"data":{"PROCESSING_UNITS":{"PT1H":10}}})"},
  };
  for (const Way& way : ways) {
    server.reset();
    start(settings(", jitter: 0s", hourly) + "bounds: { wait: 3000s }\n" + kWithLimits, "");
    const std::string id = reservation(ask("reserve", R"({"processing_units":10})").body);
    // Counts are of use to those who wait only if nothing is outstanding.
    if (way.what == "counts") ask("commit", R"({"reservation":")" + id + R"("})");
    HttpClient waiting(server->addresses()[1]);
    waiting.send(patient);
    ASSERT_TRUE(someone_waits());
    const std::string body =
        way.method == "PUT" ? way.body : R"({"reservation":")" + id + "\"" + way.body;
    EXPECT_EQ(http(with_body(way.method, "/v1/contract/acme/" + way.what, body)).status, 200);
    EXPECT_THAT(waiting.read().body, HasSubstr(R"("verdict":"allowed")")) << way.what;
  }
}

// --- reload

TEST_F(ContractServer, KeepsValuesAndReservationsOverAReload) {
  begin(", jitter: 0s", kWithLimits);
  const std::string id = reservation(ask("reserve", R"({"processing_units":4})").body);
  const auto account = *in_force<wire::http::ContractPart>(*server)->find("acme");
  write(settings(", jitter: 0s, max_delay: 1s",
                 "policies: [ { type: PROCESSING_UNITS, capacity: 12, period: PT744H } ]") +
        kWithLimits);
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(*in_force<wire::http::ContractPart>(*server)->find("acme"), account);
  EXPECT_EQ(view().outstanding, 1u);
  EXPECT_EQ(left_milli()[0] / 100, 80) << "what is used stays used of the larger policy";
  EXPECT_EQ(ask("reserve", R"({"processing_units":12})").status, 429) << "max_delay is in force";
  EXPECT_EQ(ask("release", R"({"reservation":")" + id + R"("})").status, 200);
  EXPECT_EQ(
      http(post("/v1/acquire", R"({"attributes":{"client":"a"},"costs":{"processing_units":12}})"))
          .status,
      200)
      << "the limit draws on the same account";
}

TEST_F(ContractServer, KeepsPoliciesThatChangedWhileTheFileDidNot) {
  begin();
  const auto account = *in_force<wire::http::ContractPart>(*server)->find("acme");
  ASSERT_TRUE(
      account->change({*contract::make_policy(contract::Resource::kRequests, 7, 1h)}, clock.now()));
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(view().policies.at(0).policy.capacity, 7) << "as a service told it since";
}

TEST_F(ContractServer, KeepsEverythingWhenAReloadIsRefused) {
  begin();
  ask("reserve", R"({"processing_units":4})");
  for (const std::string& wrong :
       {settings("", "policies: [ { type: REQUESTS, capacity: 5, period: P1Y } ]"),
        settings(", rule: published"), settings(", role: service")}) {
    write(wrong);
    EXPECT_EQ(http(post("/v1/reload", "")).status, 422) << wrong;
    EXPECT_EQ(view().outstanding, 1u);
    EXPECT_EQ(view().policies.size(), 2u);
  }
}

TEST_F(ContractServer, ComesAndGoesWithItsSection) {
  begin();
  write("listen: { resp: 127.0.0.1:0 }\n");
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(http(get("/v1/contract/acme")).status, 404);
  EXPECT_THAT(http(get("/metrics")).body, Not(HasSubstr("weir_contract_")));
  write(settings());
  EXPECT_EQ(http(post("/v1/reload", "")).status, 200);
  EXPECT_EQ(http(get("/v1/contract/acme")).status, 200);
}

// --- a file

TEST_F(ContractServer, TakesPoliciesFromAPublishedDocument) {
  const std::string file = dir / "contracts.json";
  std::ofstream(file) << R"({"data":[{"id":1,"userId":"u1","policies":[{"capacity":7,
    "samplingPeriod":"PT1H"}],"type":{"name":"PROCESSING_UNITS"}}]})";
  start(settings("", "file: '" + file + "'"), "");
  EXPECT_EQ(view().policies.at(0).policy.capacity, 7);
}

TEST_F(ContractServer, RefusesADocumentOfTenMegabytes) {
  begin();
  ask("reserve", R"({"processing_units":4})");
  const std::string file = dir / "contracts.json";
  std::ofstream(file) << R"({"data":[)" << std::string(10 << 20, ' ') << "]}";
  write(settings("", "file: '" + file + "'"));
  const HttpAnswer answer = http(post("/v1/reload", ""));
  EXPECT_EQ(answer.status, 422);
  EXPECT_THAT(answer.body, HasSubstr("contracts.json: too_large: "));
  EXPECT_EQ(view().outstanding, 1u);
  EXPECT_EQ(view().policies.size(), 2u);
}

// --- state

TEST_F(ContractServer, KeepsValuesAndReservationsOverARestart) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "' }\n";
  begin(", jitter: 0s", state);
  const std::string id = reservation(ask("reserve", R"({"processing_units":4})").body);
  EXPECT_EQ(ask("reserve", R"({"processing_units":1.5})").status, 200);
  ASSERT_TRUE(server->stop(0s));
  server.reset();
  begin(", jitter: 0s", state);
  EXPECT_EQ(view().outstanding, 2u);
  EXPECT_EQ(left_milli()[0] / 100, 45);
  EXPECT_EQ(ask("commit", R"({"reservation":")" + id + R"(","processing_units":1})").body,
            R"({"state":"settled","debited":{"requests":1,"processing_units":1}})");
  EXPECT_EQ(left_milli()[0] / 100, 75);
}

TEST_F(ContractServer, KeepsThemOverACrashOnceTheyAreFlushed) {
  const std::string state = "state: { dir: '" + (dir / "state").string() + "', flush: 10ms }\n";
  begin(", jitter: 0s", state);
  ask("reserve", R"({"processing_units":4})");
  const Instant reserved_at = clock.now();
  const auto flushed_until_ns = [this] {
    const std::string info = server->info();
    const std::size_t at = info.find("flushed_until_ns:") + 17;
    return std::stoll(info.substr(at));
  };
  ASSERT_TRUE(eventually([&] { return flushed_until_ns() > reserved_at.ns; }));
  // What a crash leaves: the files as they are now.
  std::filesystem::copy(dir / "state", dir / "left", std::filesystem::copy_options::recursive);
  server.reset();
  begin(", jitter: 0s", "state: { dir: '" + (dir / "left").string() + "' }\n");
  EXPECT_EQ(view().outstanding, 1u);
  EXPECT_EQ(left_milli()[0] / 100, 60);
}

// --- metrics

TEST_F(ContractServer, ShowsItsPoliciesAsMetrics) {
  begin(", jitter: 0s");
  ask("reserve", R"({"processing_units":2.5})");
  ask("reserve", R"({"processing_units":11})");
  ask("feedback", R"({"retry_after":1})");
  const std::string text = http(get("/metrics")).body;
  EXPECT_THAT(text,
              HasSubstr("weir_contract_capacity{account=\"acme\",policy=\"PU_10_PT744H\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("weir_contract_left{account=\"acme\",policy=\"PU_10_PT744H\"} "));
  EXPECT_THAT(text, AllOf(HasSubstr("weir_contract_outstanding{account=\"acme\"} 1\n"),
                          HasSubstr("weir_contract_granted_total{account=\"acme\"} 1\n"),
                          HasSubstr("weir_contract_refused_total{account=\"acme\"} 1\n"),
                          HasSubstr("weir_contract_refusals_met_total{account=\"acme\"} 1\n")));
}

// A system's clock that a test can put ahead.
struct ClockAhead final : Clock {
  Instant now() noexcept override { return clock.now() + Duration{by_ns.load()}; }

  SystemClock clock;
  std::atomic<std::int64_t> by_ns{0};
};

TEST_F(ContractServer, TellsHowMuchOfALongPolicyIsUsedAndWhichCommitsWereClipped) {
  write(settings(", jitter: 0s"));
  ClockAhead ahead;
  std::mutex lock;
  std::vector<std::string> told;
  const auto note = [&](const LogLine& line) {
    if (line.event != "contract-used" && line.event != "overage-clipped") return;
    const std::scoped_lock held(lock);
    std::string text(line.event);
    for (const LogField& field : line.fields) text += " " + std::string(field.value);
    told.push_back(std::move(text));
  };
  auto started = Server::start(*config::load(path()), ahead, StartEmpty::kNo, note);
  ASSERT_TRUE(started) << started.error().message;
  server = std::move(*started);
  EXPECT_TRUE(eventually([&] {
    return http(get("/metrics"))
               .body.find(
                   "weir_contract_used_up_seconds{account=\"acme\","
                   "policy=\"PU_10_PT744H\"} +Inf\n") != std::string::npos;
  }));
  const std::string id = reservation(ask("reserve", R"({"processing_units":9})").body);
  // It looked when it started, and looks again ten seconds later.
  ahead.by_ns = Duration{std::chrono::seconds{11}}.count();
  const auto has_told = [&](std::string_view what) {
    return eventually([&] {
      const std::scoped_lock held(lock);
      return std::any_of(told.begin(), told.end(),
                         [&](const std::string& each) { return each.starts_with(what); });
    });
  };
  // 9 of 10, and a millionth or two that came back.
  EXPECT_TRUE(has_told("contract-used acme PU_10_PT744H 80 %"));
  ask("commit", R"({"reservation":")" + id + R"(","processing_units":1000})");
  ahead.by_ns = Duration{std::chrono::seconds{22}}.count();
  EXPECT_TRUE(has_told("overage-clipped contract acme 1"));
  EXPECT_TRUE(has_told("contract-used acme PU_10_PT744H 100 %"));
  server.reset();
}

}  // namespace
}  // namespace weir::server
