// Keys that an attacker invents: what the shares of limits keep them from.

#include <gtest/gtest.h>

#include <string>

#include "tests/engine/support.h"
#include "weir/engine/engine.h"

namespace weir::engine {
namespace {

constexpr std::size_t kInvented = 200'000;
constexpr std::size_t kKeysMax = 10'000;
constexpr std::size_t kKeysBound = kKeysMax + kKeysMax / 8 + 8 * 256;

RuleSetSpec rate(Duration refilled_in) {
  return {.limits = {{.name = "rate", .per = {"client"}, .meter = BucketSpec{1, refilled_in}}}};
}

TEST(InventedKeys, AreRefusedBeyondTheBound) {
  auto engine = engine_of(rate(1h), {.keys_max = kKeysMax, .heavy_keys = 0});
  std::size_t kept = 0;
  for (std::size_t i = 0; i < kInvented; ++i) {
    kept += engine->decide(client(std::to_string(i)), kStart).ok() ? 1 : 0;
  }
  EXPECT_EQ(engine->usage().keys, kept);
  EXPECT_GE(kept, kKeysMax);
  EXPECT_LE(kept, kKeysBound);
  EXPECT_LE(engine->usage().table_bytes, 128 * kKeysMax);
}

TEST(InventedKeys, EvictOneAnotherBeyondTheBound) {
  auto engine =
      engine_of(rate(1h), {.keys_max = kKeysMax, .when_full = WhenFull::kEvict, .heavy_keys = 0});
  for (std::size_t i = 0; i < kInvented; ++i) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart)->allowed());
  }
  EXPECT_LE(engine->usage().keys, kKeysBound);
  EXPECT_LE(engine->usage().table_bytes, 128 * kKeysMax);
}

// Two limits, and keys of the second invented without end.
RuleSetSpec two_limits() {
  return {.limits = {
              {.name = "a", .per = {"client"}, .meter = BucketSpec{4, 1h}},
              {.name = "b", .per = {"ip"}, .meter = CalendarSpec{9, meter::CalendarUnit::kYear}}}};
}
void invent(Engine& engine, int keys) {
  for (int i = 0; i < keys; ++i) {
    const std::string ip = std::to_string(i);
    static_cast<void>(engine.decide(RequestOf({{"ip", ip}}), kStart).ok());
  }
}

TEST(InventedKeys, OfOneLimitDoNotRefuseAnothersKeys) {
  auto engine = engine_of(two_limits(), {.keys_max = 1000});
  invent(*engine, 20'000);
  for (int i = 0; i < 300; ++i) {
    const auto answer = engine->decide(client(std::to_string(i)), kStart);
    ASSERT_TRUE(answer.ok()) << i << ": " << answer.error().message;
  }
}

TEST(InventedKeys, OfOneLimitDoNotEvictAnothersKeys) {
  auto engine = engine_of(two_limits(), {.keys_max = 1000, .when_full = WhenFull::kEvict});
  ASSERT_EQ(admitted(*engine, client("x"), kStart, 5), 4);
  invent(*engine, 20'000);
  EXPECT_EQ(remaining(*engine, "a", {"x"}, kStart), 0);
}

TEST(InventedKeys, OfBucketsAdHocTakeNoRoomFromLimits) {
  auto engine = engine_of(two_limits(), {.keys_max = 1000});
  AdHoc ad_hoc(*engine);
  const auto shape = std::get<meter::BucketShape>(*make_shape(BucketSpec{1, 1h}));
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = std::to_string(i);
    static_cast<void>(ad_hoc.take(ad_hoc.key(text), shape, 1, kStart).ok());
  }
  EXPECT_TRUE(engine->decide(client("x"), kStart).ok());
}

TEST(InventedKeys, AreAsManyAsTheirLimitMayHave) {
  RuleSetSpec spec = two_limits();
  spec.limits[1].keys = 256;
  auto engine = engine_of(spec, {.keys_max = 100'000});
  invent(*engine, 20'000);
  EXPECT_EQ(engine->usage().keys, 256u * 9);
  spec.limits[1].keys = 2560;
  ASSERT_TRUE(engine->swap(rules_of(spec), kStart));
  invent(*engine, 40'000);
  EXPECT_EQ(engine->usage().keys, 256u * (10 + 1 + 8));
}

TEST(InventedKeys, OfOneLimitAreNoMoreThanItsShareOnceThereIsAnother) {
  RuleSetSpec one = two_limits();
  one.limits.erase(one.limits.begin());
  auto engine = engine_of(one, {.keys_max = 10'000});
  invent(*engine, 40'000);
  EXPECT_GE(engine->usage().keys, 10'000u);
  ASSERT_TRUE(engine->swap(rules_of(two_limits()), kStart));
  for (int i = 0; i < 2000; ++i) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart).ok()) << i;
  }
}

TEST(InventedKeys, DoNotKeepALimitFromTheOneKeyThatItHasWithoutPer) {
  RuleSetSpec spec = two_limits();
  auto engine = engine_of(spec, {.keys_max = 1000});
  invent(*engine, 20'000);
  spec.limits[1].per.clear();
  ASSERT_TRUE(engine->swap(rules_of(spec), kStart));
  EXPECT_TRUE(engine->decide(RequestOf({{"client", "x"}}), kStart).ok());
}

TEST(Shares, ThatAddUpToMoreThanTheTableAreRefused) {
  RuleSetSpec spec = two_limits();
  spec.limits[0].keys = 400;
  spec.limits[1].keys = 500;
  EXPECT_TRUE(Engine::create(rules_of(spec), {.keys_max = 900}).ok());
  const auto refused = Engine::create(rules_of(spec), {.keys_max = 899});
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("900"), std::string::npos);
  EXPECT_FALSE(Engine::create(rules_of(spec), {.keys_max = 900, .ad_hoc_keys_max = 1}).ok());

  auto engine = engine_of(two_limits(), {.keys_max = 899});
  EXPECT_FALSE(engine->swap(rules_of(spec), kStart).ok());
  EXPECT_TRUE(engine->decide(client("x"), kStart).ok()) << "the old rules are in force";
}

TEST(InventedKeys, MakeWayForOneAnotherAsTheyRefill) {
  auto engine = engine_of(rate(1ms), {.keys_max = kKeysMax, .heavy_keys = 0});
  for (std::size_t i = 0; i < kInvented; ++i) {
    const Instant now = kStart + Duration{static_cast<std::int64_t>(i) * 1000};
    const auto answer = engine->decide(client(std::to_string(i)), now);
    ASSERT_TRUE(answer) << i << ": " << answer.error().message;
  }
  EXPECT_LE(engine->usage().keys, kKeysBound);
}

TEST(InventedKeys, AreSweptWhileTheEngineIsOnlyAdvanced) {
  auto engine = engine_of(rate(1ms), {.heavy_keys = 0});
  for (int i = 0; i < 10'000; ++i) {
    ASSERT_TRUE(engine->decide(client(std::to_string(i)), kStart)->allowed());
  }
  EXPECT_EQ(engine->usage().keys, 10'000u);
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 1ms - 1ns);
  EXPECT_EQ(engine->usage().keys, 10'000u);
  for (std::size_t i = 0; i < kShardsMax; ++i) engine->advance(kStart + 1ms);
  EXPECT_EQ(engine->usage().keys, 0u);
}

}  // namespace
}  // namespace weir::engine
