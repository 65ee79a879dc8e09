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

// --- what wakes a waiter

TEST_F(WaitingTest, WakesWhenAHoldIsSettled) {
  use(slots(1));
  const HoldId hold = take(RequestOf());
  wait(RequestOf(), "w");
  release(hold, kStart + 5s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
  EXPECT_EQ(inbox.last().earliest, kStart + 5s);
}

TEST_F(WaitingTest, WakesWhenAHoldIsCancelled) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1h}}}});
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  wait(RequestOf(), "w");
  ASSERT_EQ(engine::cancel(*engine, held->hold, kStart), HoldState::kCancelled);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenLessWasUsedThanCharged) {
  use(bucket(10, 1h));
  const auto held = engine::acquire(*engine, RequestOf().costing(10), {.hold = 1h}, kStart);
  wait(RequestOf().costing(4), "w");
  const Cost actual[] = {{kRequests, 6}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WaitsLessWhenSomethingCameBackThoughNotEnough) {
  use(bucket(10, 1h));
  const auto held = engine::acquire(*engine, RequestOf().costing(10), {.hold = 1h}, kStart);
  wait(RequestOf().costing(4), "w");
  const Cost actual[] = {{kRequests, 7}};
  ASSERT_TRUE(engine::settle(*engine, held->hold, actual, kStart));
  EXPECT_TRUE(inbox.texts().empty());
  EXPECT_EQ(engine->next_instant(), kStart + 6min);  // one more than the three that are there
}

TEST_F(WaitingTest, WakesWhenAHoldExpires) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_EQ(engine->next_instant(), kStart + 1h);
  engine->advance(kStart + 1h - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 1h);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenAHoldExpiresThoughOnlyAnotherRequestSaysSo) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_FALSE(engine->decide(RequestOf(), kStart + 1h)->allowed());
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenABucketHasRefilledAndNotBefore) {
  use(bucket(1, 10s));
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_EQ(engine->next_instant(), kStart + 10s);
  engine->advance(kStart + 10s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesAtATick) {
  use({.limits = {{.name = "ticker", .meter = TickerSpec{1, 10s}}}});
  take(RequestOf(), kStart + 3s);
  wait(RequestOf(), "w", kStart + 3s);
  run_until(kStart + 10s - 1ns);
  EXPECT_TRUE(inbox.texts().empty());
  run_until(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesAtAWindowBoundary) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1min}}}});
  take(RequestOf(), kStart + 59s);
  wait(RequestOf(), "w", kStart + 59s);
  EXPECT_EQ(engine->next_instant(), kStart + 60s);
  engine->advance(kStart + 60s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenALogForgets) {
  use({.limits = {{.name = "log", .meter = LogSpec{2, 10s}}}});
  take(RequestOf(), kStart);
  take(RequestOf(), kStart + 4s);
  wait(RequestOf(), "w", kStart + 5s);
  EXPECT_EQ(engine->next_instant(), kStart + 10s);
  engine->advance(kStart + 10s);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesInOrderAsABucketRefills) {
  use(bucket(1, 10s));
  take(RequestOf());
  for (const std::string name : {"a", "b", "c"}) wait(RequestOf(), name);
  run_until(kStart + 20s);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed"}));
  run_until(kStart + 30s);
  EXPECT_EQ(inbox.texts(), (Texts{"a allowed", "b allowed", "c allowed"}));
}

TEST_F(WaitingTest, WakesWhenASwapRaisesTheLimit) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w");
  ASSERT_TRUE(engine->swap(rules_of(slots(2)), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenASwapRemovesTheLimit) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w");
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

// Who no longer meets a limit does not stand in the way there.
TEST_F(WaitingTest, LeavesItsPlaceWhereASwapExemptsIt) {
  RuleSetSpec spec{.limits = {{.name = "first", .meter = WindowSpec{1, 1min}},
                              {.name = "second", .per = {"client"}, .meter = WindowSpec{1, 1h}}}};
  use(spec);
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(wait(client("acme"), "acme").decision.verdict, Verdict::kQueued);
  EXPECT_EQ(wait(client("other"), "other").decision.verdict, Verdict::kQueued);
  run_until(kStart + 1min);  // acme now waits for the second too, and keeps its place
  spec.limits[0].exempt = {{{"client", {"acme"}}}};
  ASSERT_TRUE(engine->swap(rules_of(spec), kStart + 1min));
  EXPECT_EQ(inbox.texts(), Texts{"other allowed"});
  run_until(kStart + 1h);
  EXPECT_EQ(inbox.texts(), (Texts{"other allowed", "acme allowed"}));
}

TEST_F(WaitingTest, IsToldNeverWhenASwapLowersTheLimitBelowItsCost) {
  use(slots(3));
  take(RequestOf());
  wait(RequestOf().costing(3), "w");
  ASSERT_TRUE(engine->swap(rules_of(slots(2)), kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w never"});
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(WaitingTest, IsToldOfAnErrorWhenASwapDropsAnAttributeItCarries) {
  use({.limits = {
           {.name = "slots", .per = {"client"}, .meter = SlotsSpec{.limit = 1, .queue = 9}}}});
  take(client("a"));
  wait(client("a"), "w");
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  ASSERT_EQ(inbox.texts().size(), 1u);
  EXPECT_NE(inbox.texts()[0].find("attribute 'client'"), std::string::npos);
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(WaitingTest, WakesWhenAnOverrideRaisesTheLimit) {
  use(slots(1));
  take(RequestOf());
  wait(RequestOf(), "w");
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 2, .queue = 9}, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenALowOverrideIsCleared) {
  use(slots(2));
  ASSERT_TRUE(engine->set_override("slots", {}, SlotsSpec{.limit = 1, .queue = 9}, kStart));
  take(RequestOf());
  wait(RequestOf(), "w");
  ASSERT_TRUE(engine->set_override("slots", {}, std::nullopt, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenItsKeyIsReset) {
  use({.limits = {{.name = "window", .meter = WindowSpec{1, 1h}}}});
  take(RequestOf());
  wait(RequestOf(), "w");
  ASSERT_TRUE(engine::reset(*engine, "window", {}, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenSomebodyAheadGivesUp) {
  use(slots(2));
  take(RequestOf());
  const Begun ahead = wait(RequestOf().costing(2), "ahead");
  wait(RequestOf(), "w");
  EXPECT_TRUE(engine->give_up(ahead.ticket, kStart));
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(WaitingTest, WakesWhenSomebodyAheadRunsOutOfTime) {
  use(slots(2));
  take(RequestOf());
  wait(RequestOf().costing(2), "ahead", kStart, kStart + 5s);
  wait(RequestOf(), "w");
  run_until(kStart + 5s);
  EXPECT_EQ(inbox.texts(), (Texts{"ahead denied", "w allowed"}));
}

TEST_F(WaitingTest, WakesWhenTheClockIsSetFarAhead) {
  use(bucket(1, 10s));
  take(RequestOf());
  wait(RequestOf(), "w");
  engine->advance(kStart + 1h);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

// --- the hook

TEST_F(WaitingTest, TellsTheHookWhenItWantsToBeCalledEarlier) {
  std::vector<Instant> told;
  use(bucket(1, 10s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_EQ(told, std::vector<Instant>{kStart + 10s});
}

TEST_F(WaitingTest, TellsTheHookOfAHoldThatExpires) {
  std::vector<Instant> told;
  use(slots(1));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(RequestOf());
  EXPECT_EQ(told, std::vector<Instant>{kStart + 1h});
}

TEST_F(WaitingTest, ForgetsTheHookWhenThereIsNone) {
  std::vector<Instant> told;
  use(bucket(1, 10s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  engine->set_wakeup(nullptr);
  take(RequestOf());
  wait(RequestOf(), "w");
  EXPECT_TRUE(told.empty());
}

// A waiter that a release brings from slots, which promise nothing, to a bucket,
// which promises an instant: nobody else will call at that instant.
TEST_F(WaitingTest, TellsTheHookWhenAReleaseBringsAWaiterNearer) {
  std::vector<Instant> told;
  use({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}},
                  {.name = "bucket", .meter = BucketSpec{1, 10s}}}});
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  const HoldId hold = take(RequestOf());
  wait(RequestOf(), "w");
  release(hold);
  ASSERT_EQ(engine->next_instant(), kStart + 10s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), kStart + 10s);
}

TEST_F(WaitingTest, TellsTheHookWhenSomebodyMovesUp) {
  std::vector<Instant> told;
  use(bucket(2, 20s));
  engine->set_wakeup([&](Instant at) { told.push_back(at); });
  take(RequestOf().costing(2));
  const Begun ahead = wait(RequestOf().costing(2), "ahead");
  wait(RequestOf(), "w");
  EXPECT_TRUE(engine->give_up(ahead.ticket, kStart));
  ASSERT_EQ(engine->next_instant(), kStart + 10s);
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.back(), kStart + 10s);
}

}  // namespace
}  // namespace weir::engine
