// Holds that outlive the process.

#include <gtest/gtest.h>

#include <string>

#include "tests/engine/kept_state.h"
#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/state.h"

namespace weir::engine {
namespace {

RuleSetSpec held_rules() {
  return {.limits = {{.name = "tokens", .unit = "tokens", .meter = WindowSpec{100, 1h}},
                     {.name = "slots", .meter = SlotsSpec{.limit = 2, .hold = 1min}}},
          .units = {{"tokens"}}};
}

TEST(StoredHold, CanBeSettled) {
  Lasting lasting(held_rules());
  const auto held = lasting->decide(RequestOf().costing("tokens", 30), kStart);
  lasting.restart(held_rules(), kStart + 1s);
  EXPECT_EQ(lasting->usage().holds, 1u);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1s), 1);
  const Cost actual[] = {{"tokens", 10}};
  EXPECT_EQ(*engine::settle(*lasting, held->hold, actual, kStart + 1s), HoldState::kSettled);
  EXPECT_EQ(remaining(*lasting, "tokens", {}, kStart + 1s), 90);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1s), 2);
}

// A log knows what counts by its instant, and a window that became one is all in one run: of
// which instant, no charge knows. So nothing comes back, before a restart or after it.
TEST(StoredHold, GivesALogNothingBackOfWhatAWindowWasCharged) {
  for (const bool restarts : {false, true}) {
    Lasting lasting(limit_of(WindowSpec{10, 1h}));
    const auto held = engine::acquire(*lasting, client("a"), {.hold = 1h}, kStart);
    const RuleSetSpec log = limit_of(LogSpec{10, 1h});
    ASSERT_TRUE(lasting->swap(rules_of(log), kStart).ok());
    ASSERT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 9);
    if (restarts) lasting.restart(log, kStart);
    ASSERT_EQ(engine::cancel(*lasting, held->hold, kStart), HoldState::kCancelled);
    EXPECT_EQ(remaining(*lasting, "limit", {"a"}, kStart), 9) << restarts;
  }
}

TEST(StoredHold, CanBeCancelledOnce) {
  Lasting lasting(held_rules());
  const auto held = lasting->decide(RequestOf().costing("tokens", 30), kStart);
  lasting.restart(held_rules(), kStart + 1s);
  EXPECT_EQ(engine::cancel(*lasting, held->hold, kStart + 1s), HoldState::kCancelled);
  EXPECT_EQ(engine::cancel(*lasting, held->hold, kStart + 1s), HoldState::kCancelled);
  EXPECT_EQ(remaining(*lasting, "tokens", {}, kStart + 1s), 100);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1s), 2);
}

TEST(StoredHold, ExpiresAtItsTimeAndGivesItsSlotsBack) {
  Lasting lasting(held_rules());
  ASSERT_TRUE(lasting->decide(RequestOf().costing("tokens", 30), kStart)->hold);
  lasting.restart(held_rules(), kStart + 1s);
  EXPECT_EQ(lasting->next_instant(), kStart + 1min);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1min - 1ns), 1);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1min), 2);
}

TEST(StoredHold, ThatExpiredMeanwhileGivesOnlyItsSlotsBack) {
  Lasting lasting(held_rules());
  const auto held = lasting->decide(RequestOf().costing("tokens", 30), kStart);
  lasting.kept.collect(*lasting, kStart);
  const RestoreReport report = lasting.come_back(held_rules(), kStart + 1min);
  EXPECT_EQ(report.expired, 1u);
  EXPECT_EQ(lasting->usage().holds, 0u);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 1min), 2);
  EXPECT_EQ(remaining(*lasting, "tokens", {}, kStart + 1min), 70);
  EXPECT_EQ(engine::cancel(*lasting, held->hold, kStart + 1min), HoldState::kGone);
}

TEST(StoredHold, LastsAsLongAsItWasRenewed) {
  Lasting lasting(held_rules());
  const auto held = lasting->decide(RequestOf().costing("tokens", 30), kStart);
  lasting.kept.collect(*lasting, kStart);
  ASSERT_EQ(*engine::renew(*lasting, held->hold, 1h, kStart), HoldState::kActive);
  lasting.restart(held_rules(), kStart + 30min);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart + 30min), 1);
  EXPECT_EQ(*engine::renew(*lasting, held->hold, 1h, kStart + 30min), HoldState::kActive);
}

TEST(StoredHold, ThatHasEndedDoesNotComeBack) {
  Lasting lasting(held_rules());
  const auto held = lasting->decide(RequestOf().costing("tokens", 30), kStart);
  lasting.kept.collect(*lasting, kStart);
  EXPECT_EQ(lasting.kept.holds(), 1u);
  ASSERT_EQ(engine::cancel(*lasting, held->hold, kStart), HoldState::kCancelled);
  lasting.restart(held_rules(), kStart);
  EXPECT_EQ(lasting.kept.holds(), 0u);
  EXPECT_EQ(remaining(*lasting, "slots", {}, kStart), 2);
  EXPECT_EQ(engine::cancel(*lasting, held->hold, kStart), HoldState::kGone);
}

TEST(StoredHold, ThatBeganAndEndedUnseenLeavesNoTrace) {
  Lasting lasting(held_rules());
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(
        engine::cancel(*lasting, lasting->decide(RequestOf().costing("tokens", 1), kStart)->hold,
                       kStart),
        HoldState::kCancelled);
  }
  const HoldChanges changes = collected_holds(*lasting, kStart);
  EXPECT_EQ(changes.active.size(), 0u);
  EXPECT_EQ(changes.ended.size(), 0u);
}

TEST(StoredHold, NumbersAreNeverGivenOutTwice) {
  Lasting lasting(held_rules());
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 20; ++i) {
    const auto held =
        engine::acquire(*lasting, RequestOf().costing("tokens", 1), {.hold = 1h}, kStart);
    EXPECT_TRUE(numbers.insert(held->hold.number).second);
    EXPECT_EQ(held->hold.owner, owned_word(7, held->hold.number));
    engine::cancel(*lasting, held->hold, kStart);
    lasting.restart(held_rules(), kStart);
  }
}

TEST(StoredHold, HasRoomForAsManyAsTheBound) {
  const RuleSetSpec rules = limit_of(WindowSpec{100, 1h});
  Lasting lasting(rules);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(engine::acquire(*lasting, client("a"), {.hold = 1h}, kStart)->hold);
  }
  lasting.kept.collect(*lasting, kStart);
  EngineOptions options = kDurable;
  options.holds_max = 3;
  EXPECT_EQ(error_of(lasting.kept.restore(*engine_of(rules, options), kStart)), "restored");
  options.holds_max = 2;
  EXPECT_THAT(error_of(lasting.kept.restore(*engine_of(rules, options), kStart)),
              HasSubstr("raise holds_max"));
  options.names.holds = "bounds.holds";
  EXPECT_THAT(error_of(lasting.kept.restore(*engine_of(rules, options), kStart)),
              HasSubstr("raise bounds.holds to what it was"));
}

TEST(StoredHold, IsCollectedInParts) {
  auto engine = engine_of(limit_of(WindowSpec{10'000, 1h}), kDurable);
  for (std::size_t i = 0; i < kHoldsPerCollection + 1; ++i) {
    ASSERT_TRUE(engine::acquire(*engine, client("a"), {.hold = 1h}, kStart)->hold);
  }
  HoldChanges changes;
  EXPECT_TRUE(engine::Collector(*engine).holds(kStart, changes));
  EXPECT_EQ(changes.active.size(), kHoldsPerCollection);
  EXPECT_FALSE(engine::Collector(*engine).holds(kStart, changes));
  EXPECT_EQ(changes.active.size(), kHoldsPerCollection + 1);
}

// --- bounds and bad records

}  // namespace
}  // namespace weir::engine
