#include <gtest/gtest.h>

#include <string>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"
#include "weir/engine/internal/table.h"

namespace weir::engine {
namespace {

// One unit every `every`, at most `burst` at once.
meter::BucketShape shape(Duration every, std::int64_t burst) {
  return *meter::make_bucket(1, every, burst);
}

struct AdHocTest : ::testing::Test {
  bool take(std::string_view key, const meter::BucketShape& bucket, Instant now,
            std::int64_t cost = 1) {
    return engine::AdHoc(*engine)
        .take(engine::AdHoc(*engine).key(key), bucket, cost, now)
        ->step.allowed();
  }

  std::unique_ptr<Engine> engine = engine_of({});
};

TEST_F(AdHocTest, BucketAdmitsItsBurstAndThenItsRate) {
  const meter::BucketShape two = shape(10s, 2);
  EXPECT_TRUE(take("x", two, kStart));
  EXPECT_TRUE(take("x", two, kStart));
  EXPECT_FALSE(take("x", two, kStart + 10s - 1ns));
  EXPECT_TRUE(take("x", two, kStart + 10s));
}

TEST_F(AdHocTest, KeysHaveBucketsOfTheirOwn) {
  EXPECT_TRUE(take("x", shape(10s, 1), kStart));
  EXPECT_TRUE(take("y", shape(10s, 1), kStart));
  EXPECT_FALSE(take("x", shape(10s, 1), kStart));
  EXPECT_EQ(engine->usage().keys, 2u);
}

TEST_F(AdHocTest, ParametersMayDifferFromCallToCall) {
  ASSERT_TRUE(take("x", shape(10s, 1), kStart));   // full again at 10 s
  EXPECT_FALSE(take("x", shape(1s, 10), kStart));  // holds 10 s at most
  EXPECT_TRUE(take("x", shape(1s, 11), kStart));   // and 11 s here
  EXPECT_TRUE(take("x", shape(1s, 10), kStart + 2s));
}

TEST_F(AdHocTest, RefusalsAndPeeksKeepNothing) {
  EXPECT_FALSE(take("x", shape(10s, 1), kStart, 2));
  EXPECT_TRUE(take("x", shape(10s, 1), kStart, 0));
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST_F(AdHocTest, BucketsTakeBackWhatIsGivenUpToTheirBurst) {
  const meter::BucketShape two = shape(10s, 2);
  ASSERT_TRUE(take("x", two, kStart, 2));
  EXPECT_TRUE(take("x", two, kStart, -1));
  EXPECT_TRUE(take("x", two, kStart, 1));
  EXPECT_FALSE(take("x", two, kStart, 1));
  EXPECT_TRUE(take("x", two, kStart, -100));
  EXPECT_TRUE(take("x", two, kStart, 2));
  EXPECT_FALSE(take("x", two, kStart, 1));
  EXPECT_TRUE(take("unseen", two, kStart, -1));
  EXPECT_EQ(engine->usage().keys, 1u);
}

TEST_F(AdHocTest, KeysAreNotThoseOfALimit) {
  engine = engine_of(window_of(1));
  ASSERT_TRUE(engine->decide(client("x"), kStart)->allowed());
  EXPECT_TRUE(take("x", shape(10s, 1), kStart));
  EXPECT_FALSE(engine->decide(client("x"), kStart)->allowed());
}

TEST_F(AdHocTest, BucketsOutliveEveryChangeOfTheRules) {
  ASSERT_TRUE(take("x", shape(10s, 1), kStart));
  ASSERT_TRUE(engine->swap(rules_of(window_of(1)), kStart));
  ASSERT_TRUE(engine->swap(rules_of({}), kStart));
  EXPECT_FALSE(take("x", shape(10s, 1), kStart));
}

TEST_F(AdHocTest, BucketsAreForgottenOnceTheyAreFull) {
  ASSERT_TRUE(take("x", shape(10s, 1), kStart));
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 10s);
  EXPECT_EQ(engine->usage().keys, 0u);
}

TEST_F(AdHocTest, BucketsAreRefusedWhereTheTableIsFull) {
  engine = engine_of({}, {.keys_max = 1});
  bool refused = false;
  for (int i = 0; i < 10'000 && !refused; ++i) {
    refused = !engine::AdHoc(*engine).take(engine::AdHoc(*engine).key(std::to_string(i)),
                                           shape(1h, 1), 1, kStart);
  }
  EXPECT_TRUE(refused);
}

TEST_F(AdHocTest, BadCostsAndInstantsAreErrors) {
  const AdHocKey key = engine::AdHoc(*engine).key("x");
  EXPECT_FALSE(engine::AdHoc(*engine).take(key, shape(1s, 1), -kTermMax - 1, kStart));
  EXPECT_FALSE(engine::AdHoc(*engine).take(key, shape(1s, 1), kTermMax + 1, kStart));
  EXPECT_FALSE(engine::AdHoc(*engine).take(key, shape(1s, 1), 1, Instant{-1}));
}

}  // namespace
}  // namespace weir::engine
