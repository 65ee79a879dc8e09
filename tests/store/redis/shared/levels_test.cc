// Looking at one key of a shared limit, and forgetting what it has used.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/redis/shared/support.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::HoldState;
using engine::MeterSpec;
using engine::RuleSetSpec;
using ::testing::HasSubstr;
using testing::RedisServer;

RuleSetSpec rules_of(MeterSpec meter) {
  return {.limits = {{.name = "calls",
                      .per = {"client"},
                      .unit = "tokens",
                      .meter = std::move(meter),
                      .shared = engine::SharedSpec{}}},
          .units = {{"tokens"}}};
}

RuleSetSpec leased(std::int64_t most) {
  RuleSetSpec rules = rules_of(engine::BucketSpec{.amount = 10, .period = 1h, .burst = 100});
  rules.limits[0].shared->lease = engine::LeaseSpec{.most = most, .length = 10s};
  return rules;
}

Result<Decision> take(SharedEngine& server, std::int64_t tokens, engine::Wants options = {}) {
  const engine::Cost costs[] = {{"tokens", tokens}};
  return server.acquire({.attributes = kAcme, .costs = costs}, std::move(options));
}

std::int64_t left(SharedEngine& server) {
  const Result<engine::Inspection> found = server.inspect("calls", {"acme"});
  EXPECT_TRUE(found) << found.error().message;
  return found ? found->remaining : -1;
}

// Of 100, 10 were used and the others are in Redis or held here, at least 10 of them. A tick
// between two requests draws more than they do themselves, and may have something under way.
bool holds_some_of_ninety(SharedEngine& server) {
  return eventually([&] {
    const Result<engine::Inspection> found = server.inspect("calls", {"acme"});
    return found && found->leased >= 10 && found->remaining + found->leased.value_or(0) == 90;
  });
}

struct Named {
  std::string name;
  MeterSpec meter;
};

class SharedKeyOfAny : public ::testing::TestWithParam<Named> {};

TEST_P(SharedKeyOfAny, IsInspectedAndResetThroughAnyServer) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), rules_of(GetParam().meter), clock, patient());
  SharedEngine second(redis.url(), rules_of(GetParam().meter), clock, patient());
  EXPECT_EQ(left(first), 10);
  ASSERT_TRUE(take(first, 7)->allowed());
  const Result<engine::Inspection> found = second.inspect("calls", {"acme"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->remaining, 3);
  EXPECT_EQ(found->capacity, 10);
  EXPECT_FALSE(found->overridden);
  EXPECT_FALSE(found->leased);
  EXPECT_EQ(second.inspect("calls", {"other"})->remaining, 10);

  const Status reset = second.reset("calls", {"acme"});
  ASSERT_TRUE(reset) << reset.error().message;
  EXPECT_EQ(left(first), 10);
  EXPECT_TRUE(take(first, 10)->allowed());
  EXPECT_FALSE(take(second, 1)->allowed());
}

// Every meter counts as used after a loss, for as long as it takes to fill: not one that was
// reset since.
TEST_P(SharedKeyOfAny, IsFullAfterAResetThoughDataWasLost) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), rules_of(GetParam().meter), clock, patient());
  ASSERT_TRUE(take(server, 1)->allowed());
  redis.ask("FLUSHALL");
  ASSERT_FALSE(take(server, 1)->allowed());
  ASSERT_EQ(left(server), 0);

  ASSERT_TRUE(server.reset("calls", {"acme"}));
  EXPECT_EQ(left(server), 10);
  EXPECT_EQ(server.inspect("calls", {"other"})->remaining, 0);
  const Result<Decision> held = take(server, 4, {.hold = 10s});
  ASSERT_TRUE(held && held->allowed());
  EXPECT_EQ(*server.cancel(held->hold), HoldState::kCancelled);
  EXPECT_EQ(left(server), 10);
  EXPECT_TRUE(take(server, 10)->allowed());
  EXPECT_FALSE(take(server, 1)->allowed());
}

INSTANTIATE_TEST_SUITE_P(
    Meters, SharedKeyOfAny,
    ::testing::Values(Named{"Bucket", engine::BucketSpec{10, 1h, 10}},
                      Named{"Ticker", engine::TickerSpec{1, 1h, 10}},
                      Named{"Window", engine::WindowSpec{10, 24h}},
                      Named{"Calendar", engine::CalendarSpec{10, meter::CalendarUnit::kMonth}},
                      Named{"Log", engine::LogSpec{10, 1h}}),
    [](const auto& test) { return test.param.name; });

TEST(SharedKey, OfATickerThatStartsEmptyIsEmptyAfterAReset) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  const RuleSetSpec rules = rules_of(engine::TickerSpec{1, 1s, 10, meter::TickerStart::kEmpty});
  SharedEngine server(redis.url(), rules, clock, patient());
  ASSERT_FALSE(take(server, 1)->allowed());
  clock.advance(5500ms);
  EXPECT_EQ(left(server), 5);
  ASSERT_TRUE(server.reset("calls", {"acme"}));
  EXPECT_EQ(left(server), 0);
  clock.advance(1s - 1us);
  EXPECT_EQ(left(server), 0);
  clock.advance(1us);
  EXPECT_EQ(left(server), 1);
}

// As in memory: what is in flight was not spent.
TEST(SharedKey, OfSlotsIsNotFreedByAReset) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  const RuleSetSpec rules = rules_of(engine::SlotsSpec{.limit = 3, .queue = 0, .hold = 10s});
  SharedEngine server(redis.url(), rules, clock, patient());
  const Result<Decision> held = take(server, 2);
  ASSERT_TRUE(held && held->allowed());
  EXPECT_EQ(left(server), 1);
  ASSERT_TRUE(server.reset("calls", {"acme"}));
  EXPECT_EQ(left(server), 1);
  EXPECT_EQ(*server.cancel(held->hold), HoldState::kCancelled);
  EXPECT_EQ(left(server), 3);
}

TEST(SharedKey, InDebtIsInspectedBelowZero) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), rules_of(engine::BucketSpec{10, 1h, 10}), clock, patient());
  const Result<Decision> held = take(server, 8, {.hold = 10s});
  ASSERT_TRUE(held && held->allowed());
  const engine::Cost actual[] = {{"tokens", 15}};
  ASSERT_EQ(*server.settle(held->hold, actual), HoldState::kSettled);
  EXPECT_EQ(left(server), -5);
}

TEST(SharedKey, ThatIsResetKeepsTheHoldsOfEverybody) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), rules_of(engine::BucketSpec{10, 1h, 10}), clock, patient());
  const Result<Decision> held = take(server, 6, {.hold = 10s});
  ASSERT_TRUE(held && held->allowed());
  ASSERT_TRUE(server.reset("calls", {"acme"}));
  // Full is full: what comes back has no room.
  EXPECT_EQ(*server.cancel(held->hold), HoldState::kCancelled);
  EXPECT_EQ(left(server), 10);
}

TEST(SharedKey, IsNamedByTheRightValues) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), rules_of(engine::BucketSpec{10, 1h, 10}), clock, patient());
  EXPECT_THAT(server.inspect("calls").error().message, HasSubstr("the key has 0 values"));
  EXPECT_THAT(server.reset("calls", {"a", "b"}).error().message, HasSubstr("the key has 2 values"));
  EXPECT_THAT(server.reset("nothing").error().message, HasSubstr("there is no such limit"));
}

TEST(SharedKey, OfSomebodyElseIsLeftAlone) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), rules_of(engine::BucketSpec{10, 1h, 10}), clock, patient());
  redis.ask("SET weir:1:{weir}:b:calls:acme mine");
  EXPECT_THAT(server.inspect("calls", {"acme"}).error().message,
              HasSubstr("holds a value that weir did not write"));
  EXPECT_THAT(server.reset("calls", {"acme"}).error().message,
              HasSubstr("holds a value that weir did not write"));
  EXPECT_THAT(redis.ask("STRLEN weir:1:{weir}:b:calls:acme"), HasSubstr(":4"));
}

// In every outage policy alike: this is about Redis, not about a request.
TEST(SharedKey, IsNotGuessedAtWhileRedisIsAway) {
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = rules_of(engine::BucketSpec{10, 1h, 10});
  rules.limits[0].shared->outage = engine::Outage::kAllow;
  RedisServer redis;
  const std::string url = redis.url();
  SharedEngine server(url, rules, clock, patient());
  ASSERT_TRUE(take(server, 1)->allowed());
  redis.kill();
  EXPECT_EQ(server.inspect("calls", {"acme"}).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(server.reset("calls", {"acme"}).error().code, ErrorCode::kUnavailable);
}

TEST(LeasedKey, IsInspectedAsRedisHasItAndWithWhatIsHeldHere) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), leased(20), clock, patient());
  SharedEngine second(redis.url(), leased(20), clock, patient());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(take(first, 5)->allowed());
  // Twice what was used so far was drawn with the second, beside what it needed.
  ASSERT_TRUE(holds_some_of_ninety(first));
  const Result<engine::Inspection> here = first.inspect("calls", {"acme"});
  ASSERT_TRUE(here) << here.error().message;
  const Result<engine::Inspection> there = second.inspect("calls", {"acme"});
  EXPECT_EQ(there->remaining, here->remaining);
  EXPECT_EQ(there->leased, 0);
}

TEST(LeasedKey, ThatIsResetHasNothingHeldHereAnyMore) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), leased(20), clock, patient());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(take(server, 5)->allowed());
  ASSERT_TRUE(holds_some_of_ninety(server));
  ASSERT_TRUE(server.reset("calls", {"acme"}));
  // What was held is gone. A draw under way may reach Redis behind the reset: that is a part of the
  // hundred, once its answer is here.
  EXPECT_TRUE(eventually([&] {
    const Result<engine::Inspection> found = server.inspect("calls", {"acme"});
    return found && found->remaining + *found->leased == 100;
  }));
  std::int64_t admitted = 0;
  while (take(server, 1)->allowed()) ++admitted;
  EXPECT_EQ(admitted, 100);
}

// A refusal is repeated without asking Redis, but not beyond a reset.
TEST(LeasedKey, ThatIsResetIsAskedForAgain) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), leased(20), clock, patient());
  while (take(server, 1)->allowed()) {
  }
  ASSERT_FALSE(take(server, 1)->allowed());
  ASSERT_TRUE(server.reset("calls", {"acme"}));
  EXPECT_TRUE(take(server, 1)->allowed());
}

TEST(LeasedKey, KeepsItsUnitsIfTheResetFails) {
  testing::ManualClock clock(kStart);
  RedisServer redis;
  SharedEngine server(redis.url(), leased(20), clock, patient());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(take(server, 5)->allowed());
  ASSERT_TRUE(holds_some_of_ninety(server));
  redis.kill();
  ASSERT_FALSE(server.reset("calls", {"acme"}));
  EXPECT_TRUE(take(server, 10)->allowed());
}

}  // namespace
}  // namespace weir::store::redis
