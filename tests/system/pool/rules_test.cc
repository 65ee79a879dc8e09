// The rules as functions: pools, slots, ratios, one model's limiter.

#include <gmock/gmock.h>

#include "tests/system/pool/support.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/type_meter.h"
#include "weir/system/pool/type_shares.h"

namespace weir::system::pool {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ModelLimits documented_limits() {
  return {.rates = {.tokens_per_minute = 500'000, .requests_per_minute = 500}};
}

TEST(Pool, DividesWhatIsLeftAmongInstancesThenAmongJobs) {
  const Pool pool = make_pool(documented_limits(), {}, {10'000, 1}, 2);
  EXPECT_EQ(pool.left.tokens_per_minute, 250'000);
  EXPECT_EQ(pool.left.requests_per_minute, 250);
  EXPECT_EQ(pool.left.tokens_per_day, std::nullopt);
  EXPECT_EQ(pool.total_slots, 25);
}

TEST(Pool, KeepsUnlimitedAndUsedUpApart) {
  const Pool pool = make_pool(documented_limits(), {.minute = {500'000, 3}}, {10'000, 1}, 2);
  EXPECT_EQ(pool.left.tokens_per_minute, 0);
  EXPECT_EQ(pool.left.tokens_per_day, std::nullopt);
  EXPECT_EQ(pool.total_slots, 0);
  EXPECT_EQ(pool.whole.tokens_per_minute, 250'000);
  EXPECT_EQ(pool.whole_slots, 25);
}

TEST(Pool, IsNotConstrainedByAnEstimateOfZero) {
  const Pool pool = make_pool(documented_limits(), {}, {0, 1}, 2);
  EXPECT_EQ(pool.total_slots, 250);
  EXPECT_TRUE(make_published_pool(documented_limits(), {}, {0, 1}, 2));
  const Result<Pool> published =
      make_published_pool({.rates = {.tokens_per_minute = 1000}}, {}, {0, 1}, 2);
  ASSERT_FALSE(published);
  EXPECT_THAT(published.error().message, StartsWith("non_finite_slots:"));
}

TEST(Limits, AreRefusedByNameBeyondTheirBounds) {
  EXPECT_TRUE(validate_model("m", {.concurrent = kLimitMax}));
  const Status beyond = validate_model("m", {.concurrent = kLimitMax + 1});
  ASSERT_FALSE(beyond);
  EXPECT_THAT(beyond.error().message, HasSubstr("model 'm': concurrent is 1000000000000001"));
  EXPECT_FALSE(validate_model("m", {.rates = {.requests_per_day = 0}}));
  EXPECT_FALSE(validate_model("", {}));
  EXPECT_TRUE(validate_model(std::string(kNameBytesMax, 'n'), {}));
  EXPECT_FALSE(validate_model(std::string(kNameBytesMax + 1, 'n'), {}));
  EXPECT_TRUE(validate_amounts("usage", {kAmountMax, kAmountMax}));
  EXPECT_FALSE(validate_amounts("usage", {kAmountMax + 1, 0}));
  EXPECT_FALSE(validate_amounts("usage", {0, -1}));
}

TEST(TypeSlots, AreSevenInTheDocumentsExample) {
  const Pool pool = make_pool(documented_limits(), {}, {10'000, 1}, 2);
  const PublishedSlots published = published_slots(pool, 0.3, {10'000, 1}, 1);
  EXPECT_EQ(published.slots, 7);
  EXPECT_EQ(published.window, kMinute);
  const StrictSlots strict = strict_slots(pool, 0.3, {10'000, 1}, 1);
  EXPECT_EQ(strict.minute, 7);
  EXPECT_EQ(strict.minute_bound, Dimension::kTokensPerMinute);
  EXPECT_EQ(strict.day, kNoLimit);
  EXPECT_EQ(strict.in_flight, 7);
}

TEST(TypeSlots, RoundAsDoublesDo) {
  EXPECT_EQ(slots_of(100, 0.29, 1), 28);
  EXPECT_EQ(slots_of(100, 0.57, 1), 56);
  EXPECT_EQ(slots_of(10, 0.6, 1), 6);
}

TEST(TypeSlots, ThatRoundToZeroAreLiftedToOne) {
  const Pool pool = make_pool({.concurrent = 2}, {}, {1, 1}, 1);
  EXPECT_EQ(published_slots(pool, 0.3, {1, 1}, 0).slots, 0);
  EXPECT_EQ(published_slots(pool, 0.3, {1, 1}, 1).slots, 1);
  EXPECT_EQ(strict_slots(pool, 0.3, {1, 1}, 1).in_flight, 1);
}

// What the published rule forgets when another dimension becomes the tightest.
TEST(TypeMeter, CountsEveryDimensionAllTheTime) {
  const ModelLimits busy{.rates = {.tokens_per_minute = 1'000}, .concurrent = 2};
  const ModelLimits roomy{.rates = {.tokens_per_minute = 300}, .concurrent = 100};
  for (const CountRule rule : {CountRule::kStrict, CountRule::kSticky}) {
    TypeMeter meter(rule);
    meter.set_slots(make_pool(busy, {}, {100, 1}, 1), 1, {100, 1}, 1);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(meter.check(kStart).allowed);
      meter.take(kStart);
      meter.give_back(kStart);
    }
    meter.set_slots(make_pool(roomy, {}, {100, 1}, 1), 1, {100, 1}, 1);
    EXPECT_EQ(meter.check(kStart).allowed, rule == CountRule::kSticky);
  }
}

TEST(TypeMeter, KeepsAStartUntilTheWindowTurns) {
  TypeMeter meter;
  meter.set_slots(make_pool({.rates = {.requests_per_minute = 2}}, {}, {1, 1}, 1), 1, {1, 1}, 1);
  for (int i = 0; i < 2; ++i) {
    meter.take(kStart + 1s);
    meter.give_back(kStart + 2s);
  }
  const TypeCheck full = meter.check(kStart + 1min - 1ns);
  EXPECT_FALSE(full.allowed);
  EXPECT_EQ(full.dimension, Dimension::kRequestsPerMinute);
  EXPECT_EQ(full.retry_at, kStart + 1min);
  EXPECT_TRUE(meter.check(kStart + 1min).allowed);
}

TEST(TypeMeter, CountsJobsThatCrossAWindowAsInFlight) {
  TypeMeter meter;
  meter.set_slots(make_pool({.rates = {.requests_per_minute = 2}}, {}, {1, 1}, 1), 1, {1, 1}, 1);
  meter.take(kStart);
  meter.take(kStart);
  EXPECT_FALSE(meter.check(kStart + 1min).allowed);
  meter.give_back(kStart + 1min);
  EXPECT_TRUE(meter.check(kStart + 1min).allowed);
}

TEST(TypeMeter, ForgetsAStartThatWasUndoneInItsWindowOnly) {
  TypeMeter meter;
  meter.set_slots(make_pool({.rates = {.requests_per_minute = 1}}, {}, {1, 1}, 1), 1, {1, 1}, 1);
  const TypeMark mark = meter.take(kStart);
  meter.undo(mark);
  EXPECT_TRUE(meter.check(kStart).allowed);
  meter.take(kStart);
  meter.give_back(kStart);
  meter.take(kStart + 1min);
  meter.undo(mark);
  EXPECT_EQ(meter.started_in_minute(kStart + 1min), 1);
}

TEST(TypeMeter, AdmitsNothingWithoutAPool) {
  const TypeMeter meter;
  EXPECT_FALSE(meter.check(kStart).allowed);
}

TEST(TypeShares, AdjustTheDocumentsExample) {
  const std::vector<JobType> types{{.name = "A", .ratio = 0.3},
                                   {.name = "B", .ratio = 0.4},
                                   {.name = "C", .ratio = 0.3, .is_flexible = false}};
  TypeShares shares(types, *initial_ratios(types), {});
  shares.set_capacity(100);
  EXPECT_EQ(shares.slots(0), 30);
  EXPECT_EQ(shares.slots(1), 40);
  shares.set_in_flight(0, 5);
  shares.set_in_flight(1, 38);
  shares.set_in_flight(2, 10);
  EXPECT_TRUE(shares.adjust());
  EXPECT_NEAR(shares.ratio(0), 0.133333, 1e-6);
  EXPECT_NEAR(shares.ratio(1), 0.566667, 1e-6);
  EXPECT_EQ(shares.slots(0), 13);
  EXPECT_EQ(shares.slots(1), 56);
  EXPECT_EQ(shares.slots(2), 30);
  // 5 of 13 are more than 30 %: it gives no more.
  EXPECT_FALSE(shares.adjust());
}

TEST(TypeShares, AreDueAfterSoManyReleases) {
  const std::vector<JobType> types{{.name = "a"}};
  TypeShares shares(types, *initial_ratios(types), {.releases_per_adjustment = 2});
  shares.set_capacity(4);
  EXPECT_FALSE(shares.give_back(0)) << "nothing was in flight";
  shares.take(0);
  shares.take(0);
  EXPECT_FALSE(shares.give_back(0));
  EXPECT_TRUE(shares.give_back(0));
}

TEST(TypeShares, RefuseSettingsOutOfRange) {
  EXPECT_TRUE(validate_ratio_settings({}));
  EXPECT_FALSE(validate_ratio_settings({.high_load = 1.1}));
  EXPECT_FALSE(validate_ratio_settings({.min_ratio = -0.1}));
  EXPECT_FALSE(validate_ratio_settings({.interval = -1s}));
  EXPECT_FALSE(validate_ratio_settings({.min_capacity = -1}));
}

TEST(InitialRatios, ShareWhatIsLeftAndScaleWhatIsTooLittle) {
  const std::vector<JobType> given{{.name = "a", .ratio = 0.2}, {.name = "b", .ratio = 0.3}};
  EXPECT_THAT(*initial_ratios(given),
              ::testing::ElementsAre(::testing::DoubleEq(0.4), ::testing::DoubleEq(0.6)));
  const std::vector<JobType> rest{{.name = "a", .ratio = 0.2}, {.name = "b"}, {.name = "c"}};
  EXPECT_THAT(*initial_ratios(rest),
              ::testing::ElementsAre(0.2, ::testing::DoubleEq(0.4), ::testing::DoubleEq(0.4)));
}

TEST(InitialRatios, AreRefusedByName) {
  const auto kind = [](std::vector<JobType> types) {
    const Result<std::vector<double>> ratios = initial_ratios(types);
    return ratios ? std::string("none") : ratios.error().message;
  };
  EXPECT_THAT(kind({}), StartsWith("no_job_types:"));
  EXPECT_THAT(kind({{.name = "a", .ratio = 0.0}}), StartsWith("ratio_not_positive: job type 'a'"));
  EXPECT_THAT(kind({{.name = "a", .ratio = -1.0}}), StartsWith("ratio_not_positive:"));
  EXPECT_THAT(kind({{.name = "a", .ratio = 1.01}}), StartsWith("ratio_above_1:"));
  EXPECT_THAT(kind({{.name = "a", .ratio = 0.7}, {.name = "b", .ratio = 0.5}}),
              StartsWith("ratio_sum_exceeds_1:"));
  EXPECT_EQ(kind({{.name = "a", .ratio = 0.5}, {.name = "b", .ratio = 0.50009}}), "none");
}

TEST(DefaultWait, EndsFiveSecondsAfterTheMinute) {
  EXPECT_EQ(default_wait(kStart), 65s);
  EXPECT_EQ(default_wait(kStart + 59'999ms), 6s);
}

TEST(ModelLimiter, OwesPlacesAfterShrinking) {
  Shortage shortage;
  ModelLimiter limiter({.concurrent = 5}, LimiterRule::kStrict);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(limiter.try_reserve({}, kStart, shortage));
  limiter.set_concurrency(2);
  for (int i = 0; i < 3; ++i) limiter.fail();
  EXPECT_FALSE(limiter.try_reserve({}, kStart, shortage)) << "two still run";
  limiter.fail();
  EXPECT_TRUE(limiter.try_reserve({}, kStart, shortage));
}

TEST(ModelLimiter, RefundsInTheSameWindowAndCountsMoreInTheCurrentOne) {
  Shortage shortage;
  ModelLimiter limiter({.rates = {.tokens_per_minute = 20'000}}, LimiterRule::kStrict);
  const auto tokens = [&](Instant now) {
    return limiter.rate(Dimension::kTokensPerMinute, now).count;
  };
  auto first = limiter.try_reserve({10'000, 1}, kStart, shortage);
  auto second = limiter.try_reserve({10'000, 1}, kStart, shortage);
  limiter.finish(*first, {6'000, 1}, kStart + 1s);
  EXPECT_EQ(tokens(kStart + 1s), 16'000);
  const Overage overage = limiter.finish(*second, {15'000, 1}, kStart + 1min);
  EXPECT_EQ(overage.tokens, 5'000);
  EXPECT_EQ(tokens(kStart + 1min), 5'000);
  auto third = limiter.try_reserve({10'000, 1}, kStart + 1min, shortage);
  limiter.finish(*third, {6'000, 1}, kStart + 2min);
  EXPECT_EQ(tokens(kStart + 2min), 0);
}

TEST(ModelLimiter, RefusesAnEstimateOfZeroWhereAWindowIsFull) {
  Shortage shortage;
  const ModelLimits limits{.rates = {.tokens_per_minute = 100}};
  ModelLimiter strict(limits, LimiterRule::kStrict);
  ModelLimiter published(limits, LimiterRule::kPublished);
  for (ModelLimiter* limiter : {&strict, &published}) {
    ASSERT_TRUE(limiter->try_reserve({99, 1}, kStart, shortage));
    EXPECT_TRUE(limiter->try_reserve({0, 1}, kStart, shortage)) << "one token is left";
    ASSERT_TRUE(limiter->try_reserve({1, 1}, kStart, shortage));
    EXPECT_FALSE(limiter->try_reserve({0, 1}, kStart, shortage));
    EXPECT_EQ(shortage.dimension, Dimension::kTokensPerMinute);
    EXPECT_EQ(shortage.retry_at, kStart + 1min);
    EXPECT_FALSE(shortage.is_never);
  }
}

TEST(ModelLimiter, SaysWhenThereIsRoomAndWhenThereNeverIs) {
  Shortage shortage;
  ModelLimiter limiter({.rates = {.tokens_per_minute = 100, .tokens_per_day = 1'000}},
                       LimiterRule::kStrict);
  ASSERT_TRUE(limiter.try_reserve({100, 1}, kStart, shortage));
  EXPECT_FALSE(limiter.try_reserve({1, 1}, kStart + 1s, shortage));
  EXPECT_EQ(shortage.retry_at, kStart + 1min);
  EXPECT_FALSE(shortage.is_never);
  EXPECT_FALSE(limiter.try_reserve({101, 1}, kStart + 1min, shortage));
  EXPECT_TRUE(shortage.is_never);
}

TEST(Memory, BelongsToTheTypesByTheirRatios) {
  const std::vector<JobType> types{{.name = "a", .memory_kb = 400},
                                   {.name = "b", .memory_kb = 700}};
  const std::vector<double> ratios{0.5, 0.5};
  MemoryBudgets budgets(types, ratios, budget_kb(1'250, 0.8), Shrinking::kOwes);
  EXPECT_EQ(budgets.budget(), 1'000);
  EXPECT_TRUE(budgets.try_take(0));
  EXPECT_FALSE(budgets.try_take(0)) << "100 KB are left of its 500";
  EXPECT_FALSE(budgets.fits(1));
  std::vector<std::uint64_t> granted;
  budgets.resize(std::vector<double>{0.8, 0.2}, 1'000, granted);
  EXPECT_TRUE(budgets.try_take(0));
}

TEST(Memory, ProbeFindsSomethingHere) { EXPECT_GT(free_memory_kb(), 0); }

}  // namespace
}  // namespace weir::system::pool
