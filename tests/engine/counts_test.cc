#include <gtest/gtest.h>

#include <string_view>
#include <thread>
#include <vector>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

LimitCounts counts_of(const Engine& engine, std::string_view limit) {
  for (LimitCounts& counts : engine.counts().limits) {
    if (counts.limit == limit) return counts;
  }
  ADD_FAILURE() << "no limit " << limit;
  return {};
}

RuleSetSpec two_windows() {
  return {.limits = {{.name = "wide", .meter = WindowSpec{100, 1h}},
                     {.name = "narrow", .per = {"client"}, .meter = WindowSpec{2, 1h}}}};
}

TEST(Counts, AreOfEveryWayToDecide) {
  auto engine = engine_of(window_of(3));
  const std::string name = engine->counts().limits[0].limit;
  auto prepared = engine->prepare(client("acme"));
  EXPECT_TRUE(engine->decide(*prepared, kStart));
  EXPECT_TRUE(engine->decide(client("acme"), kStart));
  EXPECT_TRUE(engine::acquire(*engine, client("acme"), {.hold = 1s}, kStart));
  const RequestOf ask = client("acme");
  const std::vector<Request> batch(2, ask);
  std::vector<Result<Decision>> answers(2, Result<Decision>(std::in_place));
  engine->decide(batch, kStart, answers);
  EXPECT_TRUE(engine->decide(client("acme"), kStart));
  EXPECT_TRUE(engine->peek(client("acme"), kStart));
  EXPECT_EQ(counts_of(*engine, name).allowed, 3u);
  EXPECT_EQ(counts_of(*engine, name).denied, 3u);
}

TEST(Counts, BlameARefusalOnTheLimitThatRefused) {
  auto engine = engine_of(two_windows());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(engine->decide(client("acme"), kStart));
  EXPECT_EQ(counts_of(*engine, "wide").allowed, 2u);
  EXPECT_EQ(counts_of(*engine, "wide").denied, 0u);
  EXPECT_EQ(counts_of(*engine, "narrow").allowed, 2u);
  EXPECT_EQ(counts_of(*engine, "narrow").denied, 3u);
}

TEST(Counts, IncludeThreadsThatHaveEnded) {
  auto engine = engine_of(two_windows());
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { EXPECT_TRUE(engine->decide(client("acme"), kStart)); }).join();
  }
  EXPECT_EQ(counts_of(*engine, "narrow").allowed, 2u);
  EXPECT_EQ(counts_of(*engine, "narrow").denied, 1u);
}

TEST(Counts, StayWithTheNameOfALimit) {
  auto engine = engine_of(two_windows());
  EXPECT_TRUE(engine->decide(client("acme"), kStart));
  RuleSetSpec next = two_windows();
  next.limits.insert(next.limits.begin(), {.name = "new", .meter = WindowSpec{9, 1h}});
  ASSERT_TRUE(engine->swap(rules_of(next), kStart));
  EXPECT_TRUE(engine->decide(client("acme"), kStart));
  EXPECT_EQ(counts_of(*engine, "new").allowed, 1u);
  EXPECT_EQ(counts_of(*engine, "narrow").allowed, 2u);
}

TEST(Counts, OfMoreLimitsThanWereThereAtFirst) {
  auto engine = engine_of(two_windows());
  EXPECT_TRUE(engine->decide(client("acme"), kStart));
  RuleSetSpec many = two_windows();
  for (int i = 0; i < 100; ++i) {
    many.limits.push_back({.name = "l" + std::to_string(i),
                           .when = {{"client", {"c" + std::to_string(i)}}},
                           .meter = WindowSpec{9, 1h}});
  }
  ASSERT_TRUE(engine->swap(rules_of(many), kStart));
  EXPECT_TRUE(engine->decide(client("c99"), kStart));
  EXPECT_EQ(counts_of(*engine, "l99").allowed, 1u);
  EXPECT_EQ(counts_of(*engine, "wide").allowed, 2u);
}

}  // namespace
}  // namespace weir::engine
