#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::BucketSpec;
using engine::CalendarSpec;
using engine::LogSpec;
using engine::RuleSetSpec;
using engine::SlotsSpec;
using engine::TickerSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

RuleSetSpec tokens() {
  return {.limits = {{.name = "tokens", .unit = "tokens", .meter = WindowSpec{1000, 1min}}},
          .units = {{"tokens"}}};
}

std::string remaining(Desk& desk, std::string_view target) {
  return text_at(desk.get(target), "remaining");
}

// --- holds

class HoldCalls : public ::testing::Test {
 protected:
  // The body of a call about the hold, with more members after it.
  std::string about_hold(std::string_view more = {}) const {
    return R"({"hold":")" + hold + '"' + std::string(more) + '}';
  }
  std::string left() { return remaining(desk, "/v1/meters?limit=tokens"); }

  Desk desk{tokens()};
  std::string hold = text_at(desk.acquire(R"({"costs":{"tokens":400},"hold":"10s"})"), "hold");
};

TEST_F(HoldCalls, SettleReplacesTheCost) {
  const Answer answer = desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":150})"));
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.body, R"({"state":"settled"})");
  EXPECT_EQ(left(), "850");
}

TEST_F(HoldCalls, SettleWithoutCostsKeepsWhatWasCharged) {
  EXPECT_EQ(desk.post("/v1/settle", about_hold()).status, 200u);
  EXPECT_EQ(left(), "600");
}

TEST_F(HoldCalls, SettleAgainChangesNothing) {
  desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":150})"));
  EXPECT_EQ(desk.post("/v1/settle", about_hold(R"(,"costs":{"tokens":1})")).status, 200u);
  EXPECT_EQ(left(), "850");
}

TEST_F(HoldCalls, SettleRefusesUnitsNobodyKnows) {
  EXPECT_EQ(desk.post("/v1/settle", about_hold(R"(,"costs":{"bytes":150})")).status, 400u);
  EXPECT_EQ(left(), "600");
}

TEST_F(HoldCalls, CancelGivesEverythingBack) {
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).body, R"({"state":"cancelled"})");
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).body, R"({"state":"cancelled"})");
  EXPECT_EQ(left(), "1000");
}

TEST_F(HoldCalls, OneThatEndedTheOtherWayIsAConflict) {
  desk.post("/v1/cancel", about_hold());
  const Answer answer = desk.post("/v1/settle", about_hold());
  EXPECT_EQ(answer.status, 409u);
  EXPECT_THAT(detail(answer), HasSubstr("cancelled already"));
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"1s")")).status, 409u);
}

TEST_F(HoldCalls, RenewCountsFromNow) {
  desk.pass(9s);
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"10s")")).body, R"({"state":"active"})");
  desk.pass(9s);
  EXPECT_EQ(desk.post("/v1/cancel", about_hold()).status, 200u);
}

TEST_F(HoldCalls, RenewNeedsATime) {
  EXPECT_THAT(detail(desk.post("/v1/renew", about_hold())), HasSubstr("'ttl' is missing"));
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":0)")).status, 400u);
}

TEST_F(HoldCalls, OneThatIsGoneIsNotFound) {
  desk.pass(10s);
  for (const std::string_view path : {"/v1/settle", "/v1/cancel"}) {
    const Answer answer = desk.post(path, about_hold());
    EXPECT_EQ(answer.status, 404u) << path;
    EXPECT_THAT(detail(answer), HasSubstr(hold));
  }
  EXPECT_EQ(desk.post("/v1/renew", about_hold(R"(,"ttl":"1s")")).status, 404u);
  EXPECT_EQ(desk.post("/v1/cancel", R"({"hold":"00000000000004d2-17"})").status, 404u);
}

TEST_F(HoldCalls, NeedAnIdThatCanBeRead) {
  for (const std::string_view path : {"/v1/settle", "/v1/cancel", "/v1/renew"}) {
    EXPECT_EQ(desk.post(path, "{}").status, 400u) << path;
    EXPECT_THAT(detail(desk.post(path, "{}")), HasSubstr("'hold' is missing")) << path;
    EXPECT_THAT(detail(desk.post(path, R"({"hold":"17"})")), HasSubstr("hold is '17'")) << path;
  }
}

// --- limits and meters

TEST(Limits, ShowTheRulesInForce) {
  Desk desk({.limits = {{.name = "all", .meter = BucketSpec{100, 1s, 200}},
                        {.name = "puts",
                         .when = {{"operation", {"put", "p*"}}},
                         .per = {"client", "operation"},
                         .unit = "gas",
                         .weigh = {"operation", {{"put", 5}}},
                         .exempt = {{{"client", {"root"}}}},
                         .shadow = true,
                         .meter = SlotsSpec{3, 4, 90s}}},
             .units = {{"gas", engine::UnitScale::kMicro}}});
  const Answer answer = desk.get("/v1/limits");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(parsed(answer.body), parsed(R"({"limits":[
    {"name":"all","unit":"requests","per":[],"when":[],"exempt":[],"weigh":null,"parent":null,
     "shadow":false,"queue_max":1024,
     "meter":{"kind":"bucket","amount":1,"period":"10ms","burst":200}},
    {"name":"puts","unit":"gas","per":["client","operation"],
     "when":[{"attribute":"operation","patterns":["p*","put"]}],
     "exempt":[[{"attribute":"client","patterns":["root"]}]],
     "weigh":{"attribute":"operation","table":{"put":5}},"parent":null,"shadow":true,
     "queue_max":4,"meter":{"kind":"slots","limit":3,"queue":4,"hold":"1m30s"}}],
    "units":[{"name":"requests","scale":"whole"},{"name":"gas","scale":"micro"}],
    "attributes":["operation","client"]})"))
      << answer.body;
}

TEST(Limits, ShowMetersThatCanBeSentBackAsOverrides) {
  const std::pair<std::string_view, engine::MeterSpec> kinds[] = {
      {"bucket", BucketSpec{7, 3s, 20}},
      {"ticker", TickerSpec{.per_tick = 2, .interval = 3s, .burst = 6}},
      {"window", WindowSpec{5, 90s}},
      {"calendar", CalendarSpec{5, meter::CalendarUnit::kYear}},
      {"log", LogSpec{5, 1500ms}},
      {"slots", SlotsSpec{5, 2, 1h}}};
  for (const auto& [kind, meter] : kinds) {
    Desk desk({.limits = {{.name = "one", .meter = meter}}});
    auto shown = parsed(desk.get("/v1/limits").body).at("limits").at(0).at("meter");
    EXPECT_EQ(std::string_view(shown.at("kind").as_string()), kind);
    const Answer answer = desk.ask("PUT", "/v1/overrides/one", boost::json::serialize(shown));
    EXPECT_EQ(answer.status, 200u) << answer.body;
  }
}

TEST(Meters, ShowWhatOneKeyHasLeft) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  EXPECT_EQ(desk.get("/v1/meters?limit=per-client&key=acme").body,
            R"({"limit":"per-client","key":["acme"],"remaining":1,"capacity":2,"overridden":false,)"
            R"("waiters":0})");
}

TEST(Meters, ShowTheHeaviestKeys) {
  Desk desk(three_per_second(), {}, {.heavy_sample_every = 1});
  for (int i = 0; i < 5; ++i) desk.acquire(kAcme);
  EXPECT_THAT(desk.get("/v1/meters?limit=per-client&heaviest=3").body,
              StartsWith(R"({"limit":"per-client","heaviest":[{"key":"client=acme","units":)"));
}

TEST(Meters, AnswerProblemsToBadQuestions) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.get("/v1/meters").status, 400u);
  EXPECT_EQ(desk.get("/v1/meters?limit=per-client").status, 400u);  // a key is needed
  EXPECT_EQ(desk.get("/v1/meters?limit=per-client&key=a&key=b").status, 400u);
  EXPECT_EQ(desk.get("/v1/meters?limit=nobody&key=a").status, 404u);
  EXPECT_EQ(desk.get("/v1/meters?limit=nobody&heaviest=1").status, 404u);
  EXPECT_EQ(desk.get("/v1/meters?limit=per-client&key=a&heaviest=1").status, 400u);
  EXPECT_EQ(desk.get("/v1/meters?limit=per-client&colour=red").status, 400u);
}

TEST(Meters, ShowAtMostAThousandHeaviest) {
  Desk desk(three_per_second());
  for (const std::string_view count : {"1", "1000"}) {
    EXPECT_EQ(desk.get("/v1/meters?limit=per-client&heaviest=" + std::string(count)).status, 200u);
  }
  for (const std::string_view count : {"0", "1001", "x", "", "1x", "-1"}) {
    EXPECT_EQ(desk.get("/v1/meters?limit=per-client&heaviest=" + std::string(count)).status, 400u);
  }
}

TEST(Reset, ForgetsWhatAKeyHasUsed) {
  Desk desk(three_per_second());
  desk.acquire(kAcme);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client","key":["acme"]})").body,
            R"({"state":"reset"})");
  EXPECT_EQ(remaining(desk, "/v1/meters?limit=per-client&key=acme"), "2");
}

TEST(Reset, AnswersProblems) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/reset", R"({"key":["acme"]})").status, 400u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client"})").status, 400u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"nobody"})").status, 404u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client","key":"acme"})").status, 400u);
}

// --- overrides

constexpr std::string_view kWide = R"({"kind":"bucket","amount":3,"period":"1s","burst":50})";

TEST(Overrides, AreSetAndCleared) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/per-client?key=acme", kWide).body,
            R"({"state":"overridden"})");
  EXPECT_THAT(desk.get("/v1/meters?limit=per-client&key=acme").body,
              HasSubstr(R"("capacity":50,"overridden":true)"));
  EXPECT_EQ(desk.ask("DELETE", "/v1/overrides/per-client?key=acme").body, R"({"state":"cleared"})");
  EXPECT_THAT(desk.get("/v1/meters?limit=per-client&key=acme").body,
              HasSubstr(R"("capacity":2,"overridden":false)"));
}

TEST(Overrides, FindALimitByItsEscapedName) {
  Desk desk({.limits = {{.name = "a/b c+ü", .meter = BucketSpec{1, 1s}}}});
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/a%2Fb%20c+%C3%BC", kWide).status, 200u);
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/a/b%20c+%C3%BC", kWide).status, 404u);
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/a%2", kWide).status, 400u);
}

TEST(Overrides, AnswerProblems) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/per-client", kWide).status, 400u);
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/nobody?key=acme", kWide).status, 404u);
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/?key=acme", kWide).status, 404u);
  EXPECT_EQ(desk.ask("PUT", "/v1/overrides/per-client?key=acme", "{}").status, 400u);
  EXPECT_THAT(detail(desk.ask("PUT", "/v1/overrides/per-client?key=acme",
                              R"({"kind":"log","limit":1,"window":"1s"})")),
              HasSubstr("another kind of meter"));
  EXPECT_THAT(detail(desk.ask("PUT", "/v1/overrides/per-client?key=acme",
                              R"({"kind":"bucket","amount":0,"period":"1s"})")),
              HasSubstr("override"));
  EXPECT_EQ(desk.ask("DELETE", "/v1/overrides/per-client?key=acme").status, 404u);
}

// --- the server

TEST(Reload, AsksTheHost) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/reload", "").body, R"({"state":"reloaded"})");
  EXPECT_EQ(desk.host.reloads, 1);
}

TEST(Reload, TellsWhatIsWrongWithTheConfiguration) {
  Desk desk(three_per_second());
  desk.host.reload_status = bad_argument("weir.yaml:3:1: period is '0s'");
  const Answer answer = desk.post("/v1/reload", "");
  EXPECT_EQ(answer.status, 422u);
  EXPECT_EQ(text_at(answer, "type"), "urn:weir:bad-configuration");
  EXPECT_EQ(detail(answer), "weir.yaml:3:1: period is '0s'");
  desk.host.reload_status = Error{ErrorCode::kUnavailable, "disk"};
  EXPECT_EQ(desk.post("/v1/reload", "").status, 503u);
}

TEST(Metrics, AreTheHostsText) {
  const Answer answer = Desk(three_per_second()).get("/metrics");
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.content_type, "text/plain; version=0.0.4");
  EXPECT_EQ(answer.body, "weir_decisions_total 7\n");
}

TEST(Health, IsTold) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.get("/healthz").body, "ok\n");
  EXPECT_EQ(desk.get("/readyz").body, "ready\n");
  desk.host.not_ready_because = "the store does not answer";
  const Answer answer = desk.get("/readyz");
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(detail(answer), "the store does not answer");
}

TEST(Events, AreAStreamThatTheServerDrives) {
  Desk desk({.limits = {{.name = "all", .meter = WindowSpec{5, 1h}},
                        {.name = "keyed", .per = {"client"}, .meter = WindowSpec{5, 1h}}}},
            {}, {.heavy_sample_every = 1});
  const Answer answer = desk.get("/v1/events");
  EXPECT_TRUE(answer.is_stream);
  EXPECT_EQ(answer.content_type, "text/event-stream");

  desk.acquire(kAcme);
  const std::string event = desk.api.event(7, desk.clock.now());
  EXPECT_THAT(event, StartsWith("id: 7\nevent: state\ndata: {"));
  ASSERT_TRUE(event.ends_with("}\n\n"));
  const std::size_t data = event.find("data: ") + 6;
  EXPECT_EQ(event.find('\n', data), event.size() - 2);  // one line of data
  const auto state = parsed(std::string_view(event).substr(data, event.size() - 2 - data));
  EXPECT_EQ(state.at("keys"), 2);
  EXPECT_EQ(state.at("at"), "2027-01-15T08:00:00.000000000Z");
  EXPECT_EQ(state.at("limits").at(0).at("remaining"), 4);
  EXPECT_EQ(state.at("limits").at(1).at("heaviest").at(0).at("key"), "client=acme");
}

TEST(Events, ShowABoundedNumberOfLimits) {
  RuleSetSpec spec;
  for (int i = 0; i < 70; ++i) {
    spec.limits.push_back({.name = "l" + std::to_string(i), .meter = WindowSpec{5, 1h}});
  }
  Desk desk(spec);
  const std::string event = desk.api.event(1, desk.clock.now());
  EXPECT_THAT(event, HasSubstr("\"l63\""));
  EXPECT_THAT(event, Not(HasSubstr("\"l64\"")));
}

}  // namespace
}  // namespace weir::wire::http
