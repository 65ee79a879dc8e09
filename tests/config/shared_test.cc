#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr std::string_view kRedis = "redis: { url: redis://localhost }\n";

std::string message(const std::string& text) {
  const Result<Config> config = parse(text, "weir.yaml");
  return config ? "no mistake" : config.error().message;
}
std::string limit(std::string_view meter) {
  return std::string(kRedis) + "limits: [ { name: a, " + std::string(meter) +
         ", store: redis } ]\n";
}

TEST(SharedLimit, IsReadWithItsDefaults) {
  const Config config = config_of(limit("bucket: { rate: 10/s }"));
  ASSERT_TRUE(config.redis.has_value());
  EXPECT_EQ(config.redis->name, "weir");
  EXPECT_EQ(config.redis->timeout, 20ms);
  EXPECT_EQ(config.redis->connections, 0u);
  const engine::Rule* rule = config.rules->find("a");
  ASSERT_TRUE(rule->shared.has_value());
  EXPECT_EQ(rule->shared->outage, engine::Outage::kDeny);
}

TEST(SharedLimit, MayStayInMemory) {
  const Config config =
      config_of("limits: [ { name: a, bucket: { rate: 10/s }, store: memory } ]\n");
  EXPECT_FALSE(config.rules->find("a")->shared.has_value());
}

TEST(SharedLimit, NeedsARedis) {
  EXPECT_EQ(message("limits: [ { name: a, bucket: { rate: 10/s }, store: redis } ]\n"),
            "weir.yaml:1:11: limit 'a': store is 'redis', but there is no 'redis' at the top "
            "level; write 'redis: { url: redis://localhost:6379 }'");
}

TEST(SharedLimit, IsRefusedWhereRedisCannotCountIt) {
  EXPECT_THAT(message(limit("window: { limit: 1, every: 1500ns }")),
              HasSubstr("the window is 1us500ns, but a shared limit is decided on the clock of "
                        "Redis, in microseconds"));
  EXPECT_THAT(message(limit("ticker: { interval: 1ns }")), HasSubstr("interval is 1ns"));
  EXPECT_THAT(message(limit("log: { limit: 5000, window: 500us }")),
              HasSubstr("finer than a micro"));
  EXPECT_THAT(message(limit("slots: { limit: 9007199254740992 }")), HasSubstr("exceeds 2^52"));
  EXPECT_THAT(message(limit("bucket: { rate: 4611686018427387903/s }")),
              HasSubstr("too fine or too fast"));
}

TEST(SharedLimit, TakesWhatRedisCanJustCount) {
  EXPECT_EQ(message(limit("slots: { limit: 4503599627370496 }")), "no mistake");
  EXPECT_THAT(message(limit("slots: { limit: 4503599627370497 }")), HasSubstr("exceeds 2^52"));
}

TEST(SharedLimit, OfSlotsIsNotDecidedByOneServerAlone) {
  EXPECT_THAT(
      message(std::string(kRedis) +
              "limits: [ { name: a, slots: { limit: 1 }, store: redis, outage: local } ]\n"),
      HasSubstr("it does not know whose work has ended"));
}

TEST(SharedLimit, HasAnOutagePolicyOnlyInRedis) {
  EXPECT_THAT(message("limits: [ { name: a, bucket: { rate: 1/s }, outage: allow } ]\n"),
              HasSubstr("write 'store: redis' too, or leave it out"));
}

TEST(Redis, SaysWhatIsWrongWithItsAddress) {
  EXPECT_THAT(message("redis: { url: http://localhost }\n"),
              HasSubstr("weir.yaml:1:15: redis: url"));
}

TEST(Redis, TakesARestartToBegin) {
  const Config without = config_of("limits: []\n");
  const Config with = config_of(std::string(kRedis));
  EXPECT_THAT(needs_restart(with, without), ::testing::Contains("redis"));
  Config next = with;
  EXPECT_FALSE(keep_until_restart(without, next)) << "its limits would have no store";
  EXPECT_TRUE(keep_until_restart(with, next));
  next = without;
  ASSERT_TRUE(keep_until_restart(with, next));
  EXPECT_EQ(next.redis, with.redis) << "it stays until the restart";
}

std::string leased(std::string_view meter, std::string_view lease) {
  return std::string(kRedis) + "limits: [ { name: a, " + std::string(meter) +
         ", store: redis, lease: " + std::string(lease) + " } ]\n";
}

TEST(LeasedLimit, IsReadWithItsDefaults) {
  const Config config = config_of(leased("bucket: { rate: 55/s }", "{}"));
  const auto& lease = config.rules->find("a")->shared->lease;
  ASSERT_TRUE(lease.has_value());
  EXPECT_EQ(lease->most, 5);
  EXPECT_EQ(lease->length, 1s);
  const Config small = config_of(leased("window: { limit: 3, every: day }", "{ length: 1h }"));
  EXPECT_EQ(small.rules->find("a")->shared->lease->most, 1);
  EXPECT_EQ(small.rules->find("a")->shared->lease->length, 1h);
}

TEST(LeasedLimit, IsNotLeasedIfItDoesNotSaySo) {
  EXPECT_FALSE(config_of(limit("bucket: { rate: 10/s }")).rules->find("a")->shared->lease);
}

TEST(LeasedLimit, MayHoldAllOfTheLimitAndNoMore) {
  EXPECT_EQ(message(leased("bucket: { rate: 10/s, burst: 20 }", "{ most: 20 }")), "no mistake");
  EXPECT_THAT(message(leased("bucket: { rate: 10/s, burst: 20 }", "{ most: 21 }")),
              HasSubstr("weir.yaml:2:11: limit 'a': lease: most is 21, but it must lie between 1 "
                        "and 20"));
  EXPECT_THAT(message(leased("bucket: { rate: 10/s }", "{ most: 0 }")),
              HasSubstr("most is '0', but it must be more than 0"));
}

TEST(LeasedLimit, LastsAsLongAsMakesSense) {
  EXPECT_EQ(message(leased("log: { limit: 5, window: 1h }", "{ length: 100ms }")), "no mistake");
  EXPECT_THAT(message(leased("log: { limit: 5, window: 1h }", "{ length: 99ms }")),
              HasSubstr("lease: length is 99ms, but it must lie between 100ms and 1h"));
  EXPECT_THAT(message(leased("log: { limit: 5, window: 1h }", "{ length: 3601s }")),
              HasSubstr("lease: length is 1h1s"));
}

TEST(LeasedLimit, IsNoneOfSlots) {
  EXPECT_THAT(message(leased("slots: { limit: 5 }", "{}")),
              HasSubstr("limit 'a': slots cannot be leased"));
}

TEST(LeasedLimit, IsInRedis) {
  EXPECT_THAT(message("limits: [ { name: a, bucket: { rate: 10/s }, lease: {} } ]\n"),
              HasSubstr("lease is given, but the limit is kept in memory"));
}

TEST(LeasedLimit, HasAMap) {
  EXPECT_THAT(message(leased("bucket: { rate: 10/s }", "50")),
              HasSubstr("write 'lease: { most: 50, length: 1s }'"));
  EXPECT_THAT(message(leased("bucket: { rate: 10/s }", "{ least: 5 }")), HasSubstr("'least'"));
}

}  // namespace
}  // namespace weir::config
