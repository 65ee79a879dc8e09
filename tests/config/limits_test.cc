// What a limit of the file becomes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/support.h"
#include "weir/base/integer.h"

namespace weir::config {
namespace {

using engine::LimitSpec;
using ::testing::ElementsAre;
using ::testing::Pair;
using namespace std::chrono_literals;

template <typename Spec>
Spec meter_of(const std::string& rest, const std::string& before = "") {
  const LimitSpec limit = limit_of(rest, before);
  const Spec* spec = std::get_if<Spec>(&limit.meter);
  EXPECT_NE(spec, nullptr) << rest;
  return spec == nullptr ? Spec{} : *spec;
}

TEST(ConfigLimit, MayOweWhatItsUnitCounts) {
  EXPECT_EQ(limit_of("bucket: { rate: 1/s }").overage, std::nullopt);
  EXPECT_EQ(limit_of("bucket: { rate: 1/s }, overage: 0").overage, 0);
  EXPECT_EQ(
      limit_of("unit: pu, bucket: { rate: 1/s }, overage: 2.5", "units: { pu: micro }\n").overage,
      2'500'000);
  EXPECT_THAT(mistakes_of("limits: [ { name: a, bucket: { rate: 1/s }, overage: 2.5 } ]"),
              ::testing::HasSubstr("f:1:54: limit 'a': overage is '2.5', but it must be"));
  EXPECT_THAT(mistakes_of("limits: [ { name: a, slots: { limit: 1 }, overage: 2 } ]"),
              ::testing::HasSubstr("limit 'a': slots never owe anything"));
}

TEST(ConfigLimit, HasABucket) {
  const auto bucket = meter_of<engine::BucketSpec>("bucket: { rate: 100/2s, burst: 200 }");
  EXPECT_EQ(bucket.amount, 100);
  EXPECT_EQ(bucket.period, 2s);
  EXPECT_EQ(bucket.burst, 200);
}

TEST(ConfigLimit, LeavesTheBurstToTheRate) {
  EXPECT_EQ(meter_of<engine::BucketSpec>("bucket: { rate: 100/s }").burst, 0);
  EXPECT_EQ(meter_of<engine::TickerSpec>("ticker: { interval: 1s }").burst, 0);
}

TEST(ConfigLimit, HasAWindowOfADurationOrOfTheCalendar) {
  const auto fixed = meter_of<engine::WindowSpec>("window: { every: 1d, limit: 10 }");
  EXPECT_EQ(fixed.limit, 10);
  EXPECT_EQ(fixed.every, 24h);
  const auto month = meter_of<engine::CalendarSpec>("window: { every: month, limit: 10 }");
  EXPECT_EQ(month.limit, 10);
  EXPECT_EQ(month.every, meter::CalendarUnit::kMonth);
  const std::vector<std::pair<std::string, meter::CalendarUnit>> units = {
      {"day", meter::CalendarUnit::kDay},
      {"week", meter::CalendarUnit::kWeek},
      {"year", meter::CalendarUnit::kYear}};
  for (const auto& [word, unit] : units) {
    EXPECT_EQ(meter_of<engine::CalendarSpec>("window: { limit: 1, every: " + word + " }").every,
              unit);
  }
}

TEST(ConfigLimit, HasALog) {
  const auto log = meter_of<engine::LogSpec>("log: { limit: 6, window: 1h }");
  EXPECT_EQ(log.limit, 6);
  EXPECT_EQ(log.window, 1h);
}

TEST(ConfigLimit, HasATicker) {
  const auto ticker = meter_of<engine::TickerSpec>(
      "ticker: { per_tick: 2, interval: 10ms, burst: 5, start: empty }");
  EXPECT_EQ(ticker.per_tick, 2);
  EXPECT_EQ(ticker.interval, 10ms);
  EXPECT_EQ(ticker.burst, 5);
  EXPECT_EQ(ticker.start, meter::TickerStart::kEmpty);
  EXPECT_EQ(meter_of<engine::TickerSpec>("ticker: { interval: 1s, start: full }").start,
            meter::TickerStart::kFull);
}

TEST(ConfigLimit, HasSlots) {
  const auto slots = meter_of<engine::SlotsSpec>("slots: { limit: 32, queue: 16, hold: 5s }");
  EXPECT_EQ(slots.limit, 32);
  EXPECT_EQ(slots.queue, 16);
  EXPECT_EQ(slots.hold, 5s);
  EXPECT_EQ(meter_of<engine::SlotsSpec>("slots: { limit: 1 }").hold, 1min);
}

TEST(ConfigLimit, ScalesEveryAmountOfAMicroUnit) {
  const std::string units = "units: { pu: micro }\n";
  const auto bucket =
      meter_of<engine::BucketSpec>("unit: pu, bucket: { rate: 0.5/s, burst: 2 }", units);
  EXPECT_EQ(bucket.amount, 500'000);
  EXPECT_EQ(bucket.burst, 2'000'000);
  EXPECT_EQ(
      meter_of<engine::WindowSpec>("unit: pu, window: { limit: 0.64, every: 1h }", units).limit,
      640'000);
  EXPECT_EQ(meter_of<engine::LogSpec>("unit: pu, log: { limit: 1, window: 1h }", units).limit,
            kMicro);
  const auto ticker =
      meter_of<engine::TickerSpec>("unit: pu, ticker: { interval: 1s, burst: 1.5 }", units);
  EXPECT_EQ(ticker.per_tick, kMicro);
  EXPECT_EQ(ticker.burst, 1'500'000);
  const auto slots = meter_of<engine::SlotsSpec>("unit: pu, slots: { limit: 3, queue: 3 }", units);
  EXPECT_EQ(slots.limit, 3'000'000);
  EXPECT_EQ(slots.queue, 3);  // requests, not units
}

TEST(ConfigLimit, ReadsItsUnitWhereverItStands) {
  EXPECT_EQ(meter_of<engine::WindowSpec>("window: { limit: 0.5, every: 1h }, unit: pu",
                                         "units: { pu: micro }\n")
                .limit,
            500'000);
}

TEST(ConfigLimit, ReadsUnitsWrittenAfterTheLimits) {
  const Config config = config_of(
      "limits: [ { name: a, unit: pu, window: { limit: 0.5, every: 1h } } ]\n"
      "units: { pu: micro }\n");
  EXPECT_EQ(std::get<engine::WindowSpec>(config.limits_spec.limits[0].meter).limit, 500'000);
}

TEST(ConfigLimit, HasConditionsOfOneOrSeveralPatterns) {
  const LimitSpec limit =
      limit_of("when: { operation: [put, post], client: a-* }, window: { limit: 1, every: 1s }");
  ASSERT_EQ(limit.when.size(), 2u);
  EXPECT_EQ(limit.when[0].attribute, "operation");
  EXPECT_THAT(limit.when[0].patterns, ElementsAre("put", "post"));
  EXPECT_THAT(limit.when[1].patterns, ElementsAre("a-*"));
}

TEST(ConfigLimit, HasWeights) {
  const LimitSpec limit = limit_of(
      "weigh: { operation: { put: 0, post: 4_294_967_296 } }, window: { limit: 1, every: 1s }");
  EXPECT_EQ(limit.weigh.attribute, "operation");
  EXPECT_THAT(limit.weigh.table, ElementsAre(Pair("put", 0), Pair("post", std::int64_t{1} << 32)));
}

TEST(ConfigLimit, HasExemptionsShadowParentAndQueue) {
  const Config config = config_of(
      "limits:\n"
      "  - { name: all, window: { limit: 1, every: 1s } }\n"
      "  - { name: a, per: client, exempt: [ { x: p, y: q }, { z: r } ], shadow: true, parent: "
      "all,\n"
      "      queue: 7, window: { limit: 1, every: 1s } }\n");
  const LimitSpec& limit = config.limits_spec.limits[1];
  EXPECT_THAT(limit.per, ElementsAre("client"));
  ASSERT_EQ(limit.exempt.size(), 2u);
  EXPECT_EQ(limit.exempt[0].size(), 2u);
  EXPECT_EQ(limit.exempt[1][0].attribute, "z");
  EXPECT_TRUE(limit.shadow);
  EXPECT_EQ(limit.parent, "all");
  EXPECT_EQ(limit.queue_max, 7);
  EXPECT_EQ(config.rules->find("a")->parent, 0);
}

TEST(ConfigLimit, MayHaveAllKeysThatAreLeft) {
  const Config config = config_of(
      "bounds: { keys: 10, cl_throttle_keys: 1 }\n"
      "limits:\n"
      "  - { name: a, per: [x], keys: 4, bucket: { rate: 1/s } }\n"
      "  - { name: b, per: [x], keys: 5, bucket: { rate: 1/s } }\n"
      "  - { name: c, per: [x], bucket: { rate: 1/s } }\n");
  EXPECT_EQ(config.limits_spec.limits[0].keys, 4);
  EXPECT_EQ(config.limits_spec.limits[1].keys, 5);
  EXPECT_EQ(config.limits_spec.limits[2].keys, 0);
  EXPECT_EQ(config.rules->find("b")->keys, 5);
  EXPECT_THAT(describe(config), HasSubstr("per x; unit requests; at most 5 keys\n"));
}

TEST(ConfigLimit, TakesQuotedTextAsItIs) {
  const LimitSpec limit =
      limit_of("per: ['null', \"a: b\"], window: { limit: '5', every: \"1s\" }");
  EXPECT_THAT(limit.per, ElementsAre("null", "a: b"));
}

}  // namespace
}  // namespace weir::config
