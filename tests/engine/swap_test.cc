#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

RuleSetSpec one(const MeterSpec& meter) {
  return {.limits = {{.name = "one", .per = {"client"}, .meter = meter}}, .units = {{"tokens"}}};
}

void swap_to(Engine& engine, const RuleSetSpec& spec, Instant now = kStart) {
  const Status status = engine.swap(rules_of(spec), now);
  ASSERT_TRUE(status) << status.error().message;
}

// --- what was used is kept

struct Kind {
  std::string name;
  MeterSpec narrow;  // room for 4
  MeterSpec wide;    // room for 7
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) { return out << kind.name; }

class SwapOfOneKind : public ::testing::TestWithParam<Kind> {};

TEST_P(SwapOfOneKind, KeepsWhatWasUsedWhenALimitIsRaised) {
  auto engine = engine_of(one(GetParam().narrow));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  swap_to(*engine, one(GetParam().wide));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 4);
}

TEST_P(SwapOfOneKind, KeepsWhatWasUsedWhenALimitIsLowered) {
  auto engine = engine_of(one(GetParam().wide));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  swap_to(*engine, one(GetParam().narrow));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 1);
}

TEST_P(SwapOfOneKind, KeepsWhatWasUsedThereAndBack) {
  auto engine = engine_of(one(GetParam().wide));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 7), 7);
  swap_to(*engine, one(GetParam().narrow));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 9), 0);
  swap_to(*engine, one(GetParam().wide));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 0);
}

TEST_P(SwapOfOneKind, IsSeenWhenAKeyIsInspectedBeforeItIsAskedAgain) {
  auto engine = engine_of(one(GetParam().narrow));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  swap_to(*engine, one(GetParam().wide));
  const auto seen = engine::inspect(*engine, "one", Key{"acme"}, kStart);
  EXPECT_EQ(seen->capacity, 7);
  EXPECT_EQ(seen->remaining, 4);
}

TEST_P(SwapOfOneKind, ForgetsALimitThatIsGoneAndStartsItFreshWhenItReturns) {
  auto engine = engine_of(one(GetParam().narrow));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 4), 4);
  swap_to(*engine, {.units = {{"tokens"}}, .attributes = {"client"}});
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 9);
  swap_to(*engine, one(GetParam().narrow));
  EXPECT_EQ(remaining(*engine, "one", {"acme"}, kStart), 4);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 4);
}

INSTANTIATE_TEST_SUITE_P(Meters, SwapOfOneKind,
                         ::testing::Values(Kind{"bucket", BucketSpec{4, 1h}, BucketSpec{7, 2h}},
                                           Kind{"window", WindowSpec{4, 1h}, WindowSpec{7, 2h}},
                                           Kind{"calendar", CalendarSpec{4},
                                                CalendarSpec{7, meter::CalendarUnit::kYear}},
                                           Kind{"log", LogSpec{4, 1h}, LogSpec{7, 2h}},
                                           Kind{"slots", SlotsSpec{.limit = 4},
                                                SlotsSpec{.limit = 7}}),
                         [](const auto& tested) { return tested.param.name; });

// A ticker hands its tokens over as they are, as the published workers do.
TEST(Swap, KeepsTheTokensOfATickerUpToItsNewBurst) {
  auto engine = engine_of(one(TickerSpec{7, 1h}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  swap_to(*engine, one(TickerSpec{4, 1h}));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 4);
}

TEST(Swap, GivesATickerNoTokensForAWiderBurst) {
  auto engine = engine_of(one(TickerSpec{4, 1h}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  swap_to(*engine, one(TickerSpec{7, 1h}));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 2);
}

// A conversion rounds up what was used; it must not round up again because another
// thread comes with a slightly earlier instant.
TEST(Swap, KeepsWhatWasUsedThoughTimeRunsBackwardsBetweenConversions) {
  auto engine = engine_of(one(BucketSpec{10, 1s}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  for (std::int64_t burst = 11; burst < 20; ++burst) {
    swap_to(*engine, one(BucketSpec{burst, 1h}));
    ASSERT_TRUE(engine->peek(client("acme"), burst % 2 == 0 ? kStart : kStart + 1ms));
  }
  EXPECT_EQ(engine->peek(client("acme"), kStart + 1ms)->outcome("one")->remaining, 19 - 3);
}

// A full meter is indistinguishable from none, so that whether it was swept before
// the swap makes no difference.
TEST(Swap, TreatsAMeterInItsInitialStateAsNone) {
  auto engine = engine_of(one(TickerSpec{4, 1h}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 4), 4);
  swap_to(*engine, one(TickerSpec{7, 1h}), kStart + 1h);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart + 1h, 9), 7);
}

TEST(Swap, DoesNotCallBackWhatALogHadForgottenUnderAShorterWindow) {
  auto engine = engine_of(one(LogSpec{5, 1s}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 5), 5);
  swap_to(*engine, one(LogSpec{5, 1h}), kStart + 1s);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart + 1s, 9), 5);
}

TEST(Swap, CarriesWhatWasSpentToAnotherKindOfMeter) {
  const std::vector<MeterSpec> kinds{BucketSpec{5, 1h}, TickerSpec{5, 1h}, WindowSpec{5, 1h},
                                     CalendarSpec{5}, LogSpec{5, 1h}};
  for (const MeterSpec& from : kinds) {
    for (const MeterSpec& to : kinds) {
      auto engine = engine_of(one(from));
      ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
      swap_to(*engine, one(to));
      EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 2)
          << from.index() << " to " << to.index();
    }
  }
}

TEST(Swap, CarriesNothingBetweenSlotsAndOtherKinds) {
  auto engine = engine_of(one(SlotsSpec{.limit = 5}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 5), 5);
  swap_to(*engine, one(WindowSpec{5, 1h}));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 9), 5);
  swap_to(*engine, one(SlotsSpec{.limit = 5}));
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 5);
}

TEST(Swap, ChangesNothingForLimitsThatStayAsTheyAre) {
  RuleSetSpec spec = one(WindowSpec{5, 1h});
  auto engine = engine_of(spec);
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  spec.limits.push_back({.name = "another", .meter = WindowSpec{100, 1h}});
  swap_to(*engine, spec);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 2);
}

TEST(Swap, KnowsALimitByItsNameWhereverItStands) {
  RuleSetSpec spec = one(WindowSpec{5, 1h});
  auto engine = engine_of(spec);
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 3), 3);
  spec.limits.insert(spec.limits.begin(), {.name = "first", .meter = WindowSpec{100, 1h}});
  swap_to(*engine, spec);
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 9), 2);
}

TEST(Swap, IsVisibleInTheRulesInForce) {
  auto engine = engine_of(one(WindowSpec{5, 1h}));
  const auto next = rules_of(one(WindowSpec{6, 1h}));
  ASSERT_TRUE(engine->swap(next, kStart));
  EXPECT_EQ(engine->rules(), next);
}

TEST(Swap, LeavesTheOldRulesInForceWhenThereAreNoNewOnes) {
  auto engine = engine_of(one(WindowSpec{5, 1h}));
  const auto before = engine->rules();
  EXPECT_FALSE(engine->swap(nullptr, kStart));
  EXPECT_EQ(engine->rules(), before);
}

TEST(Swap, IsRefusedBeyondTheEndOfTime) {
  auto engine = engine_of(one(WindowSpec{5, 1h}));
  EXPECT_FALSE(engine->swap(rules_of({}), Instant{kInstantNsMax + 1}));
}

TEST(Swap, OfAllLimitsForOthersOfEveryShapeWorksAgainAndAgain) {
  auto engine = engine_of({});
  for (int round = 0; round < 20; ++round) {
    RuleSetSpec spec;
    for (std::size_t i = 0; i < kLimitsMax; ++i) {
      spec.limits.push_back({.name = "limit-" + std::to_string(i),
                             .when = {{"n", {std::to_string(i)}}},
                             .meter = WindowSpec{round + 1, 1h}});
    }
    swap_to(*engine, spec);
  }
  EXPECT_EQ(admitted(*engine, RequestOf({{"n", "1000"}}), kStart, 30), 20);
}

// --- many swaps

TEST(Swap, MayChangeTheShapeOfALimitTenThousandTimes) {
  auto engine = engine_of(one(WindowSpec{1, 1h}));
  ASSERT_TRUE(engine->decide(client("old"), kStart)->allowed());
  for (std::int64_t i = 2; i <= 10'000; ++i) {
    swap_to(*engine, one(WindowSpec{i, 1h}));
    if (i % 100 == 0) {
      ASSERT_TRUE(engine->decide(client("busy"), kStart)->allowed()) << i;
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(remaining(*engine, "one", {"busy"}, kStart), 9'900);
  EXPECT_EQ(admitted(*engine, client("old"), kStart, 1), 1);
  EXPECT_EQ(remaining(*engine, "one", {"old"}, kStart), 9'998);
}

TEST(Swap, MayChangeTheKindOfALimitTenThousandTimes) {
  auto engine = engine_of(one(WindowSpec{20'000, 1h}));
  for (std::int64_t i = 1; i <= 10'000; ++i) {
    const std::int64_t room = 20'000 + i;
    swap_to(*engine, i % 2 == 0 ? one(WindowSpec{room, 1h}) : one(LogSpec{room, 1h}));
    ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed()) << i;
    if (::testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(remaining(*engine, "one", {"acme"}, kStart), 20'000);
}

TEST(Swap, MayRemoveALimitAndBringItBackTenThousandTimes) {
  auto engine = engine_of(one(WindowSpec{1, 1h}));
  const auto with = rules_of(one(WindowSpec{1, 1h}));
  const auto without = rules_of({.attributes = {"client"}});
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(engine->swap(without, kStart)) << i;
    ASSERT_TRUE(engine->swap(with, kStart)) << i;
  }
  EXPECT_EQ(admitted(*engine, client("acme"), kStart, 5), 1);
}

// --- holds across a swap

struct HoldAcrossSwap : ::testing::Test {
  // The hold is charged 4 of 10.
  HoldId hold(Engine& engine) {
    const auto decision =
        engine::acquire(engine, client("acme").costing(4), {.hold = 1min}, kStart);
    EXPECT_TRUE(decision->allowed());
    return decision->hold;
  }
  std::int64_t left(Engine& engine) { return remaining(engine, "one", {"acme"}, kStart); }
};

TEST_F(HoldAcrossSwap, CreditsTheLimitThatSurvivesInAnotherShape) {
  for (const auto& [from, to] : std::vector<std::pair<MeterSpec, MeterSpec>>{
           {BucketSpec{10, 1h}, BucketSpec{20, 1h}},
           {TickerSpec{10, 1h}, TickerSpec{20, 2h}},
           {WindowSpec{10, 1h}, WindowSpec{20, 1h}},
           {LogSpec{10, 1h}, LogSpec{20, 2h}},
           {SlotsSpec{.limit = 10}, SlotsSpec{.limit = 20}}}) {
    auto engine = engine_of(one(from));
    const HoldId id = hold(*engine);
    swap_to(*engine, one(to));
    const std::int64_t before = engine->peek(client("acme"), kStart)->outcome("one")->remaining;
    EXPECT_EQ(engine::cancel(*engine, id, kStart), HoldState::kCancelled);
    const std::int64_t after = engine->peek(client("acme"), kStart)->outcome("one")->remaining;
    EXPECT_EQ(after - before, 4) << "kind " << from.index();
  }
}

TEST_F(HoldAcrossSwap, CreditsTheLimitThatSurvivesBeforeAnybodyHasAskedIt) {
  auto engine = engine_of(one(WindowSpec{10, 1h}));
  const HoldId id = hold(*engine);
  swap_to(*engine, one(WindowSpec{20, 1h}));
  EXPECT_EQ(engine::cancel(*engine, id, kStart), HoldState::kCancelled);
  EXPECT_EQ(engine->peek(client("acme"), kStart)->outcome("one")->remaining, 20);
}

TEST_F(HoldAcrossSwap, CreditsNothingWhenTheLimitIsGone) {
  auto engine = engine_of(one(WindowSpec{10, 1h}));
  const HoldId id = hold(*engine);
  swap_to(*engine, {});
  EXPECT_EQ(engine::cancel(*engine, id, kStart), HoldState::kCancelled);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST_F(HoldAcrossSwap, CreditsNothingToALimitThatWentAndCameBack) {
  for (const MeterSpec& meter : {MeterSpec{BucketSpec{10, 1h}}, MeterSpec{WindowSpec{10, 1h}},
                                 MeterSpec{SlotsSpec{.limit = 10}}}) {
    auto engine = engine_of(one(meter));
    const HoldId id = hold(*engine);
    swap_to(*engine, {});
    swap_to(*engine, one(meter));
    ASSERT_TRUE(engine->decide(client("acme").costing(10), kStart)->allowed());
    EXPECT_EQ(engine::cancel(*engine, id, kStart), HoldState::kCancelled);
    EXPECT_EQ(left(*engine), 0) << "kind " << meter.index();
  }
}

// What was in flight in slots was not carried over, so nothing comes back either.
TEST_F(HoldAcrossSwap, CreditsNothingToSlotsThatWereAnotherKindWhenItWasCharged) {
  auto engine = engine_of(one(WindowSpec{10, 1h}));
  const HoldId id = hold(*engine);
  swap_to(*engine, one(SlotsSpec{.limit = 10}));
  ASSERT_TRUE(engine->decide(client("acme").costing(10), kStart)->allowed());
  ASSERT_TRUE(engine::settle(*engine, id, {}, kStart));
  EXPECT_EQ(left(*engine), 0);
}

TEST_F(HoldAcrossSwap, CreditsNothingToARateThatWasSlotsWhenItWasCharged) {
  auto engine = engine_of(one(SlotsSpec{.limit = 10}));
  const HoldId id = hold(*engine);
  swap_to(*engine, one(BucketSpec{10, 1h}));
  ASSERT_TRUE(engine->decide(client("acme").costing(10), kStart)->allowed());
  EXPECT_EQ(engine::cancel(*engine, id, kStart), HoldState::kCancelled);
  EXPECT_EQ(left(*engine), 0);
}

TEST_F(HoldAcrossSwap, CanBeSettledInAUnitThatTheNewRulesNoLongerKnow) {
  RuleSetSpec spec = one(SlotsSpec{.limit = 1});
  spec.limits.push_back({.name = "spent", .unit = "tokens", .meter = WindowSpec{100, 1h}});
  auto engine = engine_of(spec);
  const auto held = engine->decide(client("acme").costing("tokens", 5), kStart);
  ASSERT_TRUE(held->allowed());
  spec.limits.pop_back();
  spec.units.clear();
  swap_to(*engine, spec);
  const Cost actual[] = {{"tokens", 3}};
  const auto settled = engine::settle(*engine, held->hold, actual, kStart);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(*settled, HoldState::kSettled);
  EXPECT_EQ(left(*engine), 1);
  const auto again = engine::settle(*engine, held->hold, actual, kStart);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, HoldState::kSettled);
}

// A ticker that starts empty begins when it is first asked, not when somebody looks at it.
TEST(Swap, ThatBringsALimitBackLeavesNothingToLookAt) {
  const RuleSetSpec ticking = one(TickerSpec{1, 1s, 9, meter::TickerStart::kEmpty});
  for (const std::string look : {"inspect", "peek", "reset"}) {
    SCOPED_TRACE(look);
    auto engine = engine_of(ticking);
    ASSERT_FALSE(engine->decide(client("acme"), kStart)->allowed());
    swap_to(*engine, {.attributes = {"client"}});
    swap_to(*engine, ticking);
    if (look == "inspect") {
      EXPECT_EQ(remaining(*engine, "one", Key{"acme"}, kStart), 0);
    } else if (look == "peek") {
      EXPECT_FALSE(engine->peek(client("acme"), kStart)->allowed());
    } else {
      ASSERT_TRUE(engine::reset(*engine, "one", Key{"acme"}, kStart));
    }
    EXPECT_FALSE(engine->decide(client("acme"), kStart + 5s)->allowed());
    EXPECT_TRUE(engine->decide(client("acme"), kStart + 6s)->allowed());
  }
}

// The table has no room for the key in shadow, so the others are looked up a second time.
TEST(Swap, ThatBringsALimitBackChargesItThoughAShadowFindsNoRoom) {
  const LimitSpec back{.name = "back", .per = {"back"}, .meter = WindowSpec{1, 1h}};
  RuleSetSpec rules{
      .limits = {{.name = "shadow", .per = {"client"}, .shadow = true, .meter = WindowSpec{1, 1h}}},
      .attributes = {"client", "back"}};
  RuleSetSpec with_back = rules;
  with_back.limits.push_back(back);
  auto engine = engine_of(with_back, {.keys_max = 256});
  ASSERT_EQ(admitted(*engine, RequestOf({{"back", "x"}}), kStart, 2), 1);
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart)->allowed());
  }
  ASSERT_EQ(engine->usage().keys, 1u + 256 * 8);  // in every shard it has its quota
  swap_to(*engine, rules);
  swap_to(*engine, with_back);
  EXPECT_EQ(admitted(*engine, RequestOf({{"client", "new"}, {"back", "x"}}), kStart, 3), 1);
}

// One row is left when two are needed: the first of them must not have been taken.
TEST(Swap, ThatFailsForWantOfRowsChangesNothing) {
  const BucketSpec slow{.amount = 1, .period = 1h, .burst = 1};
  const auto rules = [&](MeterSpec kind) {
    return RuleSetSpec{.limits = {{.name = "many", .per = {"client"}, .meter = slow},
                                  {.name = "kind", .meter = std::move(kind)}}};
  };
  auto engine = engine_of(rules(SlotsSpec{.limit = 2}));
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  std::int64_t taken = 0;
  const auto set_next = [&] {
    const std::string client = std::to_string(taken + 1);
    return engine->set_override("many", Key{client},
                                BucketSpec{.amount = 1, .period = 1h, .burst = taken + 2}, kStart);
  };
  while (set_next()) taken += 1;
  ASSERT_TRUE(engine->set_override("many", Key{"1"}, std::nullopt, kStart));

  RuleSetSpec too_many = rules(WindowSpec{2, 1h});
  too_many.limits.push_back({.name = "more", .meter = slow});
  const Status refused = engine->swap(rules_of(too_many), kStart);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::StartsWith("limit 'more': there are too many"));
  ASSERT_TRUE(engine->set_override("many", Key{"2"}, std::nullopt, kStart));
  swap_to(*engine, rules(SlotsSpec{.limit = 3}));
  EXPECT_EQ(remaining(*engine, "kind", {}, kStart), 2);
}

// Overrides take every row that is left, and give back those nobody uses, between the two calls.
TEST(Swap, ToRulesWithReservedRoomCannotFail) {
  const BucketSpec slow{.amount = 1, .period = 1h, .burst = 1};
  const RuleSetSpec before{.limits = {{.name = "many", .per = {"client"}, .meter = slow}}};
  RuleSetSpec after = before;
  after.limits.push_back({.name = "more", .meter = slow});
  auto engine = engine_of(before);
  const auto set_all = [&] {
    for (std::int64_t taken = 0;; ++taken) {
      const std::string client = std::to_string(taken + 1);
      const BucketSpec own{.amount = 1, .period = 1h, .burst = taken + 2};
      if (!engine->set_override("many", Key{client}, own, kStart)) return;
    }
  };
  ASSERT_TRUE(engine->reserve(*rules_of(after), kStart));
  set_all();
  EXPECT_EQ(engine->rules()->find("more"), nullptr) << "nothing is in force yet";
  EXPECT_TRUE(engine->swap(rules_of(after), kStart));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST(Reserve, IsRefusedWhereSwapWouldBe) {
  auto engine = engine_of(one(WindowSpec{9, 1h}));
  EXPECT_FALSE(engine->reserve(*rules_of(one(WindowSpec{9, 1h})), Instant{kTermMax}));
}

}  // namespace
}  // namespace weir::engine
