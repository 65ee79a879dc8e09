// Holds through the engine: what ending one gives back, and that it ends once.

#include <gtest/gtest.h>

#include <string>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

RuleSetSpec all_meters() {
  return {.limits = {{.name = "bucket", .unit = "tokens", .meter = BucketSpec{100, 1h}},
                     {.name = "ticker", .unit = "tokens", .meter = TickerSpec{1, 1h, 100}},
                     {.name = "window", .unit = "tokens", .meter = WindowSpec{100, 1h}},
                     {.name = "calendar", .unit = "tokens", .meter = CalendarSpec{100}},
                     {.name = "log", .unit = "tokens", .meter = LogSpec{100, 1h}},
                     {.name = "slots", .meter = SlotsSpec{.limit = 2, .hold = 1min}}},
          .units = {{"tokens"}}};
}

constexpr std::string_view kRates[] = {"bucket", "ticker", "window", "calendar", "log"};

Decision hold_tokens(Engine& engine, std::int64_t tokens, Instant now = kStart) {
  const auto decision =
      engine::acquire(engine, RequestOf().costing("tokens", tokens), {.hold = 1min}, now);
  EXPECT_TRUE(decision->allowed());
  EXPECT_TRUE(decision->hold);
  return *decision;
}

HoldState settle(Engine& engine, HoldId hold, std::int64_t tokens, Instant now = kStart) {
  const Cost actual[] = {{"tokens", tokens}};
  return *engine::settle(engine, hold, actual, now);
}

void expect_tokens_left(Engine& engine, std::int64_t left, Instant now = kStart) {
  for (const std::string_view limit : kRates) {
    EXPECT_EQ(remaining(engine, limit, {}, now), left) << limit;
  }
}

TEST(Hold, IsTakenWhenAsked) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = WindowSpec{5, 1h}}}});
  const auto decision = engine::acquire(*engine, RequestOf(), {.hold = 30s}, kStart);
  EXPECT_TRUE(decision->hold);
  EXPECT_EQ(decision->hold_expires, kStart + 30s);
  EXPECT_EQ(engine->usage().holds, 1u);
}

TEST(Hold, IsNotTakenUnlessAskedWhereNothingCountsSlots) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = WindowSpec{5, 1h}}}});
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->hold);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Hold, IsTakenForSlotsForAsLongAsTheShortestOfThemSays) {
  auto engine =
      engine_of({.limits = {{.name = "a", .meter = SlotsSpec{.limit = 1, .hold = 2min}},
                            {.name = "b", .meter = SlotsSpec{.limit = 1, .hold = 1min}}}});
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->hold_expires, kStart + 1min);
}

TEST(Hold, LastsNoShorterForSlotsInShadow) {
  auto engine = engine_of(
      {.limits = {{.name = "run", .meter = SlotsSpec{.limit = 1, .hold = 1min}},
                  {.name = "tried", .shadow = true, .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->hold_expires, kStart + 1min);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 2s)->allowed());
}

TEST(Hold, LastsAsLongAsSlotsInShadowSayIfThereAreNoOthers) {
  auto engine = engine_of(
      {.limits = {{.name = "tried", .shadow = true, .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  EXPECT_EQ(engine->decide(RequestOf(), kStart)->hold_expires, kStart + 1s);
}

TEST(Hold, LastsAsLongAsAskedThoughSlotsSayOtherwise) {
  auto engine =
      engine_of({.limits = {{.name = "a", .meter = SlotsSpec{.limit = 1, .hold = 2min}}}});
  EXPECT_EQ(engine::acquire(*engine, RequestOf(), {.hold = 5min}, kStart)->hold_expires,
            kStart + 5min);
}

TEST(Hold, IsNotTakenByARefusal) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = WindowSpec{0, 1h}}}});
  EXPECT_FALSE(engine::acquire(*engine, RequestOf(), {.hold = 30s}, kStart)->hold);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Settle, GivesBackWhatWasNotUsed) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  EXPECT_EQ(settle(*engine, held.hold, 25), HoldState::kSettled);
  expect_tokens_left(*engine, 75);
}

TEST(Settle, TakesWhatWasUsedBeyondTheCharge) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  EXPECT_EQ(settle(*engine, held.hold, 90), HoldState::kSettled);
  expect_tokens_left(*engine, 10);
}

TEST(Settle, GoesIntoDebtForWhatWasUsedBeyondTheLimit) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  settle(*engine, held.hold, 130);
  expect_tokens_left(*engine, -30);
}

TEST(Settle, ChangesNothingWhereAsMuchWasUsedAsCharged) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  settle(*engine, held.hold, 60);
  expect_tokens_left(*engine, 40);
}

TEST(Settle, KeepsTheChargeInUnitsThatAreNotNamed) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  EXPECT_EQ(*engine::settle(*engine, held.hold, {}, kStart), HoldState::kSettled);
  expect_tokens_left(*engine, 40);
}

TEST(Settle, ReturnsTheSlotWhateverWasUsed) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  ASSERT_EQ(remaining(*engine, "slots", {}, kStart), 1);
  settle(*engine, held.hold, 90);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 2);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Settle, WeighsWhatWasUsedLikeTheCharge) {
  auto engine = engine_of({.limits = {{.name = "one",
                                       .unit = "tokens",
                                       .weigh = {"op", {{"put", 10}}},
                                       .meter = WindowSpec{100, 1h}}},
                           .units = {{"tokens"}}});
  RequestOf ask({{"op", "put"}});
  ask.costing("tokens", 5);
  const auto held = engine::acquire(*engine, ask, {.hold = 1min}, kStart);
  ASSERT_EQ(remaining(*engine, "one", {}, kStart), 50);
  settle(*engine, held->hold, 3);
  EXPECT_EQ(remaining(*engine, "one", {}, kStart), 70);
}

TEST(Settle, GivesBackToParentsToo) {
  auto engine = engine_of(
      {.limits = {
           {.name = "top", .meter = SlotsSpec{.limit = 5}},
           {.name = "child", .per = {"client"}, .parent = "top", .meter = SlotsSpec{.limit = 5}}}});
  const auto held = engine->decide(client("acme"), kStart);
  ASSERT_EQ(remaining(*engine, "top", {}, kStart), 4);
  ASSERT_TRUE(engine::settle(*engine, held->hold, {}, kStart));
  EXPECT_EQ(remaining(*engine, "top", {}, kStart), 5);
  EXPECT_EQ(remaining(*engine, "child", {"acme"}, kStart), 5);
}

TEST(Settle, GivesBackWhatWasGrantedOfAnUpToRequest) {
  auto engine = engine_of(all_meters());
  const auto held = engine::acquire(*engine, RequestOf().costing("tokens", 500),
                                    {.hold = 1min, .up_to = "tokens"}, kStart);
  ASSERT_EQ(held->granted, 100);
  settle(*engine, held->hold, 30);
  expect_tokens_left(*engine, 70);
}

TEST(Settle, LeavesAHoldActiveWhenTheActualCostIsBad) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  for (const Cost bad : {Cost{"pints", 1}, Cost{"tokens", -1}, Cost{"tokens", kTermMax + 1}}) {
    const auto answer = engine::settle(*engine, held.hold, std::span(&bad, 1), kStart);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::kBadArgument);
    EXPECT_NE(answer.error().message.find(bad.unit), std::string::npos);
  }
  EXPECT_EQ(engine->usage().holds, 1u);
  expect_tokens_left(*engine, 40);
  EXPECT_EQ(settle(*engine, held.hold, 50), HoldState::kSettled);
}

TEST(Settle, NamesTheLimitWhoseWeightMakesTheActualCostTooLarge) {
  auto engine = engine_of({.limits = {{.name = "heavy",
                                       .unit = "tokens",
                                       .weigh = {"op", {{"put", std::int64_t{1} << 32}}},
                                       .meter = WindowSpec{std::int64_t{1} << 40, 1h}}},
                           .units = {{"tokens"}}});
  const auto held = engine::acquire(*engine, RequestOf().with("op", "put").costing("tokens", 1),
                                    {.hold = 1min}, kStart);
  ASSERT_TRUE(held->allowed());
  const Cost most[] = {{"tokens", std::int64_t{1} << 30}};
  const Cost beyond[] = {{"tokens", (std::int64_t{1} << 30) + 1}};
  const auto refused = engine::settle(*engine, held->hold, beyond, kStart);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("limit 'heavy'"), std::string::npos);
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_TRUE(engine::settle(*engine, held->hold, most, kStart));
}

TEST(Settle, NamesTheLimitThatWasChargedInTheUnit) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  const Cost bad[] = {{"tokens", -1}};
  EXPECT_NE(engine::settle(*engine, held.hold, bad, kStart).error().message.find("limit 'bucket'"),
            std::string::npos);
}

// However far it goes into debt, it is not forgotten.
TEST(Settle, OwesWhatCannotBeRepaidBeforeTheEndOfTime) {
  auto engine = engine_of(
      {.limits =
           {{.name = "rate", .unit = "tokens", .overage = kTermMax, .meter = BucketSpec{10, 24h}}},
       .units = {{"tokens"}}});
  for (const std::int64_t used : {std::int64_t{1'000'000}, kTermMax}) {
    const auto held =
        engine::acquire(*engine, RequestOf().costing("tokens", 1), {.hold = 1min}, kStart);
    ASSERT_TRUE(held->allowed());
    settle(*engine, held->hold, used);
    EXPECT_FALSE(
        engine->decide(RequestOf().costing("tokens", 1), kStart + 24h * 365 * 80)->allowed());
    ASSERT_TRUE(engine::reset(*engine, "rate", {}, kStart));
  }
}

// --- what a limit may owe

std::uint64_t clipped(const Engine& engine) {
  std::uint64_t sum = 0;
  for (const LimitCounts& limit : engine.counts().limits) sum += limit.clipped;
  return sum;
}

TEST(Overage, IsTenTimesWhatTheMeterHoldsUnlessTheLimitSays) {
  for (const std::int64_t actual : {std::int64_t{1100}, std::int64_t{1101}, kTermMax}) {
    auto engine = engine_of(all_meters());
    const Decision held = hold_tokens(*engine, 60);
    EXPECT_EQ(settle(*engine, held.hold, actual), HoldState::kSettled);
    expect_tokens_left(*engine, -1000);
    EXPECT_EQ(clipped(*engine), actual == 1100 ? 0u : 5u) << "once for each limit";
  }
}

TEST(Overage, BoundsWhatIsOwedAndNotWhatOneSettlementAdds) {
  RuleSetSpec rules = all_meters();
  for (LimitSpec& limit : rules.limits) {
    if (limit.name != "slots") limit.overage = 70;
  }
  auto engine = engine_of(rules);
  const Decision first = hold_tokens(*engine, 10);
  const Decision second = hold_tokens(*engine, 10);
  settle(*engine, first.hold, 150);
  expect_tokens_left(*engine, -60);
  EXPECT_EQ(clipped(*engine), 0u);
  settle(*engine, second.hold, 150);
  expect_tokens_left(*engine, -70);
  EXPECT_EQ(clipped(*engine), 5u);
}

TEST(Overage, MayBeNothing) {
  RuleSetSpec rules = all_meters();
  for (LimitSpec& limit : rules.limits) {
    if (limit.name != "slots") limit.overage = 0;
  }
  auto engine = engine_of(rules);
  settle(*engine, hold_tokens(*engine, 60).hold, 100);
  expect_tokens_left(*engine, 0);
  EXPECT_EQ(clipped(*engine), 0u);
  EXPECT_EQ(
      engine::acquire(*engine, RequestOf().costing("tokens", 1), {.hold = 1min}, kStart)->verdict,
      Verdict::kDenied);
}

// What is owed already, under another bound or by bookings, is not forgiven.
TEST(Overage, NeverGivesAnythingBack) {
  auto engine = engine_of(all_meters());
  const Decision first = hold_tokens(*engine, 10);
  const Decision second = hold_tokens(*engine, 10);
  settle(*engine, first.hold, 1000);
  expect_tokens_left(*engine, -910);
  RuleSetSpec rules = all_meters();
  for (LimitSpec& limit : rules.limits) {
    if (limit.name != "slots") limit.overage = 5;
  }
  ASSERT_TRUE(engine->swap(rules_of(rules), kStart));
  settle(*engine, second.hold, 1000);
  expect_tokens_left(*engine, -910);
  EXPECT_EQ(clipped(*engine), 5u);
}

// Half a token had refilled: it is owed to the nanosecond.
TEST(Overage, OfABucketIsExact) {
  auto engine = engine_of(
      {.limits = {{.name = "rate", .unit = "tokens", .overage = 3, .meter = BucketSpec{1, 2s, 2}}},
       .units = {{"tokens"}}});
  const Decision held = hold_tokens(*engine, 2);
  settle(*engine, held.hold, 100, kStart + 1s);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart + 1s), -3);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart + 1s + 8s - 1ns), 0);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart + 1s + 8s), 1);
}

// The same whether or not somebody has swept since.
TEST(Settle, SaysThatAHoldIsGoneWhateverUnitItNames) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  const Cost unknown[] = {{"pints", 1}};
  EXPECT_EQ(*engine::settle(*engine, held.hold, unknown, held.hold_expires), HoldState::kGone);
  engine->advance(held.hold_expires);
  EXPECT_EQ(*engine::settle(*engine, held.hold, unknown, held.hold_expires), HoldState::kGone);
}

TEST(Settle, TakesAnOverageFromAMeterThatWasForgottenMeanwhile) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .unit = "tokens", .meter = BucketSpec{10, 1s}}},
                 .units = {{"tokens"}}});
  const Decision held = hold_tokens(*engine, 1);
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 2s);
  ASSERT_EQ(engine->usage().keys, 0u);
  settle(*engine, held.hold, 41, kStart + 2s);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart + 2s), -30);
}

TEST(Cancel, GivesEverythingBack) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  EXPECT_EQ(engine::cancel(*engine, held.hold, kStart), HoldState::kCancelled);
  expect_tokens_left(*engine, 100);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 2);
}

TEST(Cancel, GivesABucketNoMoreThanItsBurst) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .unit = "tokens", .meter = BucketSpec{10, 1s}}},
                 .units = {{"tokens"}}});
  const Decision held = hold_tokens(*engine, 8);
  engine::cancel(*engine, held.hold, kStart + 500ms);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart + 500ms), 10);
}

TEST(Cancel, GivesAWindowBackInTheWindowThatWasChargedOnly) {
  auto engine =
      engine_of({.limits = {{.name = "window", .unit = "tokens", .meter = WindowSpec{10, 10s}}},
                 .units = {{"tokens"}}});
  const Decision first = hold_tokens(*engine, 4);
  const Decision second = hold_tokens(*engine, 4);
  engine::cancel(*engine, first.hold, kStart + 10s - 1ns);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart + 10s - 1ns), 6);
  hold_tokens(*engine, 5, kStart + 10s);
  engine::cancel(*engine, second.hold, kStart + 10s);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart + 10s), 5);
}

// The hour begins where the minute that was charged began.
TEST(Cancel, GivesALongerWindowNothingBackOfOneThatIsOver) {
  auto engine = engine_of({.limits = {{.name = "window", .meter = WindowSpec{10, 1min}}}});
  const Instant hour{kStart.ns - kStart.ns % Duration(1h).count()};
  const auto held = engine::acquire(*engine, RequestOf().costing(5), {.hold = 1h}, hour + 30s);
  const auto hours = compile({.limits = {{.name = "window", .meter = WindowSpec{10, 1h}}}});
  ASSERT_TRUE(engine->swap(*hours, hour + 5min));
  ASSERT_TRUE(engine->decide(RequestOf().costing(7), hour + 6min)->allowed());
  EXPECT_EQ(engine::cancel(*engine, held->hold, hour + 7min), HoldState::kCancelled);
  EXPECT_EQ(remaining(*engine, "window", {}, hour + 7min), 3);
}

TEST(Cancel, GivesALogBackWhatItStillRemembers) {
  auto engine = engine_of({.limits = {{.name = "log", .unit = "tokens", .meter = LogSpec{10, 10s}}},
                           .units = {{"tokens"}}});
  const Decision first = hold_tokens(*engine, 4, kStart);
  hold_tokens(*engine, 4, kStart + 1s);
  engine::cancel(*engine, first.hold, kStart + 2s);
  EXPECT_EQ(remaining(*engine, "log", {}, kStart + 2s), 6);
}

TEST(Cancel, GivesALogNothingBackForWhatItHasForgotten) {
  auto engine = engine_of({.limits = {{.name = "log", .unit = "tokens", .meter = LogSpec{10, 10s}}},
                           .units = {{"tokens"}}});
  const Decision first = hold_tokens(*engine, 4, kStart);
  hold_tokens(*engine, 4, kStart + 9s);
  engine::cancel(*engine, first.hold, kStart + 10s);
  EXPECT_EQ(remaining(*engine, "log", {}, kStart + 10s), 6);
}

TEST(Expiry, ReturnsSlotsButNotWhatWasSpent) {
  auto engine = engine_of(all_meters());
  hold_tokens(*engine, 60);
  engine->advance(kStart + 1min - 1ns);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart + 1min - 1ns), 1);
  engine->advance(kStart + 1min);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart + 1min), 2);
  EXPECT_EQ(remaining(*engine, "window", {}, kStart + 1min), 40);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Expiry, NeedsNobodyToSayThatItsTimeHasCome) {
  auto engine =
      engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1s - 1ns)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 1s)->allowed());
}

TEST(Expiry, IsWhenTheEngineWantsToBeCalled) {
  auto engine = engine_of(all_meters());
  EXPECT_EQ(engine->next_instant(), kForever);
  const Decision held = hold_tokens(*engine, 1);
  EXPECT_EQ(engine->next_instant(), held.hold_expires);
}

TEST(Renew, LetsAHoldLastFromNow) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 1);
  EXPECT_EQ(*engine::renew(*engine, held.hold, 1min, kStart + 30s), HoldState::kActive);
  engine->advance(kStart + 90s - 1ns);
  EXPECT_EQ(engine->usage().holds, 1u);
  engine->advance(kStart + 90s);
  EXPECT_EQ(engine->usage().holds, 0u);
}

TEST(Renew, SaysHowAHoldHasEnded) {
  auto engine = engine_of(all_meters());
  const Decision settled = hold_tokens(*engine, 1);
  settle(*engine, settled.hold, 1);
  EXPECT_EQ(*engine::renew(*engine, settled.hold, 1min, kStart), HoldState::kSettled);
  const Decision expired = hold_tokens(*engine, 1);
  EXPECT_EQ(*engine::renew(*engine, expired.hold, 1min, kStart + 1min), HoldState::kGone);
}

TEST(Renew, IsAnErrorForNoTimeAtAllAndForTooMuch) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 1);
  EXPECT_FALSE(engine::renew(*engine, held.hold, 0ns, kStart));
  EXPECT_FALSE(engine::renew(*engine, held.hold, Duration{kTermMax / 2 + 1}, kStart));
  EXPECT_TRUE(engine::renew(*engine, held.hold, 1ns, kStart));
  EXPECT_TRUE(engine::renew(*engine, held.hold, Duration{kTermMax / 2}, kStart));
}

// --- once, and never too late

TEST(Hold, EndsOnce) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  ASSERT_EQ(settle(*engine, held.hold, 50), HoldState::kSettled);
  EXPECT_EQ(settle(*engine, held.hold, 10), HoldState::kSettled);
  EXPECT_EQ(settle(*engine, held.hold, 500), HoldState::kSettled);
  EXPECT_EQ(engine::cancel(*engine, held.hold, kStart), HoldState::kSettled);
  expect_tokens_left(*engine, 50);
}

TEST(Hold, ThatWasCancelledCannotBeSettled) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  ASSERT_EQ(engine::cancel(*engine, held.hold, kStart), HoldState::kCancelled);
  EXPECT_EQ(settle(*engine, held.hold, 70), HoldState::kCancelled);
  expect_tokens_left(*engine, 100);
}

TEST(Hold, FreesNothingThatSomebodyElseNowHoldsWhenItIsEndedTooLate) {
  auto engine =
      engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  const auto late = engine->decide(RequestOf(), kStart);
  const auto now_holding = engine->decide(RequestOf(), kStart + 1s);
  ASSERT_TRUE(now_holding->allowed());
  EXPECT_EQ(*engine::settle(*engine, late->hold, {}, kStart + 1s), HoldState::kGone);
  EXPECT_EQ(engine::cancel(*engine, late->hold, kStart + 1s), HoldState::kGone);
  EXPECT_EQ(*engine::renew(*engine, late->hold, 1h, kStart + 1s), HoldState::kGone);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart + 1s), 0);
}

TEST(Hold, IsFencedFromItsTimeOnThoughNobodyHasCalledSince) {
  auto engine =
      engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .hold = 1s}}}});
  const auto late = engine->decide(RequestOf(), kStart);
  EXPECT_EQ(*engine::settle(*engine, late->hold, {}, kStart + 1s), HoldState::kGone);
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 1s)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1s)->allowed());
}

// Who has seen one id cannot name another hold: the word of each is its own.
TEST(Hold, IsNotNamedByTheWordOfItsNeighbour) {
  auto engine = engine_of(all_meters());
  const HoldId seen = hold_tokens(*engine, 10).hold;
  const HoldId next = hold_tokens(*engine, 20).hold;
  ASSERT_EQ(next.number, seen.number + 1);
  EXPECT_NE(next.owner, seen.owner);
  const HoldId guessed{seen.owner, next.number};
  EXPECT_EQ(engine::cancel(*engine, guessed, kStart), HoldState::kGone);
  EXPECT_EQ(*engine::renew(*engine, guessed, 1h, kStart), HoldState::kGone);
  EXPECT_EQ(*engine::settle(*engine, guessed, {}, kStart), HoldState::kGone);
  expect_tokens_left(*engine, 70);
  EXPECT_EQ(engine::cancel(*engine, next, kStart), HoldState::kCancelled);
  expect_tokens_left(*engine, 90);
}

TEST(Hold, OfNobodyOrOfAnotherEngineIsGone) {
  auto engine = engine_of(all_meters());
  auto other = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 60);
  const Decision elsewhere = hold_tokens(*other, 60);
  EXPECT_EQ(engine::cancel(*engine, HoldId{}, kStart), HoldState::kGone);
  EXPECT_EQ(engine::cancel(*engine, elsewhere.hold, kStart), HoldState::kGone);
  EXPECT_EQ(engine::cancel(*engine, HoldId{held.hold.owner, held.hold.number + 1}, kStart),
            HoldState::kGone);
  expect_tokens_left(*engine, 40);
}

// Whether a reset lets others in at once or only when the work has ended: what was
// admitted since must not make room for more than the limit.
TEST(Hold, FreesNothingTakenAfterItsKeyWasReset) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1}}}});
  const auto before = engine->decide(RequestOf(), kStart);
  ASSERT_TRUE(engine::reset(*engine, "slots", {}, kStart));
  int since = admitted(*engine, RequestOf(), kStart, 3);
  ASSERT_TRUE(engine::settle(*engine, before->hold, {}, kStart));
  since += admitted(*engine, RequestOf(), kStart, 3);
  EXPECT_EQ(since, 1);
}

TEST(Hold, GivesNothingBackToAKeyThatWasResetSince) {
  const std::vector<std::pair<std::string, MeterSpec>> meters = {
      {"bucket", BucketSpec{.amount = 3, .period = 1h, .burst = 3}},
      {"ticker", TickerSpec{.interval = 1h, .burst = 3}},
      {"window", WindowSpec{.limit = 3, .every = 1h}},
      {"log", LogSpec{.limit = 3, .window = 1h}}};
  for (const auto& [name, meter] : meters) {
    SCOPED_TRACE(name);
    auto engine = engine_of({.limits = {{.name = name, .meter = meter}}});
    const auto cancelled = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
    const auto settled = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
    ASSERT_TRUE(engine::reset(*engine, name, {}, kStart));
    EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 9), 3);
    EXPECT_EQ(engine::cancel(*engine, cancelled->hold, kStart), HoldState::kCancelled);
    const Cost nothing[] = {{kRequests, 0}};
    EXPECT_EQ(*engine::settle(*engine, settled->hold, nothing, kStart), HoldState::kSettled);
    EXPECT_EQ(admitted(*engine, RequestOf(), kStart, 9), 0);
  }
}

TEST(Hold, GivesBackElsewhereWhatItTookThere) {
  auto engine = engine_of({.limits = {{.name = "reset", .meter = WindowSpec{1, 1h}},
                                      {.name = "kept", .meter = WindowSpec{1, 1h}}}});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_TRUE(engine::reset(*engine, "reset", {}, kStart));
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(engine::inspect(*engine, "kept", {}, kStart)->remaining, 1);
}

TEST(Hold, KnowsItsUnitsAfterAResetAndWithoutTheLimit) {
  const LimitSpec slots{.name = "slots", .meter = SlotsSpec{.limit = 1}};
  auto engine =
      engine_of({.limits = {slots, {.name = "gone", .unit = "tokens", .meter = WindowSpec{9, 1h}}},
                 .units = {{"tokens"}}});
  const auto held = engine->decide(RequestOf().costing("tokens", 5), kStart);
  ASSERT_TRUE(engine::reset(*engine, "gone", {}, kStart));
  ASSERT_TRUE(engine->swap(rules_of({.limits = {slots}}), kStart));
  const Cost actual[] = {{"tokens", 3}};
  const auto settled = engine::settle(*engine, held->hold, actual, kStart);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST(Hold, IsRememberedByTheEngineUntilItsTime) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 1);
  settle(*engine, held.hold, 1);
  engine->advance(kStart + 1min - 1ns);
  EXPECT_EQ(engine::cancel(*engine, held.hold, kStart + 1min - 1ns), HoldState::kSettled);
  engine->advance(kStart + 1min);
  EXPECT_EQ(engine::cancel(*engine, held.hold, kStart + 1min), HoldState::kGone);
}

TEST(Hold, IsForgottenAtItsTimeThoughNobodyHasCalledSince) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 1);
  settle(*engine, held.hold, 1);
  EXPECT_EQ(engine::cancel(*engine, held.hold, held.hold_expires - 1ns), HoldState::kSettled);
  EXPECT_EQ(engine::cancel(*engine, held.hold, held.hold_expires), HoldState::kGone);
}

// --- the bound

TEST(Hold, IsAnErrorBeyondAsManyAsTheEngineKeeps) {
  auto engine =
      engine_of({.limits = {{.name = "rate", .meter = WindowSpec{100, 1h}}}}, {.holds_max = 2});
  const auto first = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_TRUE(engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart)->allowed());
  const auto third = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kExhausted);
  EXPECT_NE(third.error().message.find("holds_max"), std::string::npos);
  EXPECT_EQ(remaining(*engine, "rate", {}, kStart), 98);
  EXPECT_EQ(engine->usage().holds, 2u);
  ASSERT_EQ(engine::cancel(*engine, first->hold, kStart), HoldState::kCancelled);
  EXPECT_TRUE(engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart)->allowed());
}

TEST(Hold, HasItsPlaceAgainWhenTheTableRefusesTheKey) {
  auto engine =
      engine_of({.limits = {{.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1}}}},
                {.keys_max = 1, .holds_max = 600});
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    refused += engine->decide(client(std::to_string(i)), kStart).ok() ? 0 : 1;
  }
  EXPECT_EQ(engine->usage().holds, static_cast<std::size_t>(2000 - refused));
}

// To settle for more than was held forgets what no longer counts, at that instant.
TEST(Overage, OfALogIsNotForgottenForAnEarlierInstant) {
  auto engine = engine_of({.limits = {{.name = "log", .meter = LogSpec{3, 10s}}}});
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1h}, kStart + 5s);
  const Cost actual[] = {{kRequests, 2}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart + 10s));
  // By a clock that is late by a nanosecond: counted at the later instant, at which one is left.
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 10s - 1ns)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 10s - 1ns)->allowed());
  EXPECT_EQ(engine->decide(RequestOf(), kStart + 10s)->earliest, kStart + 15s);
}

// What a bucket gained since then it must not gain again.
TEST(Cancel, LetsAnEarlierInstantHaveNothingThatWasGainedLater) {
  auto engine = engine_of({.limits = {{.name = "rate", .meter = BucketSpec{1, 1s, 3}}}});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_TRUE(engine->decide(RequestOf().costing(2), kStart)->allowed());
  ASSERT_EQ(engine::cancel(*engine, held->hold, kStart + 4s), HoldState::kCancelled);
  EXPECT_FALSE(engine->decide(RequestOf().costing(3), kStart + 1s)->allowed());
  EXPECT_TRUE(engine->decide(RequestOf().costing(3), kStart + 4s)->allowed());
}

TEST(Settle, IsAnErrorForAUnitThatIsGivenTwice) {
  auto engine = engine_of(all_meters());
  const Decision held = hold_tokens(*engine, 3);
  const Cost twice[] = {{"tokens", 1}, {"tokens", 2}};
  const auto state = engine::settle(*engine, held.hold, twice, kStart);
  ASSERT_FALSE(state);
  EXPECT_THAT(state.error().message,
              ::testing::HasSubstr("'tokens' is given twice; write their sum once"));
  EXPECT_EQ(settle(*engine, held.hold, 3), HoldState::kSettled);
}

// A bucket forgets by refilling, a window and a log by instants: what a bucket was charged is not
// among what they count, even if it was at the same instant.
TEST(Cancel, GivesAMeterThatCountsByInstantsNothingBackOfOneThatDidNot) {
  const MeterSpec others[] = {WindowSpec{7, 1h}, LogSpec{7, 1h}};
  for (const MeterSpec& meter : others) {
    auto engine = engine_of({.limits = {{.name = "limit", .meter = BucketSpec{7, 1h}}}});
    const auto old = engine::acquire(*engine, RequestOf().costing(5), {.hold = 1h}, kStart);
    const auto held = engine::acquire(*engine, RequestOf().costing(2), {.hold = 1h}, kStart);
    engine::cancel(*engine, old->hold, kStart);
    ASSERT_TRUE(engine->swap(rules_of({.limits = {{.name = "limit", .meter = meter}}}), kStart));
    ASSERT_TRUE(engine->decide(RequestOf().costing(5), kStart)->allowed());
    EXPECT_EQ(engine::cancel(*engine, held->hold, kStart), HoldState::kCancelled);
    EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  }
}

}  // namespace
}  // namespace weir::engine
