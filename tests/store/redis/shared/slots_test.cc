// Slots that a fleet shares: what Redis holds of them, and what holds do to it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/store/redis/shared/support.h"
#include "tests/support/seed.h"
#include "weir/base/clock.h"
#include "weir/store/redis/shared/keys.h"
#include "weir/store/redis/shared/meter.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::HoldState;
using ::testing::HasSubstr;
using testing::RedisServer;

const std::string kKey = "weir:1:{weir}:s:running";
constexpr std::int64_t kHeadBytes = 8;   // of the value, before its holds
constexpr std::int64_t kHoldBytes = 30;  // of each hold

engine::RuleSetSpec at_once(std::int64_t limit) {
  return {.limits = {{.name = "running",
                      .unit = "tokens",
                      .meter = engine::SlotsSpec{.limit = limit, .queue = 0, .hold = 1h},
                      .shared = engine::SharedSpec{}}},
          .units = {{"tokens"}}};
}

Result<Decision> take_slot(SharedEngine& server, std::int64_t units, Duration ttl = 10s) {
  const engine::Cost costs[] = {{"tokens", units}};
  return server.acquire({.costs = costs}, {.hold = ttl});
}

HoldId held(SharedEngine& server, std::int64_t units, Duration ttl = 10s) {
  const Result<Decision> decision = take_slot(server, units, ttl);
  EXPECT_TRUE(decision) << decision.error().message;
  EXPECT_TRUE(decision && decision->allowed());
  return decision ? decision->hold : HoldId{};
}

std::int64_t slots_left(SharedEngine& server) {
  const engine::Cost costs[] = {{"tokens", 0}};
  const Result<Decision> decision = server.peek({.costs = costs});
  EXPECT_TRUE(decision) << decision.error().message;
  return decision ? decision->outcomes()[0].remaining : -1;
}

std::int64_t number(const RedisServer& redis, const std::string& command) {
  const std::string line = redis.ask(command);
  EXPECT_TRUE(line.starts_with(":")) << command << ": " << line;
  return line.starts_with(":") ? std::stoll(line.substr(1)) : -1;
}

std::int64_t holds_kept(const RedisServer& redis) {
  const std::int64_t bytes = number(redis, "STRLEN " + kKey);
  if (bytes == 0) return 0;
  EXPECT_EQ((bytes - kHeadBytes) % kHoldBytes, 0) << bytes;
  return (bytes - kHeadBytes) / kHoldBytes;
}

// As clients send it, any bytes: an inline command would leave the value room to grow.
void set(const RedisServer& redis, const std::string& key, const std::string& value) {
  std::string command = "*5\r\n";
  for (const std::string& word :
       {std::string("SET"), key, value, std::string("PX"), std::string("1000000")}) {
    command += fmt::format("${}\r\n{}\r\n", word.size(), word);
  }
  ASSERT_EQ(redis.ask(command), "+OK");
}

std::string bytes_of(std::uint64_t value, int bytes) {
  std::string text;
  while (bytes-- > 0) text += static_cast<char>(value >> (8 * bytes) & 0xff);
  return text;
}

TEST(SharedSlots, AreHardlyLargerThanAStringOfTheSameKeyValueAndExpiry) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(1000), clock, patient());
  std::int64_t taken = 0;
  for (const std::int64_t holds : {1, 3, 10, 50, 126, 200, 1000}) {
    for (; taken < holds; ++taken) {
      ASSERT_TRUE(held(server, 1));
      clock.advance(1us);
    }
    ASSERT_EQ(holds_kept(redis), holds);
    const std::int64_t ours = number(redis, "MEMORY USAGE " + kKey);
    const std::string other = "x" + kKey.substr(1);
    set(redis, other, std::string(static_cast<std::size_t>(kHeadBytes + holds * kHoldBytes), 'v'));
    const std::int64_t yardstick = number(redis, "MEMORY USAGE " + other);
    EXPECT_LE(ours * 10, yardstick * 11) << holds << " holds: " << ours << " and " << yardstick;
  }
}

TEST(SharedSlots, HaveNoKeyWhenNothingIsInFlight) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(5), clock, patient());
  const HoldId first = held(server, 2);
  const HoldId second = held(server, 3);
  EXPECT_EQ(*server.settle(first, {}), HoldState::kSettled);
  EXPECT_EQ(holds_kept(redis), 1);
  EXPECT_EQ(*server.cancel(second), HoldState::kCancelled);
  EXPECT_EQ(redis.ask("EXISTS " + kKey), ":0");
}

TEST(SharedSlots, ExpireWithTheLastHold) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine server(redis.url(), at_once(5), here, patient(), true);
  const HoldId longest = held(server, 1, 3h);
  const HoldId shortest = held(server, 1, 1h);
  const auto expires_within = [&](Duration least, Duration most) {
    const std::int64_t ms = number(redis, "PTTL " + kKey);
    EXPECT_GT(ms, least / 1ms);
    EXPECT_LE(ms, most / 1ms + 1);
  };
  expires_within(2h, 3h);
  ASSERT_EQ(*server.cancel(longest), HoldState::kCancelled);
  expires_within(30min, 1h);
  ASSERT_EQ(*server.renew(shortest, 2h), HoldState::kActive);
  expires_within(1h, 2h);
}

TEST(SharedSlots, AreFreedOfHoldsThatHaveEndedByWhoeverComesNext) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(5), clock, patient());
  held(server, 2, 10s);
  held(server, 1, 30s);
  held(server, 1, 20s);
  clock.advance(10s - 1us);
  EXPECT_EQ(slots_left(server), 1);
  clock.advance(1us);
  EXPECT_EQ(slots_left(server), 3);
  EXPECT_EQ(holds_kept(redis), 3);  // looking changes nothing
  EXPECT_FALSE(take_slot(server, 4)->allowed());
  EXPECT_EQ(holds_kept(redis), 2);
  clock.advance(10s);
  held(server, 4, 1s);
  EXPECT_EQ(holds_kept(redis), 2);
  EXPECT_EQ(slots_left(server), 0);
}

TEST(SharedSlots, KeepARenewedHoldUntilItsNewEnd) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(7), clock, patient());
  const HoldId later = held(server, 1, 10s);
  held(server, 2, 20s);
  const HoldId sooner = held(server, 4, 30s);
  ASSERT_EQ(*server.renew(later, 40s), HoldState::kActive);
  ASSERT_EQ(*server.renew(sooner, 5s), HoldState::kActive);
  EXPECT_EQ(slots_left(server), 0);
  clock.advance(5s);
  EXPECT_EQ(slots_left(server), 4);
  EXPECT_EQ(*server.renew(sooner, 60s), HoldState::kGone);
  clock.advance(15s);
  EXPECT_EQ(slots_left(server), 6);
  clock.advance(20s - 1us);
  EXPECT_EQ(slots_left(server), 6);
  clock.advance(1us);
  EXPECT_EQ(slots_left(server), 7);
}

// Many holds, ended and renewed in any order, beside a list of them.
TEST(SharedSlots, CountWhatIsInFlight) {
  struct Held {
    HoldId id;
    Instant ends;
    std::int64_t units;
  };
  RedisServer redis;
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(fmt::format("reproduce with WEIR_SEED={}", seed));
  std::mt19937_64 random(seed);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  constexpr std::int64_t kLimit = kSharedTermMax;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(kLimit), clock, patient());
  std::vector<Held> all;
  std::int64_t in_flight = 0;
  for (int step = 0; step < 1500; ++step) {
    SCOPED_TRACE(fmt::format("step {}", step));
    if (draw(0, 1) == 0) clock.advance(std::chrono::milliseconds{draw(1, 40)});
    const Duration ttl = std::chrono::milliseconds{draw(1, 4000)};
    const std::int64_t what = draw(0, 9);
    if (what < 6 || all.empty()) {
      const std::int64_t units = draw(0, 9) == 0 ? draw(1, kLimit / 1000) : draw(1, 300);
      const Result<Decision> decision = take_slot(server, units, ttl);
      ASSERT_TRUE(decision) << decision.error().message;
      ASSERT_TRUE(decision->allowed());
      all.push_back({decision->hold, clock.now() + ttl, units});
    } else {
      Held& one = all[static_cast<std::size_t>(draw(0, std::ssize(all) - 1))];
      const bool has_ended = one.ends <= clock.now();
      if (what == 6) {
        const Result<HoldState> state = server.renew(one.id, ttl);
        ASSERT_EQ(*state, has_ended ? HoldState::kGone : HoldState::kActive);
        if (!has_ended) one.ends = clock.now() + ttl;
      } else {
        const Result<HoldState> state = server.cancel(one.id);
        ASSERT_EQ(*state, has_ended ? HoldState::kGone : HoldState::kCancelled);
        std::swap(one, all.back());
        all.pop_back();
      }
    }
    in_flight = 0;
    for (const Held& one : all) in_flight += one.ends > clock.now() ? one.units : 0;
    ASSERT_EQ(slots_left(server), kLimit - in_flight);
  }
  EXPECT_GT(in_flight, 0);
}

TEST(SharedSlots, TellHoldsApartThatEndAtTheSameInstant) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(31), clock, patient());
  const HoldId holds[] = {held(server, 1), held(server, 2), held(server, 4), held(server, 8),
                          held(server, 16)};
  EXPECT_EQ(slots_left(server), 0);
  ASSERT_EQ(*server.cancel(holds[2]), HoldState::kCancelled);
  EXPECT_EQ(slots_left(server), 4);
  ASSERT_EQ(*server.renew(holds[1], 5s), HoldState::kActive);
  ASSERT_EQ(*server.renew(holds[4], 10s), HoldState::kActive);  // as it was
  ASSERT_EQ(*server.cancel(holds[4]), HoldState::kCancelled);
  EXPECT_EQ(slots_left(server), 20);
  clock.advance(5s);
  EXPECT_EQ(slots_left(server), 22);
  ASSERT_EQ(*server.cancel(holds[0]), HoldState::kCancelled);
  EXPECT_EQ(slots_left(server), 23);
  EXPECT_EQ(*server.cancel(holds[0]), HoldState::kCancelled);
  EXPECT_EQ(slots_left(server), 23);
}

TEST(SharedSlots, OfSomebodyElseAreANamedErrorToWhoeverComes) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(5), clock, patient());
  const HoldId hold = held(server, 1);
  const auto expect_refused = [&] {
    const Result<Decision> decision = take_slot(server, 1);
    const Result<HoldState> renewed = server.renew(hold, 20s);
    const Result<HoldState> settled = server.settle(hold, {});
    ASSERT_FALSE(decision);
    ASSERT_FALSE(renewed);
    ASSERT_FALSE(settled);
    for (const Error& error : {decision.error(), renewed.error(), settled.error()}) {
      EXPECT_EQ(error.code, ErrorCode::kUnavailable);
      EXPECT_THAT(error.message, HasSubstr("key '" + kKey + "'"));
      EXPECT_THAT(error.message, HasSubstr("weir did not write"));
    }
  };
  const std::string own = "s" + bytes_of(1, 7) + bytes_of(kStart.ns / 1000 + 10'000'000, 7) +
                          bytes_of(1, 7) + hold_bytes(hold);
  const std::string others[] = {
      "", "hello", own.substr(0, 8), own.substr(0, 37), own + "x", "l" + own.substr(1)};
  for (const std::string& value : others) {
    SCOPED_TRACE(value.size());
    set(redis, kKey, value);
    expect_refused();
  }
  for (const std::string& command : {"ZADD " + kKey + " 5 member", "RPUSH " + kKey + " hello"}) {
    SCOPED_TRACE(command);
    redis.ask("DEL " + kKey);
    redis.ask(command);
    expect_refused();
  }
  redis.ask("DEL " + kKey);
  set(redis, kKey, own);
  EXPECT_EQ(*server.settle(hold, {}), HoldState::kSettled);
  EXPECT_EQ(redis.ask("EXISTS " + kKey), ":0");
}

TEST(SharedSlots, AreTakenAfterALossUntilTheirHoldsWouldHaveEnded) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(5), clock, patient());
  const HoldId hold = held(server, 1);
  redis.ask("FLUSHALL");
  EXPECT_FALSE(take_slot(server, 1)->allowed());
  EXPECT_EQ(*server.cancel(hold), HoldState::kGone);
  clock.advance(1h - 1us);
  EXPECT_FALSE(take_slot(server, 1)->allowed());
  clock.advance(1us);
  EXPECT_TRUE(take_slot(server, 5)->allowed());
}

// --- the holds of a key, ended by an operator

TEST(SharedSlots, ComeBackWhenTheHoldsOfTheirKeyAreEnded) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), at_once(10), clock, patient());
  SharedEngine second(redis.url(), at_once(10), clock, patient());
  const HoldId short_one = held(first, 1, 1s);
  const HoldId a = held(first, 2);
  const HoldId b = held(second, 3);
  clock.advance(2s);  // the first has ended, though nobody has looked
  ASSERT_EQ(slots_left(second), 5);
  const Result<engine::EndedHolds> ended = second.end_holds("running");
  ASSERT_TRUE(ended) << ended.error().message;
  EXPECT_EQ(ended->count, 2u);
  EXPECT_EQ(slots_left(first), 10);
  EXPECT_EQ(*first.cancel(a), HoldState::kCancelled);
  EXPECT_EQ(*first.settle(b, {}), HoldState::kCancelled) << "it ended once";
  EXPECT_EQ(*first.cancel(short_one), HoldState::kGone);
  EXPECT_EQ(second.end_holds("running")->count, 0u);
}

TEST(SharedSlots, TellTheHoldsOfTheirKeyUpToABound) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), at_once(10), clock, patient());
  std::vector<HoldId> holds;
  for (int i = 0; i < 4; ++i) holds.push_back(held(server, 1, 10s + i * 1s));
  const auto rules = compiled(at_once(10));
  engine::SharedItem item;
  item.rule = &rules->rules()[0];
  for (const std::size_t most : {3, 4, 5}) {
    Waited<std::vector<HoldId>> waited;
    server.limits().holds(item, most, waited.callback());
    const auto told = waited.get();
    ASSERT_TRUE(told) << told.error().message;
    ASSERT_EQ(told->size(), std::min<std::size_t>(most, 4));
    for (std::size_t i = 0; i < told->size(); ++i) {
      EXPECT_EQ((*told)[i].owner, holds[i].owner);
      EXPECT_EQ((*told)[i].number, holds[i].number);
    }
  }
}

TEST(SharedHolds, AreNotKnownByTheKeysOfOtherMeters) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  engine::RuleSetSpec rules = at_once(10);
  rules.limits[0].meter = engine::WindowSpec{10, 1h};
  SharedEngine server(redis.url(), rules, clock, patient());
  held(server, 4);
  const Result<engine::EndedHolds> refused = server.end_holds("running");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("nobody knows which holds were charged there"));
  EXPECT_EQ(slots_left(server), 6) << "nothing was forgotten either";
}

// A hold that was charged here and in Redis ends in both.
TEST(SharedHolds, OfAKeyInMemoryEndInRedisToo) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  engine::RuleSetSpec rules = at_once(10);
  rules.limits.push_back({.name = "here", .meter = engine::WindowSpec{10, 1h}});
  SharedEngine server(redis.url(), rules, clock, patient());
  held(server, 4);
  ASSERT_EQ(slots_left(server), 6);
  EXPECT_EQ(server.end_holds("here")->count, 1u);
  EXPECT_EQ(slots_left(server), 10);
  EXPECT_EQ(server.engine().usage().holds, 0u);
}

}  // namespace
}  // namespace weir::store::redis
