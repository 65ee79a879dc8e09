#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::BucketSpec;
using engine::CalendarSpec;
using engine::LogSpec;
using engine::SlotsSpec;
using engine::TickerSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string remaining(Desk& desk, std::string_view target) {
  return text_at(desk.get(target), "remaining");
}

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

TEST(Limits, ShowHowTheyAreShared) {
  Desk desk(
      {.limits = {{.name = "strict",
                   .meter = BucketSpec{100, 1s, 200},
                   .shared = engine::SharedSpec{engine::Outage::kLocal}},
                  {.name = "leased",
                   .meter = BucketSpec{100, 1s, 200},
                   .shared = engine::SharedSpec{engine::Outage::kDeny, engine::LeaseSpec{}}}}});
  const std::string body = desk.get("/v1/limits").body;
  EXPECT_NE(body.find(R"("shared":{"mode":"strict","outage":"local"})"), std::string::npos) << body;
  EXPECT_NE(
      body.find(R"("shared":{"mode":"leased","outage":"deny","lease":{"most":20,"length":"1s"}})"),
      std::string::npos)
      << body;
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
              StartsWith(R"({"limit":"per-client","heaviest":[{"key":["acme"],"units":5}]})"));
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

TEST(Reset, EndsTheHoldsOfAKeyIfAsked) {
  Desk desk(three_per_second());
  const std::string body = R"({"attributes":{"client":"acme"},"hold":"60s"})";
  desk.acquire(body);
  desk.acquire(body);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client","key":["acme"],"holds":false})").body,
            R"({"state":"reset"})");
  EXPECT_EQ(desk.engine->usage().holds, 2u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client","key":["acme"],"holds":true})").body,
            R"({"state":"reset","holds":2})");
  EXPECT_EQ(desk.engine->usage().holds, 0u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"per-client","key":["acme"],"holds":1})").status,
            400u);
  EXPECT_EQ(desk.post("/v1/reset", R"({"limit":"nobody","holds":true})").status, 404u);
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

}  // namespace
}  // namespace weir::wire::http
