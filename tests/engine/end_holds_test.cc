// The holds of a key, ended by an operator.

#include <gtest/gtest.h>

#include <string_view>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

Result<EndedHolds> end_holds(Engine& engine, std::string_view limit, const Key& key,
                             Instant now = kStart) {
  on_stack::Kept<Result<EndedHolds>> kept;
  engine::end_holds(engine, limit, key, now, kept.callback());
  return kept.get();
}

RuleSetSpec slots_and_a_window() {
  return {.limits = {{.name = "slots", .per = {"job"}, .meter = SlotsSpec{.limit = 3, .hold = 1h}},
                     {.name = "window", .per = {"client"}, .meter = WindowSpec{10, 1h}}}};
}

TEST(EndHolds, CancelsThoseThatWereChargedAtTheKey) {
  auto engine = engine_of(slots_and_a_window());
  const RequestOf a({{"job", "a"}, {"client", "acme"}});
  const RequestOf b({{"job", "b"}, {"client", "acme"}});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(engine->decide(a, kStart)->allowed());
  const HoldId other = engine->decide(b, kStart)->hold;
  EXPECT_EQ(end_holds(*engine, "slots", {"a"})->count, 2u);
  EXPECT_EQ(remaining(*engine, "slots", {"a"}, kStart), 3);
  EXPECT_EQ(remaining(*engine, "slots", {"b"}, kStart), 2);
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), 9) << "where else they were charged";
  EXPECT_EQ(engine->usage().holds, 1u);
  EXPECT_EQ(end_holds(*engine, "slots", {"a"})->count, 0u);
  EXPECT_EQ(*engine::renew(*engine, other, 1h, kStart), HoldState::kActive);
}

TEST(EndHolds, ForgetsWhatTheKeyHasUsed) {
  auto engine = engine_of(slots_and_a_window());
  ASSERT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  ASSERT_TRUE(engine::acquire(*engine, client("acme"), {.hold = 1h}, kStart)->allowed());
  EXPECT_EQ(end_holds(*engine, "window", {"acme"})->count, 1u);
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), 10);
}

TEST(EndHolds, LetsWaitersIn) {
  auto engine = engine_of(
      {.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = 1h}}}});
  ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  Inbox inbox;
  ASSERT_TRUE(
      engine::wait(*engine, RequestOf(), {.deadline = kStart + 1min}, kStart, inbox.as("patient")));
  EXPECT_EQ(end_holds(*engine, "slots", {})->count, 1u);
  EXPECT_EQ(inbox.texts(), Texts{"patient allowed"});
}

TEST(EndHolds, NamesWhatIsWrongWithTheKey) {
  auto engine = engine_of(slots_and_a_window());
  EXPECT_EQ(end_holds(*engine, "nobody", {}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(end_holds(*engine, "slots", {}).error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(end_holds(*engine, "slots", {"a"}, Instant{-1}).error().code, ErrorCode::kBadArgument);
}

TEST(EndHolds, EndsTenThousandAtATime) {
  auto engine = engine_of({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1 << 20}}}});
  for (std::size_t i = 0; i <= kHoldsEndedMax; ++i) {
    ASSERT_TRUE(engine->decide(RequestOf(), kStart)->allowed());
  }
  EXPECT_EQ(end_holds(*engine, "slots", {})->count, kHoldsEndedMax);
  EXPECT_EQ(end_holds(*engine, "slots", {})->count, 1u);
}

}  // namespace
}  // namespace weir::engine
