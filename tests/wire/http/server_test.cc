#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/wire/http/support.h"

namespace weir::wire::http {
namespace {

using engine::RuleSetSpec;
using engine::WindowSpec;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Reload, AsksTheHost) {
  Desk desk(three_per_second());
  EXPECT_EQ(desk.post("/v1/reload", "").body, R"({"state":"reloaded"})");
  EXPECT_EQ(desk.host.reloads, 1);
}

TEST(Reload, IsAnsweredOnceItIsDone) {
  Desk desk(three_per_second());
  desk.host.reloads_later = true;
  desk.post("/v1/reload", "");
  ASSERT_TRUE(desk.waiting);
  desk.host.waiting_reload(Done{});
  ASSERT_EQ(desk.later.size(), 1u);
  EXPECT_EQ(desk.later[0].status, 200u);
  EXPECT_EQ(desk.later[0].body, R"({"state":"reloaded"})");
  desk.post("/v1/reload", "");
  desk.host.waiting_reload(bad_argument("weir.yaml:3:1: period is '0s'"));
  ASSERT_EQ(desk.later.size(), 2u);
  EXPECT_EQ(desk.later[1].status, 422u);
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
  desk.host.not_ready_because = "state: the store does not answer";
  const Answer answer = desk.get("/readyz");
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(detail(answer), "state: the store does not answer");
}

TEST(Health, NamesOnlyThePartsToAClientWithoutARole) {
  Desk desk(three_per_second());
  desk.host.not_ready_because = "state: /var/lib/weir/state.db: disk I/O error";
  desk.role = Role::kNobody;
  const Answer answer = desk.get("/readyz");
  EXPECT_EQ(answer.status, 503u);
  EXPECT_EQ(detail(answer), "state; a token with the role observe is told more");
  desk.role = Role::kObserve;
  EXPECT_EQ(detail(desk.get("/readyz")), "state: /var/lib/weir/state.db: disk I/O error");
}

TEST(Events, AreAStreamThatTheServerDrives) {
  Desk desk({.limits = {{.name = "all", .meter = WindowSpec{5, 1h}},
                        {.name = "keyed", .per = {"client"}, .meter = WindowSpec{5, 1h}}}},
            {}, {.heavy_sample_every = 1});
  const Answer answer = desk.get("/v1/events");
  EXPECT_TRUE(answer.is_stream);
  EXPECT_EQ(answer.content_type, "text/event-stream");

  desk.acquire(kAcme);
  const std::string event = desk.api.event(desk.clock.now());
  EXPECT_THAT(event, StartsWith("event: state\ndata: {"));
  ASSERT_TRUE(event.ends_with("}\n\n"));
  const std::size_t data = event.find("data: ") + 6;
  EXPECT_EQ(event.find('\n', data), event.size() - 2);  // one line of data
  const auto state = parsed(std::string_view(event).substr(data, event.size() - 2 - data));
  EXPECT_EQ(state.at("keys"), 2);
  EXPECT_EQ(state.at("at"), "2027-01-15T08:00:00.000000000Z");
  EXPECT_EQ(state.at("limits").at(0).at("remaining"), 4);
  EXPECT_EQ(state.at("limits").at(1).at("heaviest").at(0).at("key").at(0), "acme");
}

TEST(Events, ShowABoundedNumberOfLimits) {
  RuleSetSpec spec;
  for (int i = 0; i < 70; ++i) {
    spec.limits.push_back({.name = "l" + std::to_string(i), .meter = WindowSpec{5, 1h}});
  }
  Desk desk(spec);
  const std::string event = desk.api.event(desk.clock.now());
  EXPECT_THAT(event, HasSubstr("\"l63\""));
  EXPECT_THAT(event, Not(HasSubstr("\"l64\"")));
}

}  // namespace
}  // namespace weir::wire::http
