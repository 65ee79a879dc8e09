#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"
#include "weir/engine/print.h"

namespace weir::engine {
namespace {

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
  EXPECT_TRUE(engine->decide(RequestOf({{"client", "ab"}, {"env", "c"}}), kStart)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf({{"client", "a"}, {"env", "bc"}}), kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf({{"env", "c"}, {"client", "ab"}}), kStart)->allowed());
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
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->binding()->limit, "late");
}

TEST(Engine, GivesTheEarliestInstantAtWhichTheWholeRequestFits) {
  auto engine =
      engine_of({.limits = {{.name = "soon", .meter = BucketSpec{.amount = 1, .period = 1s}},
                            {.name = "late", .meter = LogSpec{.limit = 1, .window = 7s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->earliest, kStart + 7s);
  EXPECT_EQ(denied->retry_after(kStart), 7s);
  EXPECT_FALSE(engine->decide(RequestOf(), denied->earliest - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), denied->earliest)->allowed());
}

TEST(Engine, SaysOfEachLimitWhenItAloneWouldAdmit) {
  auto engine =
      engine_of({.limits = {{.name = "soon", .meter = BucketSpec{.amount = 1, .period = 1s}},
                            {.name = "late", .meter = LogSpec{.limit = 1, .window = 7s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->outcome("soon")->earliest, kStart + 1s);
  EXPECT_EQ(denied->outcome("late")->earliest, kStart + 7s);
}

TEST(Engine, DoesNotKnowWhenSlotsComeFree) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1}},
                                      {.name = "rate", .meter = BucketSpec{1, 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->verdict, Verdict::kDenied);
  EXPECT_EQ(denied->earliest, kForever);
}

TEST(Engine, ReportsWhatRemainsAfterAnAdmissionAndWhatThereWasAfterARefusal) {
  auto engine = engine_of({.limits = {{.name = "wide", .meter = WindowSpec{5, 1min}},
                                      {.name = "narrow", .meter = WindowSpec{3, 1min}}}});
  const auto allowed = engine->decide(RequestOf().costing(2), kStart);
  EXPECT_EQ(allowed->outcome("wide")->remaining, 3);
  EXPECT_EQ(allowed->outcome("narrow")->remaining, 1);
  const auto denied = engine->decide(RequestOf().costing(2), kStart);
  EXPECT_EQ(denied->outcome("wide")->remaining, 3);
  EXPECT_EQ(denied->outcome("narrow")->remaining, 1);
}

TEST(Engine, ReportsTheVerdictOfEachLimitAlone) {
  auto engine = engine_of({.limits = {{.name = "wide", .meter = WindowSpec{5, 1min}},
                                      {.name = "narrow", .meter = WindowSpec{3, 1min}}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  const auto denied = engine->decide(RequestOf().costing(2), kStart);
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
  const auto allowed = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(allowed->binding(), nullptr);
  EXPECT_EQ(allowed->shortfall, 0);
  EXPECT_EQ(allowed->earliest, kStart);
}

TEST(Engine, KeepsNoMeterForAKeyThatWasOnlyDenied) {
  auto engine =
      engine_of({.limits = {{.name = "closed", .meter = WindowSpec{0, 1s}},
                            {.name = "open", .per = {"client"}, .meter = WindowSpec{5, 1s}}}});
  ASSERT_FALSE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(Engine, KeepsNamesForADecisionThatOutlivesTheRules) {
  auto engine = engine_of({.limits = {{.name = "of-the-first-rules", .meter = WindowSpec{1, 1s}}}});
  const auto decision = engine->decide(RequestOf(), kStart);
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_TRUE(engine->decide(RequestOf(), kStart));
  EXPECT_EQ(decision->outcomes()[0].limit, "of-the-first-rules");
}

// --- never and not yet

TEST(Engine, TellsNeverFromNotYet) {
  auto engine =
      engine_of({.limits = {{.name = "two", .meter = BucketSpec{.amount = 2, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  EXPECT_EQ(engine->decide(RequestOf().costing(2), kStart)->verdict, Verdict::kDenied);
  EXPECT_EQ(engine->decide(RequestOf().costing(3), kStart)->verdict, Verdict::kNever);
}

TEST(Engine, KnowsNoInstantForNever) {
  auto engine =
      engine_of({.limits = {{.name = "two", .meter = BucketSpec{.amount = 2, .period = 1s}}}});
  EXPECT_EQ(engine->decide(RequestOf().costing(3), kStart)->earliest, kForever);
}

TEST(Engine, BindsAtTheLimitThatSaysNeverBeforeOneThatSaysNotYet) {
  auto engine =
      engine_of({.limits = {{.name = "slow", .meter = WindowSpec{4, 24h}},
                            {.name = "small", .meter = BucketSpec{.amount = 3, .period = 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  const auto never = engine->decide(RequestOf().costing(4), kStart);
  EXPECT_EQ(never->verdict, Verdict::kNever);
  EXPECT_EQ(never->binding()->limit, "small");
}

TEST(Engine, NeverAdmitsAnythingWhereTheLimitIsZero) {
  auto engine = engine_of({.limits = {{.name = "closed", .meter = WindowSpec{0, 1s}}}});
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->verdict, Verdict::kNever);
}

TEST(Engine, AdmitsAZeroCostWhereNothingIsLeft) {
  auto engine = engine_of(every_kind("log"));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 2);
  const std::vector<std::int64_t> before = levels(*engine, kStart);
  EXPECT_TRUE(engine->decide(client("acme").costing(0), kStart)->allowed());
  EXPECT_EQ(levels(*engine, kStart), before);
}

// --- peek

TEST(Engine, PeeksWhatItWouldDecide) {
  auto engine =
      engine_of({.limits = {{.name = "one", .meter = BucketSpec{.amount = 1, .period = 1s}}}});
  EXPECT_TRUE(engine->peek(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto peeked = engine->peek(RequestOf(), kStart);
  EXPECT_EQ(peeked->verdict, Verdict::kDenied);
  EXPECT_EQ(peeked->earliest, kStart + 1s);
  EXPECT_EQ(peeked->binding()->limit, "one");
}

TEST(Engine, PeeksWithoutKeepingAMeter) {
  auto engine = engine_of({.limits = {{.name = "one", .meter = WindowSpec{1, 1s}}}});
  ASSERT_TRUE(engine->peek(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(Engine, PeeksWithoutTakingAHold) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1}}}});
  EXPECT_FALSE(engine->peek(RequestOf(), kStart)->hold);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Engine, StartsAnEmptyTickerWhenItIsFirstAskedAndNotWhenItIsPeekedAt) {
  auto engine = engine_of(
      {.limits = {{.name = "ticks",
                   .meter = TickerSpec{.interval = 10s, .start = meter::TickerStart::kEmpty}}}});
  ASSERT_FALSE(engine->peek(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine->decide(RequestOf(), kStart + 3s)->earliest, kStart + 13s);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 13s - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 13s)->allowed());
}

// --- shadow

TEST(Shadow, NeverRefuses) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1min}}}});
  EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 5), 5);
}

TEST(Shadow, ReportsThatItWouldHaveRefused) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1min}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto decision = engine->decide(RequestOf(), kStart);
  ASSERT_NE(decision->outcome("dark"), nullptr);
  EXPECT_TRUE(decision->outcome("dark")->shadow);
  EXPECT_EQ(decision->outcome("dark")->verdict, Verdict::kDenied);
  EXPECT_EQ(decision->outcome("dark")->earliest, kStart + 1min);
  EXPECT_EQ(decision->binding(), nullptr);
}

TEST(Shadow, CountsWhatItWouldHaveAdmitted) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{3, 1min}}}});
  ASSERT_EQ(admitted(*engine, RequestOf(), kStart, 2), 2);
  EXPECT_EQ(remaining(*engine, "dark", {}, kStart), 1);
}

TEST(Shadow, CountsNothingWhenAnEnforcedLimitRefuses) {
  auto engine =
      engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{3, 1min}},
                            {.name = "light", .meter = WindowSpec{1, 1min}}}});
  ASSERT_EQ(admitted(*engine, RequestOf(), kStart, 3), 1);
  EXPECT_EQ(remaining(*engine, "dark", {}, kStart), 2);
}

TEST(Shadow, DoesNotChangeTheEarliestInstantOfARefusal) {
  auto engine = engine_of({.limits = {{.name = "dark", .shadow = true, .meter = WindowSpec{1, 1h}},
                                      {.name = "light", .meter = BucketSpec{1, 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto denied = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(denied->binding()->limit, "light");
  EXPECT_EQ(denied->earliest, kStart + 1s);
}

}  // namespace
}  // namespace weir::engine
