#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

TEST(Override, RaisesTheLimitOfOneKeyOnly) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 3);
  EXPECT_EQ(admitted(*engine, client("other"), kStart, 5), 1);
}

TEST(Override, LowersTheLimitOfAKey) {
  auto engine = engine_of(window_of(3));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{1, 1h}, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
}

TEST(Override, KeepsWhatWasUsed) {
  auto engine = engine_of(window_of(5));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{4, 1h}, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
}

TEST(Override, LeavesADebtWhereMoreWasUsedThanItAllows) {
  auto engine = engine_of(window_of(5));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{1, 1h}, kStart));
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), -2);
}

TEST(Override, KeepsWhatWasUsedWhenItIsCleared) {
  auto engine = engine_of(window_of(2));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{9, 1h}, kStart));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 1), 1);
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, std::nullopt, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
}

TEST(Override, IsReplacedByTheNext) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{9, 1h}, kStart));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{2, 1h}, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 2);
}

TEST(Override, WorksForEveryKindOfMeter) {
  struct Kind {
    std::string name;
    MeterSpec tight, wide;
  };
  const std::vector<Kind> kinds{
      {"bucket", BucketSpec{1, 1h}, BucketSpec{3, 1h}},
      {"ticker", TickerSpec{1, 1h, 1}, TickerSpec{3, 1h, 3}},
      {"window", WindowSpec{1, 1h}, WindowSpec{3, 1h}},
      {"calendar", CalendarSpec{1}, CalendarSpec{3}},
      {"log", LogSpec{1, 1h}, LogSpec{3, 1h}},
      {"slots", SlotsSpec{.limit = 1}, SlotsSpec{.limit = 3}},
  };
  for (const Kind& kind : kinds) {
    auto engine = engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = kind.tight}}});
    ASSERT_TRUE(engine->set_override("one", Key{"acme"}, kind.wide, kStart)) << kind.name;
    EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 3) << kind.name;
  }
}

TEST(Override, RaisesABucketByWhatItAdds) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = BucketSpec{5, 1h}}}});
  ASSERT_EQ(admitted(*engine, RequestOf(), kStart, 9), 5);
  ASSERT_TRUE(engine->set_override("rate", {}, BucketSpec{8, 1h}, kStart));
  EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 9), 3);
}

TEST(Override, CountsTimeThatRunsBackwardsAsNoTimePassed) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = BucketSpec{10, 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine->set_override("rate", {}, BucketSpec{.amount = 1, .period = 1s, .burst = 10},
                                   kStart - 5s));
  EXPECT_EQ(engine->peek(RequestOf(), kStart)->outcome("rate")->remaining, 9);
}

TEST(Override, IsSeenWhenItsKeyIsInspected) {
  auto engine = engine_of(window_of(1));
  EXPECT_FALSE(engine::inspect(*engine, "window", Key{"acme"}, kStart)->overridden);
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  EXPECT_TRUE(engine::inspect(*engine, "window", Key{"acme"}, kStart)->overridden);
  EXPECT_EQ(engine::inspect(*engine, "window", Key{"acme"}, kStart)->capacity, 3);
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, std::nullopt, kStart));
  EXPECT_FALSE(engine::inspect(*engine, "window", Key{"acme"}, kStart)->overridden);
  EXPECT_EQ(engine::inspect(*engine, "window", Key{"acme"}, kStart)->capacity, 1);
}

TEST(Override, SaysInADecisionWhatItsKeyCanHold) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  EXPECT_EQ(engine->decide(client("acme"), kStart)->outcome("window")->capacity, 3);
}

TEST(Override, IsNotSweptAway) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 48h);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart + 48h, 5), 3);
}

TEST(Override, SurvivesASwapThatChangesItsLimit) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  ASSERT_TRUE(engine->swap(rules_of(window_of(2)), kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 3);
  EXPECT_EQ(admitted(*engine, client("other"), kStart, 5), 2);
}

TEST(Override, SurvivesASwapThoughItHasTheShapeOfTheOldLimit) {
  auto engine = engine_of(window_of(3));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  ASSERT_TRUE(engine->swap(rules_of(window_of(1)), kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 3);
}

TEST(Override, EndsWhenItsLimitChangesItsKind) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{9, 1h}, kStart));
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "window", .per = {"client"}, .meter = LogSpec{2, 1h}}}}),
      kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 2);
}

TEST(Override, EndsWithItsLimit) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{9, 1h}, kStart));
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_TRUE(engine->swap(rules_of(window_of(1)), kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
  EXPECT_FALSE(engine->set_override("window", Key{"acme"}, std::nullopt, kStart));
}

// --- mistakes

void expect_refused(const Status& status, ErrorCode code, std::string_view says) {
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, code);
  EXPECT_NE(status.error().message.find(says), std::string::npos) << status.error().message;
}

TEST(Override, MustBeOfTheKindOfItsLimit) {
  auto engine = engine_of(window_of(1));
  expect_refused(engine->set_override("window", Key{"acme"}, LogSpec{3, 1h}, kStart),
                 ErrorCode::kBadArgument, "limit 'window'");
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
}

TEST(Override, MustHaveParametersThatALimitCouldHave) {
  auto engine = engine_of(window_of(1));
  expect_refused(engine->set_override("window", Key{"acme"}, WindowSpec{-1, 1h}, kStart),
                 ErrorCode::kBadArgument, "limit 'window': override: ");
  expect_refused(
      engine->set_override("window", Key{"acme"}, MeterSpec{std::shared_ptr<Gate>{}}, kStart),
      ErrorCode::kBadArgument, "limit 'window'");
}

TEST(Override, NeedsALimitThatExists) {
  auto engine = engine_of(window_of(1));
  expect_refused(engine->set_override("nobody", Key{"acme"}, WindowSpec{1, 1h}, kStart),
                 ErrorCode::kNotFound, "'nobody'");
  expect_refused(engine->set_override("nobody", Key{"acme"}, std::nullopt, kStart),
                 ErrorCode::kNotFound, "'nobody'");
}

TEST(Override, NeedsAValueForEachAttributeOfTheKey) {
  auto engine = engine_of(window_of(1));
  expect_refused(engine->set_override("window", Key{}, WindowSpec{1, 1h}, kStart),
                 ErrorCode::kBadArgument, "[client]");
  expect_refused(engine->set_override("window", Key{"a", "b"}, WindowSpec{1, 1h}, kStart),
                 ErrorCode::kBadArgument, "2 values");
}

TEST(Override, CannotBeClearedWhereThereIsNone) {
  auto engine = engine_of(window_of(1));
  expect_refused(engine->set_override("window", Key{"acme"}, std::nullopt, kStart),
                 ErrorCode::kNotFound, "'window'");
}

// --- bounds

TEST(Override, IsRefusedBeyondAsManyKeysAsTheEngineKeeps) {
  auto engine = engine_of(window_of(1), {.overrides_max = 2});
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{2, 1h}, kStart));
  ASSERT_TRUE(engine->set_override("window", Key{"b"}, WindowSpec{2, 1h}, kStart));
  expect_refused(engine->set_override("window", Key{"c"}, WindowSpec{2, 1h}, kStart),
                 ErrorCode::kExhausted, "overrides_max");
  EXPECT_EQ(admitted(*engine, client("c"), kStart, 5), 1);
}

TEST(Override, OfAKnownKeyMayChangeAtTheBound) {
  auto engine = engine_of(window_of(1), {.overrides_max = 1});
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{2, 1h}, kStart));
  EXPECT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{3, 1h}, kStart));
}

TEST(Override, LeavesRoomForAnotherWhenItIsCleared) {
  auto engine = engine_of(window_of(1), {.overrides_max = 1});
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{2, 1h}, kStart));
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, std::nullopt, kStart));
  EXPECT_TRUE(engine->set_override("window", Key{"b"}, WindowSpec{2, 1h}, kStart));
}

TEST(Override, LeavesRoomForAnotherWhenItsLimitGoes) {
  auto engine = engine_of(window_of(1), {.overrides_max = 1});
  ASSERT_TRUE(engine->set_override("window", Key{"a"}, WindowSpec{2, 1h}, kStart));
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_TRUE(engine->swap(rules_of(window_of(1)), kStart));
  EXPECT_TRUE(engine->set_override("window", Key{"b"}, WindowSpec{2, 1h}, kStart));
}

// Only one set of parameters is in force at a time; the former ones are nobody's.
TEST(Override, MayChangeItsParametersTenThousandTimes) {
  auto engine = engine_of(window_of(1));
  for (std::int64_t i = 1; i <= 10'000; ++i) {
    const Status status = engine->set_override("window", Key{"acme"}, WindowSpec{i, 1h}, kStart);
    ASSERT_TRUE(status) << i << ": " << status.error().message;
  }
  EXPECT_EQ(engine::inspect(*engine, "window", Key{"acme"}, kStart)->capacity, 10'000);
}

// --- reset and inspection

TEST(Reset, ForgetsWhatOneKeyHasUsed) {
  for (const MeterSpec& meter :
       {MeterSpec{BucketSpec{2, 1h}}, MeterSpec{TickerSpec{2, 1h}}, MeterSpec{WindowSpec{2, 1h}},
        MeterSpec{LogSpec{2, 1h}}, MeterSpec{CalendarSpec{2}}}) {
    auto engine = engine_of({.limits = {{.name = "one", .per = {"client"}, .meter = meter}}});
    ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
    ASSERT_EQ(admitted(*engine, client("other"), kStart, 2), 2);
    ASSERT_TRUE(engine::reset(*engine, "one", Key{"acme"}, kStart));
    EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 2) << meter.index();
    EXPECT_EQ(admitted(*engine, client("other"), kStart, 5), 0) << meter.index();
  }
}

TEST(Reset, KeepsAnOverride) {
  auto engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->set_override("window", Key{"acme"}, WindowSpec{3, 1h}, kStart));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 5), 3);
  ASSERT_TRUE(engine::reset(*engine, "window", Key{"acme"}, kStart));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 3);
}

TEST(Reset, OfAKeyThatWasNeverSeenDoesNothing) {
  auto engine = engine_of(window_of(1));
  EXPECT_TRUE(engine::reset(*engine, "window", Key{"acme"}, kStart));
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(Reset, NeedsALimitThatExists) {
  auto engine = engine_of(window_of(1));
  EXPECT_EQ(engine::reset(*engine, "nobody", Key{}, kStart).error().code, ErrorCode::kNotFound);
}

TEST(Inspection, OfAKeyThatWasNeverSeenShowsAFreshMeter) {
  auto engine = engine_of(window_of(7));
  const auto seen = engine::inspect(*engine, "window", Key{"acme"}, kStart);
  EXPECT_EQ(seen->remaining, 7);
  EXPECT_EQ(seen->capacity, 7);
  EXPECT_EQ(seen->waiters, 0u);
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST(Inspection, NeedsALimitThatExists) {
  auto engine = engine_of(window_of(7));
  EXPECT_EQ(engine::inspect(*engine, "nobody", Key{}, kStart).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace weir::engine
