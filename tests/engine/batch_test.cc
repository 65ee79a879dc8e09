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

// --- prepared requests

TEST(Prepared, DecidesAsTheRequestItWasMadeFrom) {
  auto engine = engine_of(window_of(2));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(prepared);
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_TRUE(engine->decide(client("acme"), kStart)->allowed());
  EXPECT_EQ(engine->decide(*prepared, kStart)->verdict, Verdict::kDenied);
}

TEST(Prepared, FollowsARaisedLimit) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_FALSE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_TRUE(engine->swap(rules_of(window_of(2)), kStart));
  EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
}

TEST(Prepared, FollowsRulesWithOtherLimits) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->decide(*prepared, kStart)->allowed());
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "other", .per = {"client"}, .meter = WindowSpec{1, 1min}}}}),
      kStart));
  EXPECT_EQ(engine->decide(*prepared, kStart)->outcomes()[0].limit, "other");
}

TEST(Prepared, IsAnErrorOnceTheRulesNoLongerKnowItsAttributes) {
  auto engine = engine_of(window_of(1));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  EXPECT_FALSE(engine->decide(*prepared, kStart));
}

// Asked twice, since what was planned before the mistake was found must not count.
TEST(Prepared, StaysAnErrorAsLongAsTheRulesCannotPlanIt) {
  RuleSetSpec too_many;
  for (int i = 0; i < 17; ++i) {
    too_many.limits.push_back(
        {.name = "limit-" + std::to_string(i), .per = {"client"}, .meter = WindowSpec{9, 1h}});
  }
  RuleSetSpec conditional = too_many;
  for (LimitSpec& limit : conditional.limits) limit.exempt = {{{"client", {"nobody"}}}};
  RuleSetSpec too_dear = window_of(9);
  too_dear.limits[0].weigh = {"client", {{"acme", std::int64_t{1} << 32}}};
  for (const RuleSetSpec& spec : {too_many, conditional, too_dear, RuleSetSpec{}}) {
    auto engine = engine_of(window_of(9));
    auto prepared = engine->prepare(client("acme").costing(std::int64_t{1} << 31));
    ASSERT_TRUE(prepared);
    ASSERT_TRUE(engine->swap(rules_of(spec), kStart));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(engine->decide(*prepared, kStart)) << i;
    EXPECT_EQ(engine->usage().keys, 0u);
    ASSERT_TRUE(engine->swap(rules_of(window_of(std::int64_t{1} << 40)), kStart));
    EXPECT_TRUE(engine->decide(*prepared, kStart)->allowed());
  }
}

TEST(Prepared, IsRefusedForABadRequest) {
  auto engine = engine_of(window_of(1));
  EXPECT_FALSE(engine->prepare(RequestOf({{"nobody", "knows"}})));
}

// A plan of old rules must not touch a meter that newer rules have already
// converted: slots in flight would be forgotten on the way there and back.
TEST(Prepared, DoesNotConvertAMeterBackToTheRulesItWasMadeUnder) {
  auto engine = engine_of(window_of(9));
  auto prepared = engine->prepare(client("acme"));
  ASSERT_TRUE(engine->swap(
      rules_of({.limits = {{.name = "window", .per = {"client"}, .meter = SlotsSpec{.limit = 2}}}}),
      kStart));
  ASSERT_EQ(admitted(*engine, client("acme"), kStart, 2), 2);
  EXPECT_FALSE(engine->decide(*prepared, kStart)->allowed());
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), 0);
}

// --- batches

TEST(Batch, DecidesAsOneByOne) {
  const RuleSetSpec spec = every_kind("log");
  auto batched = engine_of(spec);
  auto single = engine_of(spec);
  std::mt19937_64 random(8127);
  for (int round = 0; round < 50; ++round) {
    const Instant now = kStart + round * 100ms;
    std::deque<RequestOf> asks;
    std::vector<Request> requests;
    for (std::size_t i = 0; i < random() % 40; ++i) {
      RequestOf& ask = asks.emplace_back();
      ask.with("client", std::to_string(random() % 5))
          .costing(static_cast<std::int64_t>(random() % 3));
      requests.push_back(ask);
    }
    std::vector<Result<Decision>> answers(requests.size(), Result<Decision>(std::in_place));
    batched->decide(requests, now, answers);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto expected = single->decide(requests[i], now);
      ASSERT_EQ(answers[i]->verdict, expected->verdict);
      ASSERT_EQ(answers[i]->earliest, expected->earliest);
      ASSERT_EQ(answers[i]->shortfall, expected->shortfall);
      ASSERT_EQ(answers[i]->binding_index, expected->binding_index);
      for (std::size_t row = 0; row < expected->outcomes().size(); ++row) {
        ASSERT_EQ(answers[i]->outcomes()[row].remaining, expected->outcomes()[row].remaining);
      }
    }
  }
}

// The short way of the most common kind: one attribute, no cost, one limit.
TEST(Batch, DecidesByOneLimitAsOneByOne) {
  const MeterSpec kinds[] = {BucketSpec{3, 1s}, TickerSpec{.interval = 300ms, .burst = 3},
                             WindowSpec{3, 1s}, LogSpec{3, 1s}};
  for (const MeterSpec& kind : kinds) {
    const RuleSetSpec spec{.limits = {{.name = "limit", .per = {"client"}, .meter = kind}}};
    auto batched = engine_of(spec);
    auto single = engine_of(spec);
    std::mt19937_64 random(8127);
    int denied = 0;
    for (int round = 0; round < 100; ++round) {
      const Instant now = kStart + round * 100ms;
      std::deque<RequestOf> asks;
      std::vector<Request> requests;
      for (std::size_t i = 0; i < 20; ++i) {
        requests.push_back(asks.emplace_back(client(std::to_string(random() % 30))));
      }
      std::vector<Result<Decision>> answers(requests.size(), Result<Decision>(std::in_place));
      batched->decide(requests, now, answers);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto expected = single->decide(requests[i], now);
        denied += expected->allowed() ? 0 : 1;
        ASSERT_EQ(answers[i]->verdict, expected->verdict);
        ASSERT_EQ(answers[i]->earliest, expected->earliest);
        ASSERT_EQ(answers[i]->shortfall, expected->shortfall);
        ASSERT_EQ(answers[i]->outcomes().size(), 1u);
        ASSERT_EQ(answers[i]->outcomes()[0].remaining, expected->outcomes()[0].remaining);
        ASSERT_EQ(answers[i]->outcomes()[0].limit, "limit");
      }
    }
    EXPECT_GT(denied, 50);
    EXPECT_LT(denied, 1'950);
  }
}

TEST(Batch, OfOneLimitAnswersABadValueAndABadInstantWithErrors) {
  auto engine = engine_of(window_of(9));
  RequestOf good = client("acme");
  RequestOf bad = client(std::string(kValueBytesMax + 1, 'x'));
  const std::vector<Request> requests{good, bad, good};
  std::vector<Result<Decision>> answers(3, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  engine->decide(requests, kStart, answers);
  EXPECT_TRUE(answers[0]->allowed());
  EXPECT_FALSE(answers[1]);
  EXPECT_TRUE(answers[2]->allowed());
  engine->decide(requests, Instant{-1}, answers);
  for (const Result<Decision>& answer : answers) EXPECT_FALSE(answer);
  EXPECT_EQ(remaining(*engine, "window", {"acme"}, kStart), 5);
}

TEST(Batch, AnswersABadRequestWithAnErrorAndTheOthersAsUsual) {
  auto engine = engine_of(window_of(1));
  RequestOf good = client("acme");
  RequestOf bad({{"nobody", "knows"}});
  const std::vector<Request> requests{good, bad, good};
  std::vector<Result<Decision>> answers(3, Result<Decision>(std::in_place));
  engine->decide(requests, kStart, answers);
  EXPECT_TRUE(answers[0]->allowed());
  EXPECT_FALSE(answers[1]);
  EXPECT_FALSE(answers[2]->allowed());
}

TEST(Batch, MayBeEmpty) {
  auto engine = engine_of(window_of(1));
  engine->decide(std::span<const Request>{}, kStart, {});
  EXPECT_EQ(engine->usage().keys, 0u);
}

}  // namespace
}  // namespace weir::engine
