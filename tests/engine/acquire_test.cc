#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

// --- up to n

RuleSetSpec two_token_limits() {
  return {.limits = {{.name = "wide", .unit = "tokens", .meter = WindowSpec{10, 1min}},
                     {.name = "narrow", .unit = "tokens", .meter = LogSpec{6, 1min}},
                     {.name = "count", .meter = WindowSpec{100, 1min}}},
          .units = {{"tokens"}}};
}

TEST(UpTo, GrantsTheLeastThatAllLimitsHave) {
  auto engine = engine_of(two_token_limits());
  const auto decision =
      engine::acquire(*engine, RequestOf().costing("tokens", 8), {.up_to = "tokens"}, kStart);
  EXPECT_TRUE(decision->allowed());
  EXPECT_EQ(decision->granted, 6);
  EXPECT_EQ(remaining(*engine, "wide", {}, kStart), 4);
  EXPECT_EQ(remaining(*engine, "narrow", {}, kStart), 0);
}

TEST(UpTo, GrantsAllThatWasAskedWhereThereIsMore) {
  auto engine = engine_of(two_token_limits());
  const auto decision =
      engine::acquire(*engine, RequestOf().costing("tokens", 5), {.up_to = "tokens"}, kStart);
  EXPECT_EQ(decision->granted, 5);
}

TEST(UpTo, LeavesOtherUnitsAlone) {
  auto engine = engine_of(two_token_limits());
  RequestOf ask;
  ask.costing("tokens", 8).costing(3);
  ASSERT_TRUE(engine::acquire(*engine, ask, {.up_to = "tokens"}, kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "count", {}, kStart), 97);
}

TEST(UpTo, RefusesWhenNotEvenOneIsLeft) {
  auto engine = engine_of(two_token_limits());
  ASSERT_TRUE(engine->decide(RequestOf().costing("tokens", 6), kStart)->allowed());
  const auto denied =
      engine::acquire(*engine, RequestOf().costing("tokens", 8), {.up_to = "tokens"}, kStart);
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
  RequestOf ask({{"op", "put"}});
  ask.costing("tokens", 8);
  EXPECT_EQ(engine::acquire(*engine, ask, {.up_to = "tokens"}, kStart)->granted, 3);
  EXPECT_EQ(remaining(*engine, "one", {}, kStart), 1);
}

TEST(UpTo, IsNotLimitedByAShadow) {
  auto engine = engine_of(
      {.limits = {{.name = "dark", .unit = "tokens", .shadow = true, .meter = WindowSpec{1, 1s}},
                  {.name = "light", .unit = "tokens", .meter = WindowSpec{5, 1s}}},
       .units = {{"tokens"}}});
  EXPECT_EQ(engine::acquire(*engine, RequestOf().costing("tokens", 8), {.up_to = "tokens"}, kStart)
                ->granted,
            5);
}

TEST(UpTo, GrantsEverythingInAUnitThatNoLimitCounts) {
  auto engine =
      engine_of({.limits = {{.name = "count", .meter = WindowSpec{1, 1s}}}, .units = {{"tokens"}}});
  EXPECT_EQ(engine::acquire(*engine, RequestOf().costing("tokens", 8), {.up_to = "tokens"}, kStart)
                ->granted,
            8);
}

TEST(UpTo, IsAnErrorForAUnitThatTheRequestDoesNotCost) {
  auto engine = engine_of(two_token_limits());
  const auto answer = engine::acquire(*engine, RequestOf(), {.up_to = "tokens"}, kStart);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(engine->usage().keys, 0u);
}

// --- booking ahead

RuleSetSpec two_buckets() {
  return {.limits = {{.name = "fast", .meter = BucketSpec{.amount = 1, .period = 1s}},
                     {.name = "slow", .meter = BucketSpec{.amount = 1, .period = 5s}}}};
}

TEST(Booking, StartsWhenTheLastLimitFits) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto booked = engine::acquire(*engine, RequestOf(), {.book_within = 10s}, kStart);
  EXPECT_TRUE(booked->allowed());
  EXPECT_EQ(booked->earliest, kStart + 5s);
}

TEST(Booking, IsChargedAtItsStartInEveryLimit) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine::acquire(*engine, RequestOf(), {.book_within = 10s}, kStart)->allowed());
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->outcome("fast")->earliest, kStart + 6s);
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->outcome("slow")->earliest, kStart + 10s);
}

TEST(Booking, IsRefusedOneNanosecondTooSoon) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 5s - 1ns}, kStart)->verdict,
            Verdict::kDenied);
  EXPECT_TRUE(engine::acquire(*engine, RequestOf(), {.book_within = 5s}, kStart)->allowed());
}

TEST(Booking, QueuesBehindEarlierBookings) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->earliest,
              kStart + i * 5s);
  }
}

TEST(Booking, HoldsFromTheStartOn) {
  auto engine = engine_of(two_buckets());
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  const auto booked =
      engine::acquire(*engine, RequestOf(), {.hold = 1min, .book_within = 10s}, kStart);
  EXPECT_EQ(booked->hold_expires, kStart + 5s + 1min);
}

TEST(Booking, StartsNowWhereThereIsRoom) {
  auto engine = engine_of(two_buckets());
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 10s}, kStart)->earliest, kStart);
}

// At once, so that nobody takes it for a denial that waiting would help.
TEST(Booking, IsRefusedWhereOneLimitCannotBook) {
  for (const MeterSpec& meter :
       std::vector<MeterSpec>{WindowSpec{9, 1s}, CalendarSpec{9}, SlotsSpec{.limit = 9}}) {
    RuleSetSpec spec = two_buckets();
    spec.limits.push_back({.name = "other", .meter = meter});
    auto engine = engine_of(spec);
    for (const bool is_peek : {true, false}) {
      const auto refused = engine->decide(
          Ask{.request = RequestOf(), .book_within = 1h, .is_peek = is_peek}, kStart);
      ASSERT_FALSE(refused) << meter.index();
      EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
      EXPECT_TRUE(refused.error().message.starts_with("limit 'other': it cannot be booked ahead"))
          << refused.error().message;
    }
    EXPECT_EQ(engine->usage().keys, 0u);
    EXPECT_EQ(engine->usage().holds, 0u);
  }
}

// --- booking at meters other than buckets

RuleSetSpec one_meter(MeterSpec meter) {
  return {.limits = {{.name = "meter", .meter = std::move(meter)}}};
}

Instant start_of(Engine& engine, std::int64_t cost, Instant now = kStart) {
  const auto booked = engine::acquire(engine, RequestOf().costing(cost), {.book_within = 24h}, now);
  EXPECT_TRUE(booked) << (booked ? "" : booked.error().message);
  return booked && booked->allowed() ? booked->earliest : kForever;
}

TEST(Booking, AtATickerStartsAtTheTickThatBringsEnough) {
  auto engine = engine_of(one_meter(TickerSpec{2, 10s, 4}));
  EXPECT_EQ(start_of(*engine, 4), kStart);
  EXPECT_EQ(start_of(*engine, 3), kStart + 20s);
  EXPECT_EQ(start_of(*engine, 1), kStart + 20s) << "what the second tick brings besides";
  EXPECT_EQ(start_of(*engine, 4), kStart + 40s);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 40s)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 50s)->allowed());
  EXPECT_EQ(start_of(*engine, 5, kStart + 50s), kForever) << "more than it can hold";
}

// Until its start it would have been full, and lost ticks: they must not be spent before.
TEST(Booking, AtATickerLeavesEnoughForAStartThatIsLate) {
  RuleSetSpec spec = one_meter(TickerSpec{1, 1s, 5});
  spec.limits.push_back({.name = "slow", .unit = "tokens", .meter = BucketSpec{1, 100s}});
  spec.units = {{"tokens"}};
  auto engine = engine_of(spec);
  RequestOf late;
  late.costing(4).costing("tokens", 1);
  ASSERT_TRUE(engine->decide(RequestOf().costing(0).costing("tokens", 1), kStart)->allowed());
  ASSERT_EQ(engine::acquire(*engine, late, {.book_within = 1h}, kStart)->earliest, kStart + 100s);
  RequestOf now;
  now.costing(1).costing("tokens", 0);
  int admitted = 0;
  for (int second = 90; second < 100; ++second) {
    if (engine->decide(now, kStart + second * 1s)->allowed()) ++admitted;
  }
  EXPECT_LE(admitted, 1) << "with the four that start then no more than it holds at once";
}

TEST(Booking, AtALogStartsWhenEnoughIsForgotten) {
  auto engine = engine_of(one_meter(LogSpec{3, 10s}));
  EXPECT_EQ(start_of(*engine, 2), kStart);
  EXPECT_EQ(start_of(*engine, 1, kStart + 4s), kStart + 4s);
  EXPECT_EQ(start_of(*engine, 2, kStart + 5s), kStart + 10s);
  EXPECT_EQ(start_of(*engine, 3, kStart + 5s), kStart + 20s);
  EXPECT_EQ(start_of(*engine, 4, kStart + 5s), kForever) << "more than it can hold";
}

// It counts at once, and until a window after its start.
TEST(Booking, AtALogIsNotForgottenBeforeAWindowHasPassedSinceItsStart) {
  auto engine = engine_of(one_meter(LogSpec{1, 10s}));
  EXPECT_EQ(start_of(*engine, 1), kStart);
  EXPECT_EQ(start_of(*engine, 1), kStart + 10s);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 20s - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 20s)->allowed());
}

TEST(Booking, ThatIsCancelledLeavesAllMetersAsTheyWere) {
  for (const MeterSpec& meter : std::vector<MeterSpec>{TickerSpec{1, 10s, 2}, LogSpec{2, 10s}}) {
    auto engine = engine_of(one_meter(meter));
    ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
    const auto booked =
        engine::acquire(*engine, RequestOf(), {.hold = 1min, .book_within = 1h}, kStart);
    ASSERT_GT(booked->earliest, kStart);
    EXPECT_EQ(engine::cancel(*engine, booked->hold, kStart), HoldState::kCancelled);
    EXPECT_EQ(remaining(*engine, "meter", {}, kStart), 0) << meter.index();
  }
}

// Starts as work has them: booked or at once, in any order of asking, some kept waiting by another
// limit. No interval holds more of them than the meter promises.
class BookedStarts : public ::testing::TestWithParam<MeterSpec> {
 protected:
  struct Start {
    Instant at;
    std::int64_t cost;
  };

  // The most that may start from one of them to another, both included.
  static Wide most(const MeterSpec& spec, Instant from, Instant to) {
    if (const auto* bucket = std::get_if<BucketSpec>(&spec)) {
      return bucket->burst + Wide{(to - from).count()} * bucket->amount / bucket->period.count();
    }
    if (const auto* ticker = std::get_if<TickerSpec>(&spec)) {
      const std::int64_t every_ns = ticker->interval.count();
      return ticker->burst + Wide{to.ns / every_ns - from.ns / every_ns} * ticker->per_tick;
    }
    return std::get<LogSpec>(spec).limit;
  }
};

TEST_P(BookedStarts, NeverExceedWhatTheMeterPromises) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto draw = [&](std::int64_t least, std::int64_t most) {
      return std::uniform_int_distribution<std::int64_t>(least, most)(random);
    };
    RuleSetSpec spec = one_meter(GetParam());
    spec.limits.push_back({.name = "slow", .unit = "tokens", .meter = BucketSpec{1, 3s, 2}});
    spec.units = {{"tokens"}};
    auto engine = engine_of(spec);
    std::vector<Start> starts;
    Instant now = kStart;
    for (int i = 0; i < 250; ++i) {
      now = now + Duration{draw(0, 3) * draw(0, 700'000'000)};
      RequestOf request;
      const std::int64_t cost = draw(1, 5);
      request.costing(cost).costing("tokens", draw(0, 3) == 0 ? 1 : 0);
      const Duration within{draw(0, 1) * draw(1, 20'000'000'000)};
      const auto answer = engine::acquire(*engine, request, {.book_within = within}, now);
      ASSERT_TRUE(answer) << answer.error().message;
      if (answer->allowed()) starts.push_back({answer->earliest, cost});
    }
    std::stable_sort(starts.begin(), starts.end(),
                     [](const Start& a, const Start& b) { return a.at < b.at; });
    const auto* log = std::get_if<LogSpec>(&GetParam());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      Wide sum = 0;
      for (std::size_t j = i; j < starts.size(); ++j) {
        if (log != nullptr && starts[j].at - starts[i].at >= log->window) break;
        sum += starts[j].cost;
        // Whoever starts together is judged with the last of them.
        if (j + 1 < starts.size() && starts[j + 1].at == starts[j].at) continue;
        ASSERT_LE(sum, most(GetParam(), starts[i].at, starts[j].at))
            << "from " << (starts[i].at - kStart).count() << " to "
            << (starts[j].at - kStart).count();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EachMeter, BookedStarts,
                         ::testing::Values(MeterSpec{BucketSpec{7, 2s, 9}},
                                           MeterSpec{TickerSpec{3, 1s, 8}},
                                           MeterSpec{LogSpec{12, 3s}}));

TEST(Booking, IsNotRefusedByALimitThatItTakesNothingOf) {
  RuleSetSpec spec = two_buckets();
  spec.units = {{"tokens"}};
  spec.limits.push_back({.name = "window", .unit = "tokens", .meter = WindowSpec{9, 1s}});
  auto engine = engine_of(spec);
  ASSERT_TRUE(engine->decide(RequestOf().costing("tokens", 0), kStart)->allowed());
  EXPECT_TRUE(
      engine::acquire(*engine, RequestOf().costing("tokens", 0), {.book_within = 1h}, kStart)
          ->allowed());
  EXPECT_FALSE(
      engine::acquire(*engine, RequestOf().costing("tokens", 1), {.book_within = 1h}, kStart));
}

TEST(Booking, IsRefusedForMoreThanALimitCanEverHold) {
  auto engine = engine_of(two_buckets());
  EXPECT_EQ(engine::acquire(*engine, RequestOf().costing(2), {.book_within = 1h}, kStart)->verdict,
            Verdict::kNever);
}

TEST(Booking, IsAnErrorForANegativeSpan) {
  auto engine = engine_of(two_buckets());
  EXPECT_FALSE(engine::acquire(*engine, RequestOf(), {.book_within = -1ns}, kStart));
  EXPECT_EQ(engine->usage().keys, 0u);
}

RuleSetSpec booked_in_shadow(MeterSpec tried) {
  return {.limits = {{.name = "rate", .meter = BucketSpec{1, 5s}},
                     {.name = "tried", .shadow = true, .meter = std::move(tried)}}};
}

// A limit in shadow changes no answer.
TEST(Booking, IsMadeWhateverIsInShadow) {
  for (const MeterSpec& tried : std::vector<MeterSpec>{BucketSpec{10, 1h}, BucketSpec{1, 1h},
                                                       WindowSpec{10, 1h}, LogSpec{1, 1h}}) {
    auto engine = engine_of(booked_in_shadow(tried));
    ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
    const auto booked = engine::acquire(*engine, RequestOf(), {.book_within = 10s}, kStart);
    EXPECT_TRUE(booked->allowed()) << tried.index();
    EXPECT_EQ(booked->earliest, kStart + 5s);
  }
}

TEST(Booking, IsCountedInShadowByAMeterThatWouldTakeItsStart) {
  const auto left_after_one_and_a_booking = [](const MeterSpec& tried) {
    auto engine = engine_of(booked_in_shadow(tried));
    EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
    EXPECT_TRUE(
        engine::acquire(*engine, RequestOf(), {.hold = 1h, .book_within = 10s}, kStart)->allowed());
    return remaining(*engine, "tried", {}, kStart + 5s);
  };
  EXPECT_EQ(left_after_one_and_a_booking(BucketSpec{10, 1h}), 8);
  EXPECT_EQ(left_after_one_and_a_booking(BucketSpec{1, 1h}), 0);
  EXPECT_EQ(left_after_one_and_a_booking(LogSpec{10, 1h}), 8);
  EXPECT_EQ(left_after_one_and_a_booking(WindowSpec{10, 1h}), 9);
}

}  // namespace
}  // namespace weir::engine
