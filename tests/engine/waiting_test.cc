#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/waiting_support.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

// --- the start of a wait

TEST_F(WaitingTest, AdmitsAtOnceWhereThereIsRoom) {
  use(slots(1));
  const Begun start = wait(RequestOf(), "w");
  EXPECT_TRUE(start.decision.allowed());
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_TRUE(inbox.texts().empty());
}

TEST_F(WaitingTest, QueuesWhereThereIsNone) {
  use(slots(1));
  take(RequestOf());
  const Begun start = wait(RequestOf(), "w");
  EXPECT_EQ(start.decision.verdict, Verdict::kQueued);
  EXPECT_NE(start.ticket, 0u);
  EXPECT_EQ(engine->usage().waiters, 1u);
  EXPECT_EQ(engine::inspect(*engine, "slots", {}, kStart)->waiters, 1u);
}

TEST_F(WaitingTest, IsRefusedAtOnceForMoreThanThereCanEverBe) {
  use(slots(2));
  const Begun start = wait(RequestOf().costing(3), "w");
  EXPECT_EQ(start.decision.verdict, Verdict::kNever);
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(WaitingTest, ChargesNothingWhileItQueues) {
  use({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9}},
                  {.name = "window", .meter = WindowSpec{9, 1h}}}});
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_EQ(remaining(*engine, "window", {}, kStart), 8);
}

TEST_F(WaitingTest, AnswersWithAHoldThatEndsLikeAnyOther) {
  use(slots(1));
  const HoldId first = take(RequestOf());
  wait(RequestOf(), "w");
  release(first);
  ASSERT_EQ(inbox.texts(), Texts{"w allowed"});
  ASSERT_TRUE(inbox.last().hold);
  release(inbox.last().hold);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

// --- deadlines

TEST_F(WaitingTest, FailsAtOnceWhenTheDeadlineCannotBeMet) {
  use(bucket(1, 10s));
  take(RequestOf());
  const Begun start = wait(RequestOf(), "w", kStart, kStart + 10s - 1ns);
  EXPECT_EQ(start.ticket, 0u);
  EXPECT_EQ(start.decision.verdict, Verdict::kDenied);
  EXPECT_EQ(start.decision.earliest, kStart + 10s);
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(WaitingTest, WaitsWhenTheDeadlineCanJustBeMet) {
  use(bucket(1, 10s));
  take(RequestOf());
  EXPECT_NE(wait(RequestOf(), "w", kStart, kStart + 10s).ticket, 0u);
  run_until(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

struct Ahead {
  std::string name;
  MeterSpec meter;
  Duration would_take;  // for the third of three, each asking for all there is
};

std::ostream& operator<<(std::ostream& out, const Ahead& ahead) { return out << ahead.name; }

class WaitingBehind : public WaitingTest, public ::testing::WithParamInterface<Ahead> {};

TEST_P(WaitingBehind, FailsAtOnceWithTheInstantItWouldHaveTakenAfterThoseAhead) {
  use({.limits = {{.name = "one", .meter = GetParam().meter}}});
  take(RequestOf().costing(2));
  wait(RequestOf().costing(2), "a");
  wait(RequestOf().costing(2), "b");
  const Instant would_take = kStart + GetParam().would_take;
  const Begun late = wait(RequestOf().costing(2), "late", kStart, would_take - 1ns);
  EXPECT_EQ(late.ticket, 0u);
  EXPECT_EQ(late.decision.verdict, Verdict::kDenied);
  EXPECT_EQ(late.decision.earliest, would_take);
  EXPECT_NE(wait(RequestOf().costing(2), "in time", kStart, would_take).ticket, 0u);
  run_until(would_take);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "in time allowed"}));
}

INSTANTIATE_TEST_SUITE_P(Meters, WaitingBehind,
                         ::testing::Values(Ahead{"bucket", BucketSpec{2, 10s}, 30s},
                                           Ahead{"ticker", TickerSpec{2, 10s}, 30s},
                                           Ahead{"window", WindowSpec{2, 10s}, 30s},
                                           Ahead{"calendar", CalendarSpec{2}, 64h},
                                           Ahead{"log", LogSpec{2, 10s}, 30s}),
                         [](const auto& tested) { return tested.param.name; });

TEST_F(WaitingTest, CountsNobodyAheadThatHasLeft) {
  use(bucket(1, 10s));
  take(RequestOf());
  const Begun ahead = wait(RequestOf(), "ahead");
  EXPECT_EQ(wait(RequestOf(), "w", kStart, kStart + 10s).ticket, 0u);
  EXPECT_TRUE(engine->give_up(ahead.ticket, kStart));
  EXPECT_NE(wait(RequestOf(), "w", kStart, kStart + 10s).ticket, 0u);
}

TEST_F(WaitingTest, IsDeniedAtItsDeadline) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w", kStart, kStart + 5s);
  EXPECT_EQ(engine->next_instant(), kStart + 5s);
  engine->advance(kStart + 5s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 5s);
  EXPECT_EQ(inbox.texts(), Texts{"w denied"});
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(WaitingTest, IsAdmittedExactlyAtItsDeadlineIfItFitsThen) {
  use(bucket(1, 10s));
  take(RequestOf());
  wait(RequestOf(), "w", kStart, kStart + 10s);
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, IsDeniedAndChargedNothingWhenItsTurnComesTooLate) {
  use(bucket(1, 10s));
  take(RequestOf());
  wait(RequestOf(), "w", kStart, kStart + 15s);
  engine->advance(kStart + 15s + 1ns);
  EXPECT_EQ(inbox.texts(), Texts{"w denied"});
  EXPECT_EQ(remaining(*engine, "bucket", {}, kStart + 16s), 1);
}

TEST_F(WaitingTest, FreesItsPlaceAtItsDeadline) {
  use(slots(1, 1));
  take(RequestOf());
  wait(RequestOf(), "w", kStart, kStart + 5s);
  engine->advance(kStart + 5s);
  EXPECT_EQ(wait(RequestOf(), "next", kStart + 5s).decision.verdict, Verdict::kQueued);
}

// --- bounds of the queue

TEST_F(WaitingTest, IsOverloadedBeyondTheQueueOfSlots) {
  use(slots(1, 2));
  take(RequestOf());
  EXPECT_EQ(wait(RequestOf(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(RequestOf(), "b").decision.verdict, Verdict::kQueued);
  const Begun beyond = wait(RequestOf(), "c");
  EXPECT_EQ(beyond.decision.verdict, Verdict::kOverloaded);
  EXPECT_EQ(beyond.ticket, 0u);
  EXPECT_EQ(engine->usage().waiters, 2u);
}

TEST_F(WaitingTest, IsOverloadedWhereSlotsHaveNoQueue) {
  use(slots(1, 0));
  take(RequestOf());
  EXPECT_EQ(wait(RequestOf(), "w").decision.verdict, Verdict::kOverloaded);
}

// It waited at the first before the younger one came, and needs both.
TEST_F(WaitingTest, IsNotTurnedAwayFromAQueueThatAYoungerOneHasFilled) {
  use({.limits = {{.name = "first",
                   .when = {{"client", {"old"}}},
                   .meter = SlotsSpec{.limit = 1, .queue = 1, .hold = 1h}},
                  {.name = "second",
                   .when = {{"client", {"old", "young"}}},
                   .meter = SlotsSpec{.limit = 1, .queue = 1, .hold = 1h}}},
       .attributes = {"client"}});
  const HoldId both = take(client("old"));
  wait(client("old"), "old");  // at the first, which binds before the second
  wait(client("young"), "young");
  ASSERT_EQ(engine->usage().waiters, 2u);
  release(both);
  EXPECT_EQ(inbox.texts(), (Texts{"old allowed"}));
  EXPECT_EQ(engine->usage().waiters, 1u);
}

TEST_F(WaitingTest, IsOverloadedBeyondQueueMax) {
  use({.limits = {{.name = "bucket", .queue_max = 2, .meter = BucketSpec{1, 10s}}}});
  take(RequestOf());
  EXPECT_EQ(wait(RequestOf(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(RequestOf(), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(RequestOf(), "c").decision.verdict, Verdict::kOverloaded);
}

TEST_F(WaitingTest, CountsTheQueueOfEachKey) {
  use({.limits = {
           {.name = "bucket", .per = {"client"}, .queue_max = 1, .meter = BucketSpec{1, 10s}}}});
  take(client("a"));
  take(client("b"));
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("b"), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kOverloaded);
}

TEST_F(WaitingTest, IsOverloadedBeyondAsManyAsTheEngineKeeps) {
  use({.limits = {{.name = "bucket", .per = {"client"}, .meter = BucketSpec{1, 10s}}}},
      {.waiters_max = 2});
  for (const std::string name : {"a", "b", "c"}) take(client(name));
  EXPECT_EQ(wait(client("a"), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("b"), "b").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("c"), "c").decision.verdict, Verdict::kOverloaded);
  EXPECT_EQ(engine->usage().waiters, 2u);
}

TEST_F(WaitingTest, HasRoomAgainOnceSomebodyLeaves) {
  use(slots(1, 1));
  take(RequestOf());
  const Begun first = wait(RequestOf(), "a");
  ASSERT_EQ(wait(RequestOf(), "b").decision.verdict, Verdict::kOverloaded);
  ASSERT_TRUE(engine->give_up(first.ticket, kStart));
  EXPECT_EQ(wait(RequestOf(), "c").decision.verdict, Verdict::kQueued);
}

TEST_F(WaitingTest, HasTheQueueThatAnOverrideGivesItsKey) {
  use(slots(1, 0));
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 1, .queue = 1}, kStart));
  take(RequestOf());
  EXPECT_EQ(wait(RequestOf(), "a").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(RequestOf(), "b").decision.verdict, Verdict::kOverloaded);
}

TEST_F(WaitingTest, HasNoLongerQueueAfterAReset) {
  use(slots(1, 1));
  take(RequestOf());
  wait(RequestOf(), "a");
  ASSERT_TRUE(engine::reset(*engine, "slots", {}, kStart));
  wait(RequestOf(), "b");
  wait(RequestOf(), "c");
  EXPECT_EQ(engine::inspect(*engine, "slots", {}, kStart)->waiters, 1u);
}

// --- giving up

TEST_F(WaitingTest, IsNotAnsweredAfterItGaveUp) {
  use(slots(1));
  const HoldId hold = take(RequestOf());
  const Begun start = wait(RequestOf(), "w");
  EXPECT_TRUE(engine->give_up(start.ticket, kStart));
  release(hold);
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_EQ(engine->usage().waiters, 0u);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

TEST_F(WaitingTest, CannotGiveUpTwiceOrOnceAnswered) {
  use(slots(1));
  const HoldId hold = take(RequestOf());
  const Begun gave_up = wait(RequestOf(), "a");
  const Begun answered = wait(RequestOf(), "b");
  ASSERT_TRUE(engine->give_up(gave_up.ticket, kStart));
  EXPECT_FALSE(engine->give_up(gave_up.ticket, kStart));
  release(hold);
  EXPECT_FALSE(engine->give_up(answered.ticket, kStart));
  EXPECT_FALSE(engine->give_up(0, kStart));
}

TEST_F(WaitingTest, LetsNewcomersPassOnceEverybodyGaveUp) {
  use(slots(2));
  take(RequestOf());
  const Begun start = wait(RequestOf().costing(2), "w");
  ASSERT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  ASSERT_TRUE(engine->give_up(start.ticket, kStart));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST_F(WaitingTest, IsNotSweptAwayFromUnderAWaiter) {
  use(bucket(1, 10s));
  take(RequestOf());
  const Begun start = wait(RequestOf(), "w", kStart, kStart + 1h);
  // Nobody calls at kStart + 10s; the bucket is full when the sweep comes by.
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 9s);
  EXPECT_EQ(engine::inspect(*engine, "bucket", {}, kStart + 9s)->waiters, 1u);
  EXPECT_TRUE(engine->give_up(start.ticket, kStart + 20s));
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 20s);
  EXPECT_EQ(engine->usage().keys, 0u);
}

// --- callbacks

TEST_F(WaitingTest, MayCallTheEngineFromItsCallback) {
  use(slots(1));
  const HoldId hold = take(RequestOf());
  int admissions = 0;
  std::function<void(const Result<Decision>&)> pass_on = [&](const Result<Decision>& answer) {
    admissions += 1;
    ASSERT_EQ(*engine::settle(*engine, answer->hold, {}, kStart), HoldState::kSettled);
  };
  for (int i = 0; i < 10; ++i) {
    ASSERT_NE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart, pass_on)->ticket,
              0u);
  }
  release(hold);
  EXPECT_EQ(admissions, 10);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

// Each callback brings about the next answer. Were they on the stack, it would overflow.
TEST_F(WaitingTest, MayEndItsHoldFromItsCallbackHoweverLongTheQueueIs) {
  constexpr int kWaiters = 50'000;
  use(slots(1, kWaiters));
  const HoldId hold = take(RequestOf());
  int admissions = 0;
  int depth = 0;
  const auto pass_on = [&](const Result<Decision>& answer) {
    depth += 1;
    admissions += answer->allowed() && depth == 1 ? 1 : 0;
    ASSERT_EQ(*engine::settle(*engine, answer->hold, {}, kStart), HoldState::kSettled);
    depth -= 1;
  };
  for (int i = 0; i < kWaiters; ++i) {
    ASSERT_NE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart, pass_on)->ticket,
              0u);
  }
  release(hold);
  EXPECT_EQ(admissions, kWaiters);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 1);
}

TEST_F(WaitingTest, MayWaitAgainFromItsCallback) {
  use(bucket(1, 10s));
  take(RequestOf());
  std::vector<Instant> admissions;
  std::function<void(const Result<Decision>&)> again = [&](const Result<Decision>& answer) {
    admissions.push_back(answer->earliest);
    if (admissions.size() < 3) {
      ASSERT_TRUE(
          engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, answer->earliest, again));
    }
  };
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart, again));
  run_until(kStart + 1h);
  EXPECT_EQ(admissions, (std::vector{kStart + 10s, kStart + 20s, kStart + 30s}));
}

// A decision may itself find that a hold has expired, and run the callback of
// whoever gets the slot; the rules may be others when it goes on.
TEST_F(WaitingTest, MaySwapTheRulesFromItsCallbackInTheMiddleOfADecision) {
  use(slots(1));
  take(RequestOf());
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart,
                           [&](const Result<Decision>&) {
                             ASSERT_TRUE(engine->swap(rules_of(slots(5)), kStart + 1h));
                             ASSERT_TRUE(engine->decide(RequestOf(), kStart + 1h)->allowed());
                           }));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart + 1h)->allowed());
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart + 1h), 2);
}

TEST_F(WaitingTest, MaySwapTheRulesFromItsCallbackInTheMiddleOfABatch) {
  use(slots(1));
  take(RequestOf());
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart,
                           [&](const Result<Decision>&) {
                             ASSERT_TRUE(engine->swap(rules_of(slots(5)), kStart + 1h));
                           }));
  const std::vector<Request> requests(8);
  std::vector<Result<Decision>> answers(8, Result<Decision>(std::in_place));
  engine->decide(requests, kStart + 1h, answers);
  const auto allowed = std::count_if(answers.begin(), answers.end(),
                                     [](const auto& answer) { return answer->allowed(); });
  EXPECT_EQ(allowed, 4);
}

TEST_F(WaitingTest, NeedsNoCallback) {
  use(slots(1));
  const HoldId hold = take(RequestOf());
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart, nullptr));
  release(hold);
  EXPECT_EQ(engine->usage().waiters, 0u);
  EXPECT_EQ(remaining(*engine, "slots", {}, kStart), 0);
}

// Where somebody waits, what takes nothing has nobody to wait for.
TEST_F(WaitingTest, IsNothingThatACostOfNothingStandsBehind) {
  use(bucket(1));
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  wait(RequestOf(), "w");
  EXPECT_TRUE(engine->decide(RequestOf().costing(0), kStart)->allowed());
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
}

RuleSetSpec requests_and_tokens() {
  return {.limits = {{.name = "requests", .per = {"client"}, .meter = BucketSpec{1, 1s}},
                     {.name = "tokens", .unit = "tokens", .meter = BucketSpec{1, 1s, 100}}},
          .units = {{"tokens"}}};
}

TEST_F(WaitingTest, IsNotTooLongForThoseAheadWhereItTakesNothing) {
  use(requests_and_tokens());
  take(client("big").costing("tokens", 100));
  take(client("small").costing("tokens", 0));
  wait(client("other").costing("tokens", 100), "big");  // 100 s
  const Begun small = wait(client("small").costing("tokens", 0), "small", kStart, kStart + 10s);
  EXPECT_EQ(small.decision.verdict, Verdict::kQueued);
  run_until(kStart + 1s);
  EXPECT_EQ(inbox.texts(), Texts{"small allowed"});
}

TEST_F(WaitingTest, IsNotTooLongForADebtWhereItTakesNothing) {
  use(requests_and_tokens());
  const auto held =
      engine::acquire(*engine, client("big").costing("tokens", 100), {.hold = 1h}, kStart);
  const Cost actual[] = {{"tokens", 200}};
  ASSERT_EQ(*engine::settle(*engine, held->hold, actual, kStart), HoldState::kSettled);
  take(client("small").costing("tokens", 0));
  const Begun small = wait(client("small").costing("tokens", 0), "small", kStart, kStart + 10s);
  EXPECT_EQ(small.decision.verdict, Verdict::kQueued);
}

// New rules take its place away: it is older than who fills the queue that it needs then.
TEST_F(WaitingTest, IsNotTurnedAwayWhenTheLimitItWaitsAtLeavesTheRules) {
  const LimitSpec first{.name = "first",
                        .when = {{"client", {"old"}}},
                        .meter = SlotsSpec{.limit = 1, .queue = 1, .hold = 1h}};
  const LimitSpec second{.name = "second",
                         .when = {{"client", {"old", "young"}}},
                         .meter = SlotsSpec{.limit = 1, .queue = 1, .hold = 1h}};
  use({.limits = {first, second}, .attributes = {"client"}});
  const HoldId both = take(client("old"));
  wait(client("old"), "old");
  wait(client("young"), "young");
  ASSERT_EQ(engine->usage().waiters, 2u);
  ASSERT_TRUE(engine->swap(rules_of({.limits = {second}, .attributes = {"client"}}), kStart));
  EXPECT_EQ(inbox.texts(), Texts{});
  release(both);
  EXPECT_EQ(inbox.texts(), Texts{"old allowed"});
}

TEST_F(WaitingTest, MayEndAnotherEngineInItsCallback) {
  use(slots(1));
  const HoldId held = take(RequestOf());
  auto other = engine_of(slots(1));
  const HoldId held_there = other->decide(RequestOf(), kStart)->hold;
  ASSERT_TRUE(engine::wait(*other, RequestOf(), {.deadline = kFarOff}, kStart, inbox.as("there")));
  ASSERT_TRUE(engine::wait(*engine, RequestOf(), {.deadline = kFarOff}, kStart,
                           [&](const Result<Decision>&) {
                             engine::cancel(*other, held_there, kStart);
                             EXPECT_EQ(inbox.texts(), Texts{"there allowed"});
                             other.reset();
                           }));
  release(held);
  EXPECT_EQ(other, nullptr);
}

}  // namespace
}  // namespace weir::engine
