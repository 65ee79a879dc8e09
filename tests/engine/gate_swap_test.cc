// A gate and a meter under one name, one after the other: nothing is carried over, and whoever
// waited at the one waits at the other.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/engine/support.h"
#include "tests/engine/turnstile.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

struct GateSwap : ::testing::Test {
  // One limit, which is this.
  static std::shared_ptr<const RuleSet> turned(MeterSpec meter) {
    return rules_of({.limits = {{.name = "turned", .queue_max = 9, .meter = std::move(meter)}}});
  }
  void begin(MeterSpec meter) { engine = std::move(*Engine::create(turned(std::move(meter)))); }
  void swap_to(MeterSpec meter) { ASSERT_TRUE(engine->swap(turned(std::move(meter)), kStart)); }
  void wait(std::string name) {
    const auto start = engine::wait(*engine, RequestOf(), {.deadline = kForever}, kStart,
                                    inbox.as(std::move(name)));
    ASSERT_NE(start->ticket, 0u);
  }

  std::shared_ptr<Turnstile> gate = std::make_shared<Turnstile>(3);
  std::unique_ptr<Engine> engine;
  Inbox inbox;
};

TEST_F(GateSwap, SlotsThatBecomeAGateAndSlotsAgainAreFree) {
  begin(SlotsSpec{.limit = 1, .queue = 9});
  const auto held = engine->decide(RequestOf(), kStart);
  swap_to(gate);
  EXPECT_EQ(*engine::settle(*engine, held->hold, {}, kStart), HoldState::kSettled);
  EXPECT_EQ(gate->used, 0);
  swap_to(SlotsSpec{.limit = 1, .queue = 9});
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
}

TEST_F(GateSwap, WhoWaitsAtAGateThatBecomesSlotsWaitsThere) {
  begin(gate);
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  wait("first");
  wait("second");
  swap_to(SlotsSpec{.limit = 1, .queue = 9});
  EXPECT_EQ(inbox.texts(), Texts{"first allowed"});
  EXPECT_EQ(engine::inspect(*engine, "turned", {}, kStart)->waiters, 1u);
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  engine::cancel(*engine, inbox.last().hold, kStart);
  EXPECT_EQ(inbox.texts(), (Texts{"first allowed", "second allowed"}));
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(GateSwap, WhoWaitsAtSlotsThatBecomeAGateWaitsThere) {
  begin(SlotsSpec{.limit = 1, .queue = 9});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  wait("first");
  wait("second");
  gate->used = gate->room - 1;
  swap_to(gate);
  EXPECT_EQ(inbox.texts(), Texts{"first allowed"});
  gate->used -= 1;
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  engine->try_waiters(kStart);
  EXPECT_EQ(inbox.texts(), (Texts{"first allowed", "second allowed"}));
}

TEST_F(GateSwap, WhoWaitsAtAGateThatBecomesAnotherIsWokenByThat) {
  begin(gate);
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  wait("w");
  const auto other = std::make_shared<Turnstile>(1);
  other->used = 1;
  swap_to(other);
  other->used = 0;
  // Not before whoever waits.
  EXPECT_FALSE(engine->decide(RequestOf(), kStart)->allowed());
  engine->try_waiters(kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

TEST_F(GateSwap, WhereThereIsRoomForFewerTheOldestStay) {
  begin(gate);
  ASSERT_TRUE(engine->decide(RequestOf().costing(3), kStart)->allowed());
  for (const std::string name : {"first", "second", "third"}) wait(name);
  swap_to(SlotsSpec{.limit = 1, .queue = 1});
  EXPECT_EQ(inbox.texts(), (Texts{"first allowed", "third overloaded"}));
  EXPECT_EQ(engine->usage().waiters, 1u);
}

TEST_F(GateSwap, AGateGetsBackWhatItGaveThoughTheMeterInItsPlaceIsReset) {
  begin(gate);
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1min}, kStart);
  ASSERT_EQ(gate->used, 1);
  swap_to(WindowSpec{9, 1h});
  ASSERT_TRUE(engine::reset(*engine, "turned", {}, kStart));
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(gate->used, 0);
}

TEST_F(GateSwap, ParametersOfItsOwnEndWithAMeterThatBecomesAGate) {
  const BucketSpec slow{.amount = 1, .period = 1h, .burst = 1};
  const BucketSpec slower{.amount = 1, .period = 2h, .burst = 1};
  const RuleSetSpec meters{.limits = {{.name = "a", .meter = slow}, {.name = "b", .meter = slow}}};
  engine = engine_of(meters, {.overrides_max = 1});
  ASSERT_TRUE(engine->set_override("a", {}, slower, kStart));
  ASSERT_FALSE(engine->set_override("b", {}, slower, kStart));
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "a", .meter = gate}, {.name = "b", .meter = slow}}}), kStart));
  EXPECT_TRUE(engine->set_override("b", {}, slower, kStart));
}

// Rows are used again once half of them are taken.
TEST_F(GateSwap, AMeterThatBecameAGateIsNoRowToConvertTo) {
  const BucketSpec slow{.amount = 1, .period = 1h, .burst = 1};
  const auto rules = [&](MeterSpec turned) {
    return RuleSetSpec{.limits = {{.name = "many", .per = {"client"}, .meter = slow},
                                  {.name = "turned", .meter = std::move(turned)}}};
  };
  engine = engine_of(rules(WindowSpec{9, 1h}));
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  for (std::size_t i = 1; i <= kRowsMax / 2; ++i) {
    const std::string client = std::to_string(i);
    const BucketSpec own{.amount = 1, .period = 1h, .burst = static_cast<std::int64_t>(i) + 1};
    ASSERT_TRUE(engine->set_override("many", std::vector<std::string_view>{client}, own, kStart));
  }
  ASSERT_TRUE(engine->swap(rules_of(rules(gate)), kStart));
  ASSERT_TRUE(engine->swap(rules_of(rules(gate)), kStart));
  EXPECT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  EXPECT_EQ(gate->used, 1);
}

TEST_F(GateSwap, AGateThatHasAnotherNameNowWakesWhoWaitsThereWhenAnOldHoldEnds) {
  gate->room = 1;
  begin(gate);
  const auto held = engine::acquire(*engine, RequestOf(), {.hold = 1h}, kStart);
  ASSERT_TRUE(engine->swap(rules_of({.limits = {{.name = "renamed", .meter = gate}}}), kStart));
  wait("w");
  engine::cancel(*engine, held->hold, kStart);
  EXPECT_EQ(inbox.texts(), Texts{"w allowed"});
}

}  // namespace
}  // namespace weir::engine
