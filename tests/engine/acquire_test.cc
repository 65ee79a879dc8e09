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

TEST(Booking, IsRefusedWhereOneLimitCannotBook) {
  RuleSetSpec spec = two_buckets();
  spec.limits.push_back({.name = "window", .meter = WindowSpec{9, 1s}});
  auto engine = engine_of(spec);
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.book_within = 1h}, kStart)->verdict,
            Verdict::kDenied);
}

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
      engine::acquire(*engine, RequestOf().costing("tokens", 1), {.book_within = 1h}, kStart)
          ->allowed());
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

TEST(Booking, IsCountedInShadowByABucketThatWouldTakeItsStart) {
  const auto left_after_one_and_a_booking = [](const MeterSpec& tried) {
    auto engine = engine_of(booked_in_shadow(tried));
    EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
    EXPECT_TRUE(
        engine::acquire(*engine, RequestOf(), {.hold = 1h, .book_within = 10s}, kStart)->allowed());
    return remaining(*engine, "tried", {}, kStart + 5s);
  };
  EXPECT_EQ(left_after_one_and_a_booking(BucketSpec{10, 1h}), 8);
  EXPECT_EQ(left_after_one_and_a_booking(BucketSpec{1, 1h}), 0);
  EXPECT_EQ(left_after_one_and_a_booking(WindowSpec{10, 1h}), 9);
}

}  // namespace
}  // namespace weir::engine
