#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/print.h"
#include "weir/engine/table.h"

namespace weir::engine {
namespace {

constexpr Instant kPastEnd{kInstantNsMax + 1};

// A limit of every kind, each with a key of its own; `tight` has room for 2
// requests and the others for 10.
RuleSetSpec every_kind(std::string_view tight) {
  const auto room = [&](std::string_view name) { return name == tight ? 2 : 10; };
  return {
      .limits = {
          {.name = "bucket",
           .per = {"client"},
           .meter = BucketSpec{.amount = room("bucket"), .period = 1s}},
          {.name = "ticker",
           .per = {"client"},
           .meter = TickerSpec{.interval = 1s, .burst = room("ticker")}},
          {.name = "window", .meter = WindowSpec{.limit = room("window"), .every = 1min}},
          {.name = "calendar", .per = {"client"}, .meter = CalendarSpec{.limit = room("calendar")}},
          {.name = "log", .per = {"client"}, .meter = LogSpec{.limit = room("log"), .window = 1s}},
          {.name = "slots", .meter = SlotsSpec{.limit = room("slots")}}}};
}

std::vector<std::int64_t> levels(Engine& engine, Instant now) {
  std::vector<std::int64_t> all;
  for (const std::string_view limit : {"bucket", "ticker", "calendar", "log"}) {
    all.push_back(remaining(engine, limit, {"acme"}, now));
  }
  for (const std::string_view limit : {"window", "slots"}) {
    all.push_back(remaining(engine, limit, {}, now));
  }
  return all;
}

// --- one limit

TEST(Engine, AdmitsABurstThenDeniesUntilATokenHasDripped) {
  auto engine = engine_of({.limits = {{.name = "per-client",
                                       .per = {"client"},
                                       .meter = BucketSpec{.amount = 3, .period = 1s}}}});
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  const auto denied = engine->decide(client("acme"), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->binding()->limit, "per-client");
  EXPECT_EQ(denied->earliest, kStart + 333'333'334ns);
  EXPECT_FALSE(engine->decide(client("acme"), kStart + 333'333'333ns)->allowed());
  EXPECT_TRUE(engine->decide(client("acme"), kStart + 333'333'334ns)->allowed());
}

TEST(Engine, KeepsKeysApart) {
  auto engine = engine_of(
      {.limits = {
           {.name = "one", .per = {"client"}, .meter = WindowSpec{.limit = 1, .every = 1s}}}});
  EXPECT_EQ(admitted(*engine, client("a"), kStart, 2), 1);
  EXPECT_EQ(admitted(*engine, client("b"), kStart, 2), 1);
}

TEST(Engine, KeepsKeysOfSeveralAttributesApart) {
  auto engine = engine_of({.limits = {{.name = "one",
                                       .per = {"client", "env"},
                                       .meter = WindowSpec{.limit = 1, .every = 1s}}}});
  EXPECT_TRUE(engine->decide(Ask({{"client", "ab"}, {"env", "c"}}), kStart)->allowed());
  EXPECT_TRUE(engine->decide(Ask({{"client", "a"}, {"env", "bc"}}), kStart)->allowed());
  EXPECT_FALSE(engine->decide(Ask({{"env", "c"}, {"client", "ab"}}), kStart)->allowed());
}

TEST(Engine, SharesOneMeterAmongAllWhenALimitHasNoKey) {
  auto engine =
      engine_of({.limits = {{.name = "all", .meter = WindowSpec{.limit = 1, .every = 1s}}},
                 .attributes = {"client"}});
  EXPECT_TRUE(engine->decide(client("a"), kStart)->allowed());
  EXPECT_FALSE(engine->decide(client("b"), kStart)->allowed());
}

// --- all or nothing

class EveryKind : public ::testing::TestWithParam<std::string> {};

TEST_P(EveryKind, TakesNothingFromAnyLimitWhenItRefuses) {
  auto engine = engine_of(every_kind(GetParam()));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  const std::vector<std::int64_t> before = levels(*engine, kStart);

  EXPECT_EQ(engine->decide(client("acme"), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(levels(*engine, kStart), before);
}

TEST_P(EveryKind, TakesNothingFromAnyLimitWhenItSaysNever) {
  auto engine = engine_of(every_kind(GetParam()));
  const std::vector<std::int64_t> before = levels(*engine, kStart);
  EXPECT_EQ(engine->decide(client("acme").costing(3), kStart)->verdict, Verdict::kNever);
  EXPECT_EQ(levels(*engine, kStart), before);
}

TEST_P(EveryKind, TakesFromEveryLimitWhenItAdmits) {
  auto engine = engine_of(every_kind(GetParam()));
  std::vector<std::int64_t> expected = levels(*engine, kStart);
  for (std::int64_t& level : expected) level -= 2;
  ASSERT_TRUE(engine->decide(client("acme").costing(2), kStart)->allowed());
  EXPECT_EQ(levels(*engine, kStart), expected);
}

TEST_P(EveryKind, BindsWhenItIsTheOneWithoutRoom) {
  auto engine = engine_of(every_kind(GetParam()));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  const auto denied = engine->decide(client("acme"), kStart);
  ASSERT_NE(denied->binding(), nullptr);
  EXPECT_EQ(denied->binding()->limit, GetParam());
}

TEST_P(EveryKind, NamesTheUnitsThatItLacked) {
  auto engine = engine_of(every_kind(GetParam()));
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(engine->decide(client("acme").costing(2), kStart)->shortfall, 1);
}

TEST_P(EveryKind, IsPeekedAtForNothing) {
  auto engine = engine_of(every_kind(GetParam()));
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  const std::vector<std::int64_t> before = levels(*engine, kStart);
  EXPECT_TRUE(engine->peek(client("acme"), kStart)->allowed());
  EXPECT_EQ(levels(*engine, kStart), before);
}

TEST_P(EveryKind, CountsATimeThatRunsBackwardsAsNoTimePassed) {
  auto engine = engine_of(every_kind(GetParam()));
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  const auto at_last_charge = engine->peek(client("acme"), kStart);
  const auto before_it = engine->peek(client("acme"), kStart - 48h);
  for (std::size_t i = 0; i < at_last_charge->outcomes().size(); ++i) {
    EXPECT_EQ(before_it->outcomes()[i].remaining, at_last_charge->outcomes()[i].remaining)
        << before_it->outcomes()[i].limit;
  }
}

TEST_P(EveryKind, AdmitsNoMoreWhenTimeRunsBackwards) {
  auto engine = engine_of(every_kind(GetParam()));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 1), 1);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart - 48h, 5), 1);
}

INSTANTIATE_TEST_SUITE_P(Limits, EveryKind,
                         ::testing::Values("bucket", "ticker", "window", "calendar", "log",
                                           "slots"),
                         [](const auto& tested) { return tested.param; });

TEST(Engine, BindsAtTheLimitThatKeepsARequestWaitingLongest) {
  auto engine =
      engine_of({.limits = {{.name = "soon", .meter = BucketSpec{.amount = 1, .period = 1s}},
                            {.name = "late", .meter = WindowSpec{.limit = 1, .every = 1min}},
                            {.name = "soon-too", .meter = LogSpec{.limit = 1, .window = 2s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  EXPECT_EQ(engine->decide(Ask(), kStart)->binding()->limit, "late");
}

TEST(Engine, GivesTheEarliestInstantAtWhichTheWholeRequestFits) {
  auto engine =
      engine_of({.limits = {{.name = "soon", .meter = BucketSpec{.amount = 1, .period = 1s}},
                            {.name = "late", .meter = LogSpec{.limit = 1, .window = 7s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto denied = engine->decide(Ask(), kStart);
  EXPECT_EQ(denied->earliest, kStart + 7s);
  EXPECT_EQ(denied->retry_after(kStart), 7s);
  EXPECT_FALSE(engine->decide(Ask(), denied->earliest - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(Ask(), denied->earliest)->allowed());
}

TEST(Engine, SaysOfEachLimitWhenItAloneWouldAdmit) {
  auto engine =
      engine_of({.limits = {{.name = "soon", .meter = BucketSpec{.amount = 1, .period = 1s}},
                            {.name = "late", .meter = LogSpec{.limit = 1, .window = 7s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto denied = engine->decide(Ask(), kStart);
  EXPECT_EQ(denied->outcome("soon")->earliest, kStart + 1s);
  EXPECT_EQ(denied->outcome("late")->earliest, kStart + 7s);
}

TEST(Engine, DoesNotKnowWhenSlotsComeFree) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1}},
                                      {.name = "rate", .meter = BucketSpec{1, 1s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto denied = engine->decide(Ask(), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kForever);
}

TEST(Engine, ReportsWhatRemainsAfterAnAdmissionAndWhatThereWasAfterARefusal) {
  auto engine = engine_of({.limits = {{.name = "wide", .meter = WindowSpec{5, 1min}},
                                      {.name = "narrow", .meter = WindowSpec{3, 1min}}}});
  const auto allowed = engine->decide(Ask().costing(2), kStart);
  EXPECT_EQ(allowed->outcome("wide")->remaining, 3);
  EXPECT_EQ(allowed->outcome("narrow")->remaining, 1);
  const auto denied = engine->decide(Ask().costing(2), kStart);
  EXPECT_EQ(denied->outcome("wide")->remaining, 3);
  EXPECT_EQ(denied->outcome("narrow")->remaining, 1);
}

TEST(Engine, ReportsTheVerdictOfEachLimitAlone) {
  auto engine = engine_of({.limits = {{.name = "wide", .meter = WindowSpec{5, 1min}},
                                      {.name = "narrow", .meter = WindowSpec{3, 1min}}}});
  ASSERT_TRUE(engine->decide(Ask().costing(2), kStart)->allowed());
  const auto denied = engine->decide(Ask().costing(2), kStart);
  EXPECT_EQ(denied->outcome("wide")->verdict, Verdict::kAllowed);
  EXPECT_EQ(denied->outcome("narrow")->verdict, Verdict::kDenied);
}

TEST(Engine, ReportsTheCapacityOfEachLimit) {
  auto engine = engine_of(every_kind("log"));
  const auto allowed = engine->decide(client("acme"), kStart);
  for (const Outcome& row : allowed->outcomes()) {
    EXPECT_EQ(row.capacity, row.limit == "log" ? 2 : 10) << row.limit;
  }
}

TEST(Engine, ReportsOutcomesInTheOrderOfTheRules) {
  auto engine = engine_of(every_kind("log"));
  Texts order;
  const auto decision = engine->decide(client("acme"), kStart);
  for (const Outcome& row : decision->outcomes()) order.emplace_back(row.limit);
  EXPECT_EQ(order, (Texts{"bucket", "ticker", "window", "calendar", "log", "slots"}));
}

TEST(Engine, BindsAtNoLimitWhenItAdmits) {
  auto engine = engine_of({.limits = {{.name = "one", .meter = WindowSpec{1, 1s}}}});
  const auto allowed = engine->decide(Ask(), kStart);
  EXPECT_EQ(allowed->binding(), nullptr);
  EXPECT_EQ(allowed->shortfall, 0);
  EXPECT_EQ(allowed->earliest, kStart);
}

TEST(Engine, KeepsNoMeterForAKeyThatWasOnlyDenied) {
  auto engine =
      engine_of({.limits = {{.name = "closed", .meter = WindowSpec{0, 1s}},
                            {.name = "open", .per = {"client"}, .meter = WindowSpec{5, 1s}}}});
  ASSERT_FALSE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(engine->keys(), 0u);
}

TEST(Engine, KeepsNamesForADecisionThatOutlivesTheRules) {
  auto engine = engine_of({.limits = {{.name = "of-the-first-rules", .meter = WindowSpec{1, 1s}}}});
  const auto decision = engine->decide(Ask(), kStart);
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_TRUE(engine->decide(Ask(), kStart));
  EXPECT_EQ(decision->outcomes()[0].limit, "of-the-first-rules");
}

// --- never and not yet

TEST(Engine, TellsNeverFromNotYet) {
  auto engine =
      engine_of({.limits = {{.name = "two", .meter = BucketSpec{.amount = 2, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(Ask().costing(2), kStart)->allowed());
  EXPECT_EQ(engine->decide(Ask().costing(2), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(engine->decide(Ask().costing(3), kStart)->verdict, Verdict::kNever);
}

TEST(Engine, KnowsNoInstantForNever) {
  auto engine =
      engine_of({.limits = {{.name = "two", .meter = BucketSpec{.amount = 2, .period = 1s}}}});
  EXPECT_EQ(engine->decide(Ask().costing(3), kStart)->earliest, kForever);
}

TEST(Engine, BindsAtTheLimitThatSaysNeverBeforeOneThatSaysNotYet) {
  auto engine =
      engine_of({.limits = {{.name = "slow", .meter = WindowSpec{4, 24h}},
                            {.name = "small", .meter = BucketSpec{.amount = 3, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(Ask().costing(3), kStart)->allowed());
  const auto never = engine->decide(Ask().costing(4), kStart);
  EXPECT_EQ(never->verdict, Verdict::kNever);
  EXPECT_EQ(never->binding()->limit, "small");
}

TEST(Engine, NeverAdmitsAnythingWhereTheLimitIsZero) {
  auto engine = engine_of({.limits = {{.name = "closed", .meter = WindowSpec{0, 1s}}}});
  EXPECT_EQ(engine->decide(Ask(), kStart)->verdict, Verdict::kNever);
}

// --- peek

TEST(Engine, PeeksWhatItWouldDecide) {
  auto engine =
      engine_of({.limits = {{.name = "one", .meter = BucketSpec{.amount = 1, .period = 1s}}}});
  EXPECT_TRUE(engine->peek(Ask(), kStart)->allowed());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto peeked = engine->peek(Ask(), kStart);
  EXPECT_EQ(peeked->verdict, Verdict::kDenied);
  EXPECT_EQ(peeked->earliest, kStart + 1s);
  EXPECT_EQ(peeked->binding()->limit, "one");
}

TEST(Engine, PeeksWithoutKeepingAMeter) {
  auto engine = engine_of({.limits = {{.name = "one", .meter = WindowSpec{1, 1s}}}});
  ASSERT_TRUE(engine->peek(Ask(), kStart)->allowed());
  EXPECT_EQ(engine->keys(), 0u);
}

TEST(Engine, PeeksWithoutTakingAHold) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1}}}});
  EXPECT_FALSE(engine->peek(Ask(), kStart)->hold);
  EXPECT_EQ(engine->holds(), 0u);
}

TEST(Engine, StartsAnEmptyTickerWhenItIsFirstAskedAndNotWhenItIsPeekedAt) {
  auto engine = engine_of(
      {.limits = {{.name = "ticks",
                   .meter = TickerSpec{.interval = 10s, .start = meter::TickerStart::kEmpty}}}});
  ASSERT_FALSE(engine->peek(Ask(), kStart)->allowed());
  EXPECT_EQ(engine->decide(Ask(), kStart + 3s)->earliest, kStart + 13s);
  EXPECT_FALSE(engine->decide(Ask(), kStart + 13s - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(Ask(), kStart + 13s)->allowed());
}

// --- shadow

TEST(Shadow, NeverRefuses) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1min}}}});
  EXPECT_EQ(admitted(*engine, Ask(), kStart, 5), 5);
}

TEST(Shadow, ReportsThatItWouldHaveRefused) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1min}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto decision = engine->decide(Ask(), kStart);
  ASSERT_NE(decision->outcome("dark"), nullptr);
  EXPECT_TRUE(decision->outcome("dark")->shadow);
  EXPECT_EQ(decision->outcome("dark")->verdict, Verdict::kDenied);
  EXPECT_EQ(decision->outcome("dark")->earliest, kStart + 1min);
  EXPECT_EQ(decision->binding(), nullptr);
}

TEST(Shadow, CountsWhatItWouldHaveAdmitted) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{3, 1min}}}});
  ASSERT_EQ(admitted(*engine, Ask(), kStart, 2), 2);
  EXPECT_EQ(remaining(*engine, "dark", {}, kStart), 1);
}

TEST(Shadow, CountsNothingWhenAnEnforcedLimitRefuses) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{3, 1min}},
                            {.name = "light", .meter = WindowSpec{1, 1min}}}});
  ASSERT_EQ(admitted(*engine, Ask(), kStart, 3), 1);
  EXPECT_EQ(remaining(*engine, "dark", {}, kStart), 2);
}

TEST(Shadow, DoesNotChangeTheEarliestInstantOfARefusal) {
  auto engine = engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1h}},
                                      {.name = "light", .meter = BucketSpec{1, 1s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto denied = engine->decide(Ask(), kStart);
  EXPECT_EQ(denied->binding()->limit, "light");
  EXPECT_EQ(denied->earliest, kStart + 1s);
}

// --- which limits apply

RuleSetSpec one_with(std::vector<Condition> when) {
  return {.limits = {{.name = "one", .when = std::move(when), .meter = WindowSpec{1, 1s}}},
          .attributes = {"op", "client"}};
}

bool applies(Engine& engine, const Request& request) {
  return engine.peek(request, kStart)->outcome("one") != nullptr;
}

TEST(When, HoldsForAnEqualValueOnly) {
  auto engine = engine_of(one_with({{"op", {"put"}}}));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "put"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "putt"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "pu"}})));
}

TEST(When, HoldsForAnyOfItsValues) {
  auto engine = engine_of(one_with({{"op", {"put", "post"}}}));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "put"}})));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "post"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "get"}})));
}

TEST(When, HoldsForAGlob) {
  auto engine = engine_of(one_with({{"op", {"p?t", "del*"}}}));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "put"}})));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "delete"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "post"}})));
}

TEST(When, NeedsAllOfItsConditions) {
  auto engine = engine_of(one_with({{"op", {"put"}}, {"client", {"a*"}}}));
  EXPECT_TRUE(applies(*engine, Ask({{"op", "put"}, {"client", "acme"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "put"}, {"client", "bob"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"op", "get"}, {"client", "acme"}})));
}

TEST(When, DoesNotHoldWithoutTheAttributeEvenForAStar) {
  auto engine = engine_of(one_with({{"op", {"*"}}}));
  EXPECT_TRUE(applies(*engine, Ask({{"op", ""}})));
  EXPECT_FALSE(applies(*engine, Ask()));
}

TEST(Per, LeavesOutRequestsWithoutTheKeyAttribute) {
  auto engine =
      engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{1, 1s}}}});
  EXPECT_TRUE(applies(*engine, client("")));
  EXPECT_FALSE(applies(*engine, Ask()));
}

TEST(Unit, LeavesOutRequestsThatCostNothingInIt) {
  auto engine =
      engine_of({.limits = {{.name = "one", .unit = "tokens", .meter = WindowSpec{1, 1s}}},
                 .units = {{"tokens"}}});
  EXPECT_TRUE(applies(*engine, Ask().costing("tokens", 1)));
  EXPECT_FALSE(applies(*engine, Ask()));
}

TEST(Unit, IsOneRequestUnlessARequestSaysOtherwise) {
  auto engine =
      engine_of({.limits = {{.name = "one", .meter = WindowSpec{10, 1s}}}, .units = {{"tokens"}}});
  EXPECT_EQ(engine->decide(Ask().costing("tokens", 7), kStart)->outcome("one")->cost, 1);
  EXPECT_EQ(engine->decide(Ask().costing(5), kStart)->outcome("one")->cost, 5);
  EXPECT_EQ(engine->decide(Ask().costing(0), kStart)->outcome("one")->cost, 0);
}

TEST(Unit, IsCountedInMillionthsWhereItIsAMicroUnit) {
  auto engine =
      engine_of({.limits = {{.name = "one", .unit = "pu", .meter = WindowSpec{1'000'000, 1s}}},
                 .units = {{"pu", UnitScale::kMicro}}});
  ASSERT_TRUE(engine->decide(Ask().costing("pu", 640'000), kStart)->allowed());
  EXPECT_FALSE(engine->decide(Ask().costing("pu", 360'001), kStart)->allowed());
  EXPECT_TRUE(engine->decide(Ask().costing("pu", 360'000), kStart)->allowed());
}

TEST(Exempt, LeavesOutRequestsThatMeetAllConditionsOfAGroup) {
  auto engine = engine_of(
      {.limits = {{.name = "one",
                   .exempt = {{{"client", {"root"}}, {"op", {"get"}}}, {{"client", {"probe-*"}}}},
                   .meter = WindowSpec{1, 1s}}}});
  EXPECT_FALSE(applies(*engine, Ask({{"client", "root"}, {"op", "get"}})));
  EXPECT_FALSE(applies(*engine, Ask({{"client", "probe-7"}})));
  EXPECT_TRUE(applies(*engine, Ask({{"client", "root"}, {"op", "put"}})));
  EXPECT_TRUE(applies(*engine, Ask({{"client", "root"}})));
  EXPECT_TRUE(applies(*engine, Ask()));
}

RuleSetSpec weighed() {
  return {.limits = {{.name = "one",
                      .weigh = {"op", {{"put", 5}, {"ping", 0}}},
                      .meter = WindowSpec{10, 1min}}}};
}

TEST(Weights, MultiplyTheCost) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(Ask({{"op", "put"}}).costing(2), kStart)->outcome("one")->cost, 10);
  EXPECT_EQ(remaining(*engine, "one", {}, kStart), 0);
}

TEST(Weights, AreOneForOtherValuesAndWithoutTheAttribute) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(Ask({{"op", "get"}}), kStart)->outcome("one")->cost, 1);
  EXPECT_EQ(engine->decide(Ask(), kStart)->outcome("one")->cost, 1);
}

TEST(Weights, OfZeroMakeARequestFree) {
  auto engine = engine_of(weighed());
  ASSERT_TRUE(engine->decide(Ask().costing(10), kStart)->allowed());
  EXPECT_TRUE(engine->decide(Ask({{"op", "ping"}}), kStart)->allowed());
}

TEST(Weights, MakeARequestImpossibleThatIsHeavierThanTheLimit) {
  auto engine = engine_of(weighed());
  EXPECT_EQ(engine->decide(Ask({{"op", "put"}}).costing(3), kStart)->verdict, Verdict::kNever);
}

TEST(Engine, AdmitsAZeroCostWhereNothingIsLeft) {
  auto engine = engine_of(every_kind("log"));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 2);
  const std::vector<std::int64_t> before = levels(*engine, kStart);
  EXPECT_TRUE(engine->decide(client("acme").costing(0), kStart)->allowed());
  EXPECT_EQ(levels(*engine, kStart), before);
}

TEST(Engine, AdmitsARequestToWhichNoLimitApplies) {
  auto engine = engine_of(one_with({{"op", {"put"}}}));
  const auto decision = engine->decide(Ask({{"op", "get"}}), kStart);
  EXPECT_TRUE(decision->allowed());
  EXPECT_TRUE(decision->outcomes().empty());
  EXPECT_EQ(decision->earliest, kStart);
  EXPECT_FALSE(decision->hold);
}

TEST(Engine, AdmitsEverythingWithoutLimits) {
  auto engine = engine_of({});
  EXPECT_TRUE(engine->decide(Ask(), kStart)->allowed());
}

// --- parents

RuleSetSpec family() {
  return {.limits = {{.name = "top", .when = {{"op", {"nothing"}}}, .meter = WindowSpec{4, 1min}},
                     {.name = "team",
                      .when = {{"op", {"nothing"}}},
                      .per = {"team"},
                      .parent = "top",
                      .meter = WindowSpec{3, 1min}},
                     {.name = "user",
                      .per = {"team", "user"},
                      .parent = "team",
                      .meter = WindowSpec{2, 1min}}}};
}

Ask member(std::string_view team, std::string_view user) {
  return Ask({{"team", team}, {"user", user}});
}

TEST(Parent, IsDrawnOnWithTheGrandparent) {
  auto engine = engine_of(family());
  ASSERT_TRUE(engine->decide(member("red", "ann"), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "user", {"red", "ann"}, kStart), 1);
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 2);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, RefusesForAllItsChildrenTogether) {
  auto engine = engine_of(family());
  ASSERT_EQ(admitted(*engine, member("red", "ann"), kStart, 3), 2);
  ASSERT_EQ(admitted(*engine, member("red", "bob"), kStart, 3), 1);
  EXPECT_EQ(engine->decide(member("red", "bob"), kStart)->binding()->limit, "team");
  EXPECT_EQ(remaining(*engine, "user", {"red", "bob"}, kStart), 1);
}

TEST(Parent, IsDrawnOnOnceThoughItAppliesToTheRequestItself) {
  RuleSetSpec spec = family();
  spec.limits[0].when.clear();
  spec.limits[1].when.clear();
  auto engine = engine_of(spec);
  const auto decision = engine->decide(member("red", "ann"), kStart);
  EXPECT_EQ(decision->outcomes().size(), 3u);
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 2);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, IsDrawnOnOnceByTwoChildrenOfOneRequest) {
  auto engine = engine_of({.limits = {{.name = "a", .parent = "top", .meter = WindowSpec{5, 1s}},
                                      {.name = "b", .parent = "top", .meter = WindowSpec{5, 1s}},
                                      {.name = "top", .meter = WindowSpec{5, 1s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 4);
}

TEST(Parent, IsNotDrawnOnByAChildThatDoesNotApply) {
  auto engine =
      engine_of({.limits = {{.name = "top", .when = {{"op", {"put"}}}, .meter = WindowSpec{5, 1s}},
                            {.name = "child",
                             .exempt = {{{"op", {"get"}}}},
                             .parent = "top",
                             .meter = WindowSpec{5, 1s}}}});
  ASSERT_TRUE(engine->decide(Ask({{"op", "get"}}), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 5);
}

TEST(Parent, IsNotDrawnOnByARequestExemptFromItButTheGrandparentIs) {
  RuleSetSpec spec = family();
  spec.limits[1].exempt = {{{"user", {"ann"}}}};
  auto engine = engine_of(spec);
  ASSERT_TRUE(engine->decide(member("red", "ann"), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "team", {"red"}, kStart), 3);
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 3);
}

TEST(Parent, IsReportedInTheOrderOfTheRules) {
  auto engine =
      engine_of({.limits = {{.name = "child", .parent = "top", .meter = WindowSpec{5, 1s}},
                            {.name = "other", .meter = WindowSpec{5, 1s}},
                            {.name = "top", .meter = WindowSpec{5, 1s}}}});
  Texts order;
  const auto decision = engine->decide(Ask(), kStart);
  for (const Outcome& row : decision->outcomes()) order.emplace_back(row.limit);
  EXPECT_EQ(order, (Texts{"child", "other", "top"}));
}

// --- up to n

RuleSetSpec two_token_limits() {
  return {.limits = {{.name = "wide", .unit = "tokens", .meter = WindowSpec{10, 1min}},
                     {.name = "narrow", .unit = "tokens", .meter = LogSpec{6, 1min}},
                     {.name = "count", .meter = WindowSpec{100, 1min}}},
          .units = {{"tokens"}}};
}

TEST(UpTo, GrantsTheLeastThatAllLimitsHave) {
  auto engine = engine_of(two_token_limits());
  const auto decision = engine->acquire(Ask().costing("tokens", 8), {.up_to = "tokens"}, kStart);
  EXPECT_TRUE(decision->allowed());
  EXPECT_EQ(decision->granted, 6);
  EXPECT_EQ(remaining(*engine, "wide", {}, kStart), 4);
  EXPECT_EQ(remaining(*engine, "narrow", {}, kStart), 0);
}

TEST(UpTo, GrantsAllThatWasAskedWhereThereIsMore) {
  auto engine = engine_of(two_token_limits());
  const auto decision = engine->acquire(Ask().costing("tokens", 5), {.up_to = "tokens"}, kStart);
  EXPECT_EQ(decision->granted, 5);
}

TEST(UpTo, LeavesOtherUnitsAlone) {
  auto engine = engine_of(two_token_limits());
  Ask ask;
  ask.costing("tokens", 8).costing(3);
  ASSERT_TRUE(engine->acquire(ask, {.up_to = "tokens"}, kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "count", {}, kStart), 97);
}

TEST(UpTo, RefusesWhenNotEvenOneIsLeft) {
  auto engine = engine_of(two_token_limits());
  ASSERT_TRUE(engine->decide(Ask().costing("tokens", 6), kStart)->allowed());
  const auto denied = engine->acquire(Ask().costing("tokens", 8), {.up_to = "tokens"}, kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->granted, 0);
  EXPECT_EQ(denied->earliest, kStart + 1min);
  EXPECT_EQ(remaining(*engine, "wide", {}, kStart), 4);
}

TEST(UpTo, GrantsWholeUnitsWhereAUnitWeighsMore) {
  auto engine = engine_of({.limits = {{.name = "one",
                                       .unit = "tokens",
                                       .weigh = {"op", {{"put", 3}}},
                                       .meter = WindowSpec{10, 1min}}},
                           .units = {{"tokens"}}});
  Ask ask({{"op", "put"}});
  ask.costing("tokens", 8);
  EXPECT_EQ(engine->acquire(ask, {.up_to = "tokens"}, kStart)->granted, 3);
  EXPECT_EQ(remaining(*engine, "one", {}, kStart), 1);
}

TEST(UpTo, IsNotLimitedByAShadow) {
  auto engine = engine_of(
      {.limits = {{.name = "dark", .unit = "tokens", .shadow = true, .meter = WindowSpec{1, 1s}},
                  {.name = "light", .unit = "tokens", .meter = WindowSpec{5, 1s}}},
       .units = {{"tokens"}}});
  EXPECT_EQ(engine->acquire(Ask().costing("tokens", 8), {.up_to = "tokens"}, kStart)->granted, 5);
}

TEST(UpTo, GrantsEverythingInAUnitThatNoLimitCounts) {
  auto engine =
      engine_of({.limits = {{.name = "count", .meter = WindowSpec{1, 1s}}}, .units = {{"tokens"}}});
  EXPECT_EQ(engine->acquire(Ask().costing("tokens", 8), {.up_to = "tokens"}, kStart)->granted, 8);
}

TEST(UpTo, IsAnErrorForAUnitThatTheRequestDoesNotCost) {
  auto engine = engine_of(two_token_limits());
  const auto answer = engine->acquire(Ask(), {.up_to = "tokens"}, kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(engine->keys(), 0u);
}

// --- booking ahead

RuleSetSpec two_buckets() {
  return {.limits = {{.name = "fast", .meter = BucketSpec{.amount = 1, .period = 1s}},
                     {.name = "slow", .meter = BucketSpec{.amount = 1, .period = 5s}}}};
}

TEST(Booking, StartsWhenTheLastLimitFits) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto booked = engine->acquire(Ask(), {.book_within = 10s}, kStart);
  EXPECT_TRUE(booked->allowed());
  EXPECT_EQ(booked->earliest, kStart + 5s);
}

TEST(Booking, IsChargedAtItsStartInEveryLimit) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  ASSERT_TRUE(engine->acquire(Ask(), {.book_within = 10s}, kStart)->allowed());
  EXPECT_EQ(engine->decide(Ask(), kStart)->outcome("fast")->earliest, kStart + 6s);
  EXPECT_EQ(engine->decide(Ask(), kStart)->outcome("slow")->earliest, kStart + 10s);
}

TEST(Booking, IsRefusedOneNanosecondTooSoon) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  EXPECT_EQ(engine->acquire(Ask(), {.book_within = 5s - 1ns}, kStart)->verdict, Verdict::kDenied);
  EXPECT_TRUE(engine->acquire(Ask(), {.book_within = 5s}, kStart)->allowed());
}

TEST(Booking, QueuesBehindEarlierBookings) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(engine->acquire(Ask(), {.book_within = 1h}, kStart)->earliest, kStart + i * 5s);
  }
}

TEST(Booking, HoldsFromTheStartOn) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  const auto booked = engine->acquire(Ask(), {.hold = 1min, .book_within = 10s}, kStart);
  EXPECT_EQ(booked->hold_expires, kStart + 5s + 1min);
}

TEST(Booking, StartsNowWhereThereIsRoom) {
  auto engine = engine_of(two_buckets());
  EXPECT_EQ(engine->acquire(Ask(), {.book_within = 10s}, kStart)->earliest, kStart);
}

TEST(Booking, IsRefusedWhereOneLimitCannotBook) {
  RuleSetSpec spec = two_buckets();
  spec.limits.push_back({.name = "window", .meter = WindowSpec{9, 1s}});
  auto engine = engine_of(spec);
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  EXPECT_EQ(engine->acquire(Ask(), {.book_within = 1h}, kStart)->verdict, Verdict::kDenied);
}

TEST(Booking, IsRefusedForMoreThanALimitCanEverHold) {
  auto engine = engine_of(two_buckets());
  EXPECT_EQ(engine->acquire(Ask().costing(2), {.book_within = 1h}, kStart)->verdict,
            Verdict::kNever);
}

TEST(Booking, IsAnErrorForANegativeSpan) {
  auto engine = engine_of(two_buckets());
  EXPECT_FALSE(engine->acquire(Ask(), {.book_within = -1ns}, kStart));
  EXPECT_EQ(engine->keys(), 0u);
}

// --- prepared requests

RuleSetSpec window_of(std::int64_t limit) {
  return {.limits = {{.name = "one", .per = {"client"}, .meter = WindowSpec{limit, 1min}}}};
}

TEST(Prepared, DecidesAsTheRequestItWasMadeFrom) {
  auto engine = engine_of(window_of(2));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(prepared);
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(engine->decide(*prepared, kStart)->verdict, Verdict::kDenied);
}

TEST(Prepared, FollowsARaisedLimit) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_FALSE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_TRUE(engine->swap(rules_of(window_of(2)), kStart));
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
}

TEST(Prepared, FollowsRulesWithOtherLimits) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "other", .per = {"client"}, .meter = WindowSpec{1, 1min}}}}),
      kStart));
  EXPECT_EQ(engine->decide(*prepared, kStart)->outcomes()[0].limit, "other");
}

TEST(Prepared, IsAnErrorOnceTheRulesNoLongerKnowItsAttributes) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  EXPECT_FALSE(engine->decide(*prepared, kStart));
}

TEST(Prepared, IsRefusedForABadRequest) {
  auto engine = engine_of(window_of(1));
  EXPECT_FALSE(engine->prepare(Ask({{"nobody", "knows"}})));
}

// A plan of old rules must not touch a meter that newer rules have already
// converted: slots in flight would be forgotten on the way there and back.
TEST(Prepared, DoesNotConvertAMeterBackToTheRulesItWasMadeUnder) {
  auto engine = engine_of(window_of(9));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "one", .per = {"client"}, .meter = SlotsSpec{.limit = 2}}}}),
      kStart));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "one", {"acme"}, kStart), 0);
}

// --- batches

TEST(Batch, DecidesAsOneByOne) {
  const RuleSetSpec spec = every_kind("log");
  auto batched = engine_of(spec);
  auto single = engine_of(spec);
  std::mt19937_64 random(8127);
  for (int round = 0; round < 50; ++round) {
    const Instant now = kStart + round * 100ms;
    std::deque<Ask> asks;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < random() % 40; ++i) {
      Ask& ask = asks.emplace_back();
      ask.with("client", std::to_string(random() % 5))
          .costing(static_cast<std::int64_t>(random() % 3));
      requests.push_back(ask);
    }
    std::vector<Result<Decision>> answers(requests.size(), Result<Decision>(std::in_place));
    batched->decide(requests, now, answers);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto expected = single->decide(requests[i], now);
      ASSERT_EQ(answers[i]->verdict, expected->verdict);
      ASSERT_EQ(answers[i]->earliest, expected->earliest);
      ASSERT_EQ(answers[i]->shortfall, expected->shortfall);
      ASSERT_EQ(answers[i]->binding_index, expected->binding_index);
      for (std::size_t row = 0; row < expected->outcomes().size(); ++row) {
        ASSERT_EQ(answers[i]->outcomes()[row].remaining, expected->outcomes()[row].remaining);
      }
    }
  }
}

TEST(Batch, AnswersABadRequestWithAnErrorAndTheOthersAsUsual) {
  auto engine = engine_of(window_of(1));
  Ask good = client("acme");
  Ask bad({{"nobody", "knows"}});
  const std::vector<Request> requests{good, bad, good};
  std::vector<Result<Decision>> answers(3, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  EXPECT_TRUE(answers[0]->allowed());
  EXPECT_FALSE(answers[1]);
  EXPECT_FALSE(answers[2]->allowed());
}

TEST(Batch, MayBeEmpty) {
  auto engine = engine_of(window_of(1));
  engine->decide(std::span<const Request>{}, kStart, {});
  EXPECT_EQ(engine->keys(), 0u);
}

// --- time

TEST(Engine, TakesInstantsFromTheEpochToTheEndOfTime) {
  for (const Instant now : {Instant{0}, Instant{kInstantNsMax}}) {
    auto engine = engine_of(window_of(1));
    EXPECT_TRUE(engine->decide(client("acme"), now)->allowed()) << now;
  }
}

TEST(Engine, RefusesInstantsBeforeTheEpochAndBeyondTheEndOfTime) {
  auto engine = engine_of(window_of(1));
  for (const Instant now : {Instant{-1}, kPastEnd}) {
    const auto answer = engine->decide(client("acme"), now);
    ASSERT_FALSE(answer) << now;
    EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
  }
  EXPECT_EQ(engine->keys(), 0u);
}

TEST(Engine, InspectsAtTheLastChargeWhenTimeRunsBackwards) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .meter = BucketSpec{.amount = 10, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(Ask(), kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart - 5s), 9);
}

// A meter that a sweep has dropped must not come back fresh at an instant at which
// it was not: threads read the clock at different times.
TEST(Engine, DoesNotReopenAWindowThatASweepHasForgotten) {
  auto engine = engine_of({.limits = {{.name = "three", .meter = WindowSpec{3, 1min}}}});
  int total = admitted(*engine, Ask(), kStart + 59s, 5);
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 60s);
  ASSERT_EQ(engine->keys(), 0u);
  total += admitted(*engine, Ask(), kStart + 59s, 5);
  total += admitted(*engine, Ask(), kStart + 60s, 5);
  EXPECT_LE(total, 6);
}

// --- bounds of the process

TEST(Engine, RefusesANewKeyOfAFullTableAndNamesTheLimit) {
  auto engine =
      engine_of({.limits = {{.name = "first", .meter = WindowSpec{1'000'000, 1h}},
                            {.name = "second", .per = {"client"}, .meter = WindowSpec{1, 1h}}}},
                {.keys_max = 1});
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto answer = engine->decide(client(std::to_string(i)), kStart);
    if (answer) continue;
    refused += 1;
    EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
    EXPECT_NE(answer.error().message.find("'second'"), std::string::npos);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_EQ(remaining(*engine, "first", {}, kStart), 1'000'000 - (2000 - refused));
}

// Prints of one request can share a shard; making room there for one of its keys
// must not drop the other, which has not been charged yet and so looks unused.
TEST(Engine, CountsBothKeysOfARequestThatFillOneShard) {
  RuleSetSpec spec{.limits = {{.name = "log", .per = {"a"}, .meter = LogSpec{5, 1h}},
                              {.name = "bucket", .per = {"b"}, .meter = BucketSpec{5, 1h}}}};
  const auto shard = [](std::string_view limit, std::string_view value) {
    const Print key = with_value(kSecret, {}, value);
    return print_for(seed_for(kSecret, limit), key).high >> (64 - kShardBitsMax);
  };
  std::vector<std::string> mates;  // keys of "bucket" in the shard of key "x" of "log"
  for (int i = 0; mates.size() < 120; ++i) {
    if (shard("bucket", std::to_string(i)) == shard("log", "x")) mates.push_back(std::to_string(i));
  }
  for (std::size_t filled = 20; filled < mates.size(); ++filled) {
    auto engine = engine_of(spec);
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_TRUE(engine->decide(Ask({{"b", mates[i]}}), kStart)->allowed());
    }
    ASSERT_TRUE(engine->decide(Ask({{"a", "x"}, {"b", mates[filled]}}), kStart)->allowed());
    EXPECT_EQ(remaining(*engine, "log", {"x"}, kStart), 4) << filled << " keys before";
    EXPECT_EQ(remaining(*engine, "bucket", {mates[filled]}, kStart), 4) << filled;
    for (std::size_t i = 0; i < filled; ++i) {
      ASSERT_EQ(remaining(*engine, "bucket", {mates[i]}, kStart), 4) << filled;
    }
  }
}

TEST(Engine, ChargesNothingWhenTheMemoryForLogsIsUsedUp) {
  auto engine = engine_of({.limits = {{.name = "window", .meter = WindowSpec{100, 1h}},
                                      {.name = "log", .meter = LogSpec{100, 1h}}}},
                          {.log_runs_max = 0});
  const auto answer = engine->decide(Ask(), kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kExhausted);
  EXPECT_NE(answer.error().message.find("'log'"), std::string::npos);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 100);
}

TEST(Engine, RemembersAThousandInstantsOfALogWithoutBeingToldTo) {
  auto engine = engine_of({.limits = {{.name = "log", .meter = LogSpec{1000, 1h}}}});
  for (int i = 0; i < 1000; ++i) {
    const auto answer = engine->decide(Ask(), kStart + i * 1ms);
    ASSERT_TRUE(answer) << i << ": " << answer.error().message;
    ASSERT_TRUE(answer->allowed()) << i;
  }
  EXPECT_FALSE(engine->decide(Ask(), kStart + 1s)->allowed());
}

TEST(Engine, IsNotMadeWithoutRules) { EXPECT_FALSE(Engine::create(nullptr)); }

TEST(Engine, IsNotMadeForMoreKeysThanThereAreAddresses) {
  for (int bits = 44; bits < 64; ++bits) {
    for (const std::size_t keys : {std::size_t{1} << bits, ~std::size_t{0} >> (63 - bits)}) {
      const auto engine = Engine::create(rules_of({}), {.keys_max = keys});
      ASSERT_FALSE(engine) << keys;
      EXPECT_NE(engine.error().message.find("keys_max"), std::string::npos);
    }
  }
}

TEST(Engine, IsNotMadeToSampleEveryZerothDecision) {
  EXPECT_FALSE(Engine::create(rules_of({}), {.heavy_sample_every = 0}));
}

}  // namespace
}  // namespace weir::engine
