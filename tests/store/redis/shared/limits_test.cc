#include "weir/store/redis/shared/limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/store/redis/shared/support.h"
#include "weir/base/clock.h"
#include "weir/store/redis/shared/keys.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::HoldState;
using engine::Outage;
using engine::RuleSetSpec;
using ::testing::HasSubstr;
using testing::RedisServer;

RuleSetSpec two_at_once() {
  return {.limits = {{.name = "running",
                      .meter = engine::SlotsSpec{.limit = 2, .queue = 0, .hold = 10s},
                      .shared = engine::SharedSpec{}}}};
}

TEST(SharedLimits, AreOneLimitForTwoEngines) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), ten_an_hour(), clock, patient());
  SharedEngine second(redis.url(), ten_an_hour(), clock, patient());
  EXPECT_EQ(admitted(first, 4), 4);
  EXPECT_EQ(admitted(second, 8), 6);
  EXPECT_EQ(admitted(first, 1), 0);
}

TEST(SharedLimits, AreAnErrorInCallsThatAnswerAtOnce) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), ten_an_hour(), clock, patient());
  const Result<Decision> decision = server.engine().decide(kCall, clock.now());
  ASSERT_FALSE(decision);
  EXPECT_THAT(decision.error().message, HasSubstr("ask()"));
  EXPECT_EQ(server.limits().counts().asked, 0u);
}

TEST(SharedLimits, WithoutAStoreAreAnError) {
  auto engine = std::move(*engine::Engine::create(compiled(ten_an_hour())));
  const Result<Decision> decision = engine->decide(kCall, kStart);
  ASSERT_FALSE(decision);
  EXPECT_THAT(decision.error().message, HasSubstr("limit 'calls': it is shared"));
}

TEST(SharedLimits, ThatRefuseLeaveLocalLimitsAsTheyWere) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = ten_an_hour();
  rules.limits.push_back({.name = "here", .meter = engine::WindowSpec{100, 24h}});
  SharedEngine server(redis.url(), rules, clock, patient());
  EXPECT_EQ(admitted(server, 12), 10);
  const Result<engine::Inspection> here = engine::inspect(server.engine(), "here", {}, clock.now());
  ASSERT_TRUE(here);
  EXPECT_EQ(here->remaining, 90);
  EXPECT_EQ(server.engine().usage().holds, 0u);
}

TEST(SharedLimits, AreNotAskedWhereALocalLimitRefuses) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = ten_an_hour();
  rules.limits.push_back({.name = "here", .meter = engine::WindowSpec{1, 24h}});
  SharedEngine server(redis.url(), rules, clock, patient());
  EXPECT_EQ(admitted(server, 5), 1);
  EXPECT_EQ(server.limits().counts().asked, 1u);
}

TEST(SharedLimits, WaitUntilTheRequestFits) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules{.limits = {{.name = "calls",
                                .meter = engine::BucketSpec{.amount = 20, .period = 1s, .burst = 1},
                                .shared = engine::SharedSpec{}}}};
  SharedEngine server(redis.url(), rules, clock, patient(), true);
  ASSERT_TRUE(server.acquire(kAny)->allowed());
  const Result<Decision> waited = server.acquire(kAny, {}, 1h);
  ASSERT_TRUE(waited) << waited.error().message;
  EXPECT_TRUE(waited->allowed());
}

TEST(SharedHold, IsSettledByAnotherEngine) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = ten_an_hour();
  rules.limits[0].unit = "tokens";
  rules.units = {{"tokens"}};
  auto first = std::make_unique<SharedEngine>(redis.url(), rules, clock, patient());
  SharedEngine second(redis.url(), rules, clock, patient());
  const engine::Cost estimate[] = {{"tokens", 8}};
  const engine::Request request{.attributes = kAcme, .costs = estimate};
  const Result<Decision> held = first->acquire(request, {.hold = 60s});
  ASSERT_TRUE(held && held->allowed());
  ASSERT_TRUE(held->hold.is_shared);
  first.reset();

  const engine::Cost actual[] = {{"tokens", 3}};
  const Result<HoldState> settled = second.settle(held->hold, actual);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(*settled, HoldState::kSettled);
  EXPECT_EQ(second.peek(request)->outcomes()[0].remaining, 7);

  EXPECT_EQ(*second.settle(held->hold, {}), HoldState::kSettled);
  EXPECT_EQ(*second.cancel(held->hold), HoldState::kSettled);
  EXPECT_EQ(second.peek(request)->outcomes()[0].remaining, 7);
}

// An hourly ticker takes 4.5 * 10^15 hours to make up for that.
TEST(SharedHold, IsSettledOnceHoweverMuchMoreItTook) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  const RuleSetSpec rules{
      .limits = {{.name = "bucket",
                  .unit = "calls",
                  .meter = engine::BucketSpec{.amount = 10, .period = 24h, .burst = 10},
                  .shared = engine::SharedSpec{}},
                 {.name = "ticker",
                  .unit = "tokens",
                  .overage = kTermMax,
                  .meter = engine::TickerSpec{1, 1h, 10},
                  .shared = engine::SharedSpec{}}},
      .units = {{"calls"}, {"tokens"}}};
  for (const bool has_redis_time : {true, false}) {
    redis.ask("FLUSHALL");
    SharedEngine server(redis.url(), rules, clock, patient(), has_redis_time);
    const engine::Cost estimate[] = {{"calls", 4}, {"tokens", 1}};
    const engine::Request request{.costs = estimate};
    const Result<Decision> other = server.acquire(request);
    const Result<Decision> held = server.acquire(request, {.hold = 1h});
    ASSERT_TRUE(other && other->allowed());
    ASSERT_TRUE(held && held->allowed());
    const engine::Cost actual[] = {{"calls", 1}, {"tokens", std::int64_t{1} << 52}};
    for (int i = 0; i < 2; ++i) {
      const Result<HoldState> settled = server.settle(held->hold, actual);
      ASSERT_TRUE(settled) << settled.error().message;
      EXPECT_EQ(*settled, HoldState::kSettled);
      EXPECT_EQ(server.inspect("bucket")->remaining, 5);
    }
    EXPECT_LT(server.inspect("ticker")->remaining, 0);
  }
}

// As in memory, unit for unit; and the bucket, half a unit refilled, to the nanosecond.
TEST(SharedHold, LeavesALimitToOweNoMoreThanItMay) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  const engine::MeterSpec meters[] = {engine::BucketSpec{1, 2s, 10}, engine::TickerSpec{1, 2s, 10},
                                      engine::WindowSpec{10, 1h}, engine::CalendarSpec{10},
                                      engine::LogSpec{10, 1h}};
  RuleSetSpec rules{.units = {{"tokens"}}};
  for (const engine::MeterSpec& meter : meters) {
    rules.limits.push_back({.name = "m" + std::to_string(rules.limits.size()),
                            .unit = "tokens",
                            .meter = meter,
                            .shared = engine::SharedSpec{}});
  }
  rules.limits[2].overage = 7;
  rules.limits[3].overage = 0;
  SharedEngine shared(redis.url(), rules, clock, patient());
  for (engine::LimitSpec& limit : rules.limits) limit.shared.reset();
  SharedEngine here(redis.url(), rules, clock, patient());
  const engine::Cost estimate[] = {{"tokens", 5}};
  for (const std::int64_t used : {15, 110, 111, 1}) {
    HoldId holds[2];
    for (SharedEngine* each : {&shared, &here}) {
      ASSERT_TRUE(each->reset("m0"));
      for (int i = 1; i < 5; ++i) ASSERT_TRUE(each->reset("m" + std::to_string(i)));
      const Result<Decision> held = each->acquire({.costs = estimate}, {.hold = 1h});
      ASSERT_TRUE(held && held->allowed());
      holds[each == &here] = held->hold;
    }
    clock.advance(1s);
    const engine::Cost actual[] = {{"tokens", used}};
    ASSERT_EQ(*shared.settle(holds[0], actual), HoldState::kSettled);
    ASSERT_EQ(*here.settle(holds[1], actual), HoldState::kSettled);
    for (std::size_t i = 0; i < rules.limits.size(); ++i) {
      const std::string& name = rules.limits[i].name;
      EXPECT_EQ(shared.inspect(name)->remaining, here.inspect(name)->remaining) << name << used;
      EXPECT_EQ(shared.engine().counts().limits[i].clipped,
                here.engine().counts().limits[i].clipped)
          << name << used;
    }
    const Result<Decision> there = shared.peek({.costs = estimate});
    const Result<Decision> mine = here.peek({.costs = estimate});
    EXPECT_EQ(there->outcomes()[0].earliest, mine->outcomes()[0].earliest) << used;
  }
  EXPECT_EQ(here.engine().counts().limits[0].clipped, 1u);
  EXPECT_EQ(here.engine().counts().limits[3].clipped, 3u);
}

TEST(SharedHold, OfADeadEngineGivesItsSlotBackWhenItEnds) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  auto first = std::make_unique<SharedEngine>(redis.url(), two_at_once(), clock, patient());
  SharedEngine second(redis.url(), two_at_once(), clock, patient());
  const Result<Decision> a = first->acquire(kAny);
  ASSERT_TRUE(a && a->allowed());
  clock.advance(1s);
  const Result<Decision> b = second.acquire(kAny);
  ASSERT_TRUE(b && b->allowed());
  first.reset();
  EXPECT_FALSE(second.acquire(kAny)->allowed());
  clock.advance(9s - 1us);
  EXPECT_FALSE(second.acquire(kAny)->allowed());
  clock.advance(1us);
  EXPECT_TRUE(second.acquire(kAny)->allowed());
  EXPECT_EQ(*second.cancel(a->hold), HoldState::kGone);
  EXPECT_FALSE(second.acquire(kAny)->allowed());
}

TEST(SharedHold, ThatNobodyMadeIsGone) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), ten_an_hour(), clock, patient());
  const Result<HoldState> state = server.cancel({7, 7, true});
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, HoldState::kGone);
}

RuleSetSpec ten_in(Duration length) {
  return {.limits = {{.name = "calls",
                      .per = {"client"},
                      .meter = engine::WindowSpec{10, length},
                      .shared = engine::SharedSpec{}}}};
}

// The hour begins where the minute that was charged began.
TEST(SharedWindow, GivesNothingBackOfAShorterOneThatIsOver) {
  RedisServer redis;
  testing::ManualClock clock(kStart + 30s);
  SharedEngine server(redis.url(), ten_in(1min), clock, patient());
  const Result<Decision> held = server.acquire(kCall, {.hold = 1h});
  ASSERT_TRUE(held) << held.error().message;
  ASSERT_EQ(admitted(server, 4), 4);
  // On a clock of its own a test's keys live longer than the minute.
  ASSERT_EQ(redis.ask("DEL weir:1:{weir}:w:calls:acme")[1], '1');
  clock.set(kStart + 5min);
  ASSERT_TRUE(server.engine().swap(compiled(ten_in(1h)), clock.now()));
  ASSERT_EQ(admitted(server, 7), 7);
  ASSERT_EQ(*server.cancel(held->hold), HoldState::kCancelled);
  EXPECT_EQ(admitted(server, 10), 3);
}

// The key keeps since when its hour counts, which is inside a window of seven minutes and not where
// that begins: kStart is 120 s after a multiple of 420 s.
TEST(SharedWindow, WhoseLengthChangesEndsWhereItsNewWindowsDo) {
  RedisServer redis;
  testing::ManualClock clock(kStart + 1s);
  SharedEngine first(redis.url(), ten_in(1h), clock, patient());
  SharedEngine second(redis.url(), ten_in(1h), clock, patient());
  ASSERT_EQ(admitted(first, 10), 10);
  for (SharedEngine* server : {&first, &second}) {
    ASSERT_TRUE(server->engine().swap(compiled(ten_in(7min)), clock.now()));
    const Result<Decision> refused = server->acquire(kCall);
    ASSERT_TRUE(refused) << refused.error().message;
    EXPECT_EQ(refused->verdict, Verdict::kDenied);
    EXPECT_EQ(refused->earliest, kStart + 300s);
  }
  clock.set(kStart + 300s - 1us);
  EXPECT_EQ(admitted(first, 1), 0);
  clock.set(kStart + 300s);
  EXPECT_EQ(admitted(first, 7) + admitted(second, 7), 10);
  // Back again, the count of seven minutes is that of their hour.
  ASSERT_TRUE(first.engine().swap(compiled(ten_in(1h)), clock.now()));
  const Result<Decision> refused = first.acquire(kCall);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->earliest, kStart + 1h);
}

// --- what Redis holds

TEST(SharedKey, ExpiresWhenTheBucketIsFullAgain) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine server(redis.url(), ten_an_hour(), here, patient(), true);
  ASSERT_EQ(admitted(server, 1), 1);
  const std::string left = redis.ask("PTTL weir:1:{weir}:b:calls:acme");
  ASSERT_EQ(left[0], ':') << left;
  const long ms = std::stol(left.substr(1));
  EXPECT_LE(ms, 360'001);  // a tenth of an hour
  EXPECT_GT(ms, 240'000);
}

TEST(SharedKey, IsHardlyLargerThanAStringOfTheSameKeyValueAndExpiry) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = ten_an_hour();
  rules.limits.push_back({.name = "window",
                          .per = {"client"},
                          .meter = engine::WindowSpec{10, 1h},
                          .shared = engine::SharedSpec{}});
  rules.limits.push_back({.name = "ticker",
                          .per = {"client"},
                          .meter = engine::TickerSpec{1, 1h, 10},
                          .shared = engine::SharedSpec{}});
  rules.limits.push_back({.name = "log",
                          .per = {"client"},
                          .meter = engine::LogSpec{10, 1h},
                          .shared = engine::SharedSpec{}});
  SharedEngine server(redis.url(), rules, clock, patient());
  ASSERT_EQ(admitted(server, 3), 3);
  for (const std::string key : {"b:calls", "w:window", "t:ticker", "l:log"}) {
    const std::string name = "weir:1:{weir}:" + key + ":acme";
    const long ours = std::stol(redis.ask("MEMORY USAGE " + name).substr(1));
    const long bytes = std::stol(redis.ask("STRLEN " + name).substr(1));
    const std::string other = "x" + name.substr(1);
    redis.ask("SET " + other + " " + std::string(static_cast<std::size_t>(bytes), 'v') +
              " PX 1000000");
    const long yardstick = std::stol(redis.ask("MEMORY USAGE " + other).substr(1));
    EXPECT_LE(ours * 10, yardstick * 11) << name;
  }
}

TEST(SharedKey, OfSomebodyElseIsANamedErrorAndNothingIsCharged) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = ten_an_hour(Outage::kAllow);
  rules.limits.push_back({.name = "second",
                          .meter = engine::WindowSpec{5, 24h},
                          .shared = engine::SharedSpec{Outage::kAllow}});
  SharedEngine server(redis.url(), rules, clock, patient());
  const std::string key = "weir:1:{weir}:w:second";
  for (const std::string& foreign : {"SET " + key + " hello", "RPUSH " + key + " hello"}) {
    redis.ask("DEL " + key);
    redis.ask(foreign);
    const Result<Decision> decision = server.acquire(kCall);
    ASSERT_FALSE(decision);
    EXPECT_EQ(decision.error().code, ErrorCode::kUnavailable);
    EXPECT_THAT(decision.error().message, HasSubstr("key '" + key + "'"));
    EXPECT_THAT(decision.error().message, HasSubstr("weir did not write"));
  }
  redis.ask("DEL " + key);
  const Result<Decision> decision = server.acquire(kCall);
  ASSERT_TRUE(decision) << decision.error().message;
  EXPECT_EQ(decision->outcome("calls")->remaining, 9);
}

TEST(SharedKey, OfTheEpochHasANumberAtItsEnd) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  const std::string key = "weir:1:{weir}:epoch";
  for (const std::string foreign :
       {"hello", "0123456789abcdef:", "0123456789abcdef:hello", "0123456789abcdef:12x",
        "0123456789abcdef:-5", "0123456789abcdef:1e9", "0123456789abcdef:12345678901234567",
        "0123456789abcdef0"}) {
    redis.ask("SET " + key + " " + foreign);
    SharedEngine server(redis.url(), ten_an_hour(Outage::kAllow), clock, patient());
    const Result<Decision> decision = server.acquire(kCall);
    ASSERT_FALSE(decision) << foreign;
    EXPECT_THAT(decision.error().message, HasSubstr("key '" + key + "'"));
    EXPECT_THAT(decision.error().message, HasSubstr("weir did not write"));
  }
  redis.ask("SET " + key + " 0123456789abcdef:0");
  SharedEngine server(redis.url(), ten_an_hour(Outage::kAllow), clock, patient());
  EXPECT_EQ(admitted(server, 1), 1);
}

// Buckets alone have scripts of their own, for one and for several.
TEST(SharedKey, OfSomebodyElseIsFoundByTheScriptsForBucketsToo) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  for (const bool alone : {true, false}) {
    RuleSetSpec rules = ten_an_hour(Outage::kAllow);
    if (!alone) {
      rules.limits.insert(rules.limits.begin(),
                          {.name = "before",
                           .meter = engine::BucketSpec{.amount = 9, .period = 1h, .burst = 9},
                           .shared = engine::SharedSpec{Outage::kAllow}});
    }
    redis.ask("FLUSHALL");
    SharedEngine server(redis.url(), rules, clock, patient());
    ASSERT_EQ(admitted(server, 2), 2);
    const std::string key = "weir:1:{weir}:b:calls:acme";
    for (const std::string& foreign : {"SET " + key + " hello", "RPUSH " + key + " hello",
                                       "SET " + key + " eight123", "HSET " + key + " a b"}) {
      redis.ask("DEL " + key);
      redis.ask(foreign);
      const Result<Decision> decision = server.acquire(kCall);
      ASSERT_FALSE(decision) << foreign;
      EXPECT_THAT(decision.error().message, HasSubstr("key '" + key + "'"));
      EXPECT_THAT(decision.error().message, HasSubstr("weir did not write"));
    }
    redis.ask("DEL " + key);
    const Result<Decision> decision = server.acquire(kCall);
    ASSERT_TRUE(decision) << decision.error().message;
    EXPECT_EQ(decision->outcome("calls")->remaining, 9);
    if (!alone) {
      EXPECT_EQ(decision->outcome("before")->remaining, 6);
    }
  }
}

// --- threads that have a connection of their own

TEST(SharedLimits, AreAnsweredOnTheThreadThatAskedIfItIsAttached) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), ten_an_hour(), clock, patient());
  Thread mine;
  server.limits().attach(mine.loop);
  std::promise<bool> is_there;
  mine.loop.post([&] {
    engine::ask(server.engine(), {.request = kCall}, clock.now(),
                [&](const Result<Decision>& answer) {
                  is_there.set_value(answer && answer->allowed() && mine.loop.is_here());
                });
  });
  EXPECT_TRUE(is_there.get_future().get());
  // Others are answered, too.
  EXPECT_EQ(admitted(server, 10), 9);
  server.limits().detach(mine.loop);
}

TEST(SharedLimits, OfTwoFleetsGiveTheSameThreadADeskEach) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedOptions other = patient();
  other.name = "other";
  SharedEngine one(redis.url(), ten_an_hour(), clock, patient());
  SharedEngine two(redis.url(), ten_an_hour(), clock, std::move(other));
  Thread mine;
  one.limits().attach(mine.loop);
  two.limits().attach(mine.loop);
  const auto ask_there = [&](SharedEngine& server) {
    Waited<Decision> waited;
    mine.loop.run(
        [&] { engine::ask(server.engine(), {.request = kCall}, clock.now(), waited.callback()); });
    return waited.get();
  };
  EXPECT_TRUE(ask_there(one));
  EXPECT_TRUE(ask_there(two));
  one.limits().detach(mine.loop);
  EXPECT_TRUE(ask_there(one));  // over a shared connection
  EXPECT_TRUE(ask_there(two));
  two.limits().detach(mine.loop);
  EXPECT_EQ(admitted(one, 10), 8);
  EXPECT_EQ(admitted(two, 10), 8);
}

TEST(SharedLimits, AnswerWhatIsInFlightWhenAThreadIsDetached) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_EQ(admitted(server, 1), 1);
  Thread mine;
  server.limits().attach(mine.loop);
  redis.pause();
  Waited<Decision> waited;
  mine.loop.run(
      [&] { engine::ask(server.engine(), {.request = kCall}, clock.now(), waited.callback()); });
  server.limits().detach(mine.loop);
  EXPECT_FALSE(waited.get());
  redis.resume();
}

// --- outages

// Waits until Redis answers: the first request waits for the connection and its scripts as well,
// which may take longer than a short timeout. Charges nothing.
bool is_answered(SharedEngine& server, testing::ManualClock& here, const engine::Request& request) {
  return eventually([&] {
    here.advance(50ms);
    return server.peek(request).ok() && server.limits().counts().answered > 0;
  });
}

TEST(SharedOutage, DeniesByDefaultAndEndsWithoutARestart) {
  RedisServer redis({.keeps_data = true});
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine server(redis.url(), ten_an_hour(), here, {.timeout = 1s}, true);
  ASSERT_EQ(admitted(server, 2), 2);
  redis.kill();
  const Result<Decision> refused = server.acquire(kCall);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("limit 'calls'"));
  redis.start();
  ASSERT_TRUE(eventually([&] {
    here.advance(50ms);
    const Result<Decision> decision = server.peek(kCall);
    return decision && decision->outcomes()[0].remaining == 8;
  }));
}

TEST(SharedOutage, MayAllow) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine server(redis.url(), ten_an_hour(Outage::kAllow), here, {.timeout = 1s}, true);
  ASSERT_EQ(admitted(server, 1), 1);
  redis.kill();
  EXPECT_EQ(admitted(server, 30), 30);
  EXPECT_TRUE(server.limits().counts().is_out);
  EXPECT_THAT(server.limits().trouble(), HasSubstr("Redis"));
  EXPECT_EQ(server.limits().counts().turns, 1u);
}

TEST(SharedOutage, MayLeaveEachServerItsShare) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine first(redis.url(), ten_an_hour(Outage::kLocal), here, {.timeout = 1s}, true);
  SharedEngine second(redis.url(), ten_an_hour(Outage::kLocal), here, {.timeout = 1s}, true);
  ASSERT_TRUE(eventually([&] {
    return first.limits().counts().servers == 2 && second.limits().counts().servers == 2;
  }));
  redis.kill();
  EXPECT_EQ(admitted(first, 30), 5);
  EXPECT_EQ(admitted(second, 30), 5);
}

TEST(SharedOutage, OfASilentRedisCountsAsCharged) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  SharedEngine server(redis.url(), ten_an_hour(), here, {.timeout = 500ms}, true);
  ASSERT_TRUE(is_answered(server, here, kCall));
  ASSERT_EQ(admitted(server, 1), 1);
  redis.pause();
  EXPECT_FALSE(server.acquire(kCall));
  redis.resume();
  ASSERT_TRUE(eventually([&] {
    here.advance(50ms);
    const Result<Decision> decision = server.peek(kCall);
    return decision && decision->outcomes()[0].remaining == 8;
  }));
}

TEST(SharedOutage, GivesASlotBackThatWasGivenTooLate) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  RuleSetSpec rules = two_at_once();
  std::get<engine::SlotsSpec>(rules.limits[0].meter).hold = 24h;
  SharedEngine server(redis.url(), rules, here, {.timeout = 500ms}, true);
  ASSERT_TRUE(is_answered(server, here, kAny));
  ASSERT_TRUE(server.acquire(kAny)->allowed());
  redis.pause();
  EXPECT_FALSE(server.acquire(kAny));
  redis.resume();
  // Both holds are remembered, beside the epoch, the servers and the slots; of the slots
  // one is taken.
  ASSERT_TRUE(eventually([&] {
    return redis.ask("DBSIZE") == ":5" && redis.ask("STRLEN weir:1:{weir}:s:running") == ":38";
  }));
  ASSERT_TRUE(eventually([&] {
    here.advance(50ms);
    return server.peek(kAny).ok();
  }));
  EXPECT_TRUE(server.acquire(kAny)->allowed());
}

// One slot of two is taken by a hold that a policy admitted while Redis made it as well, too late.
struct DoubtfulHold : ::testing::Test {
  DoubtfulHold() {
    RuleSetSpec rules = two_at_once();
    std::get<engine::SlotsSpec>(rules.limits[0].meter).hold = 24h;
    rules.limits[0].shared = engine::SharedSpec{Outage::kAllow};
    server = std::make_unique<SharedEngine>(redis.url(), rules, here,
                                            SharedOptions{.timeout = 500ms}, true);
    EXPECT_TRUE(is_answered(*server, here, kAny));
    redis.pause();
    const Result<Decision> admitted = server->acquire(kAny);
    EXPECT_TRUE(admitted && admitted->allowed());
    if (admitted) hold = admitted->hold;
    EXPECT_TRUE(hold);
    EXPECT_FALSE(hold.is_shared) << "as far as is known";
  }
  bool are_taken(int slots) {
    const std::string bytes = slots == 0 ? ":0" : ":" + std::to_string(8 + 30 * slots);
    return redis.ask("STRLEN weir:1:{weir}:s:running") == bytes;
  }

  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here{clock.now()};
  std::unique_ptr<SharedEngine> server;
  HoldId hold;
};

TEST_F(DoubtfulHold, EndsInRedisWithTheOneThatTheClientHas) {
  redis.resume();
  ASSERT_TRUE(eventually([&] { return are_taken(1); }));
  EXPECT_EQ(*server->settle(hold, {}), engine::HoldState::kSettled);
  EXPECT_TRUE(eventually([&] { return are_taken(0); }));
}

TEST_F(DoubtfulHold, EndsInRedisWhenItsAnswerComesAfterTheEnd) {
  EXPECT_EQ(*server->cancel(hold), engine::HoldState::kCancelled);
  redis.resume();
  // Made, and then ended: of it is left how it ended.
  EXPECT_TRUE(eventually([&] {
    return redis.ask("EVAL \"return #redis.call('KEYS','*:hold:*')\" 0") == ":1" && are_taken(0);
  }));
}

TEST_F(DoubtfulHold, StaysInRedisUntilItsTimeIfItIsNotEnded) {
  redis.resume();
  ASSERT_TRUE(eventually([&] { return are_taken(1); }));
  ASSERT_TRUE(eventually([&] {
    here.advance(50ms);
    return server->peek(kAny).ok();
  }));
  EXPECT_TRUE(are_taken(1));
}

// The stand-in has given everything out, and refuses; Redis has two left, and charges too late.
TEST(SharedOutage, GivesBackTooLateWhatTheStandInRefused) {
  RedisServer redis;
  SystemClock clock;
  testing::ManualClock here(clock.now());
  const RuleSetSpec rules{
      .limits = {{.name = "calls",
                  .meter = engine::BucketSpec{.amount = 1, .period = 24h, .burst = 3},
                  .shared = engine::SharedSpec{Outage::kLocal}}}};
  // Twice as long as this Redis is silent: short of the second that breaks a connection.
  SharedEngine server(redis.url(), rules, here, {.timeout = 300ms}, true);
  ASSERT_TRUE(is_answered(server, here, kAny));
  ASSERT_TRUE(server.acquire(kAny)->allowed());
  redis.pause();
  const engine::Cost three[] = {{"requests", 3}};
  ASSERT_TRUE(server.acquire({.costs = three})->allowed());  // all that the stand-in has
  const Result<Decision> refused = server.acquire(kAny, {.hold = 1h});
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_FALSE(refused->allowed());
  redis.resume();
  // Redis refuses the three, which it does not have, and takes the one late: then it is given
  // back, and of the hold is left how it ended.
  ASSERT_TRUE(eventually([&] {
    here.advance(50ms);
    const Result<engine::Inspection> level = server.inspect("calls");
    return level && level->remaining == 2 &&
           redis.ask("EVAL \"return #redis.call('KEYS','*:hold:*')\" 0") == ":1";
  }));
}

TEST(SharedOutage, WithALossOfDataLeavesMetersFullyUsed) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_EQ(admitted(server, 1), 1);
  redis.ask("FLUSHALL");
  const Result<Decision> refused = server.acquire(kCall);
  ASSERT_TRUE(refused) << refused.error().message;
  EXPECT_EQ(refused->verdict, Verdict::kDenied);
  EXPECT_EQ(refused->earliest, clock.now() + 6min);
  EXPECT_EQ(server.limits().counts().losses, 1u);
  clock.advance(6min);
  EXPECT_EQ(admitted(server, 2), 1);
  // Another key, never seen: it may have been used up as well.
  const engine::Attribute other[] = {{"client", "other"}};
  EXPECT_EQ(server.peek({.attributes = other})->outcomes()[0].remaining, 1);
  clock.advance(1h);
  EXPECT_EQ(server.peek({.attributes = other})->outcomes()[0].remaining, 10);
}

TEST(SharedOutage, AFirstStartIsNoLoss) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_EQ(admitted(first, 1), 1);
  SharedEngine second(redis.url(), ten_an_hour(), clock, patient());
  EXPECT_EQ(admitted(second, 10), 9);
  EXPECT_EQ(second.limits().counts().losses, 0u);
}

// Whether the epoch in Redis says when data was lost.
bool says_lost(const RedisServer& redis) {
  const std::string bytes = redis.ask("STRLEN weir:1:{weir}:epoch");
  return std::stoul(bytes.substr(1)) > kEpochIdBytes + 2;
}

TEST(SharedLoss, IsToldByAServerThatNobodyAsksBeforeANewOneIsAsked) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_EQ(admitted(first, 1), 1);
  ASSERT_FALSE(says_lost(redis));
  redis.ask("FLUSHALL");
  ASSERT_TRUE(eventually([&] { return says_lost(redis); }));
  SharedEngine newcomer(redis.url(), ten_an_hour(), clock, patient());
  EXPECT_EQ(admitted(newcomer, 1), 0);
  clock.advance(1h);
  EXPECT_EQ(admitted(newcomer, 12), 10);
}

TEST(SharedLoss, IsKnownToAServerThatHasNeverDecided) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  auto first = std::make_unique<SharedEngine>(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_EQ(admitted(*first, 1), 1);
  SharedEngine idle(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_TRUE(eventually([&] { return idle.limits().counts().servers == 2; }));
  first.reset();
  redis.ask("FLUSHALL");
  ASSERT_TRUE(eventually([&] { return idle.limits().counts().losses == 1; }));
  EXPECT_TRUE(says_lost(redis));
}

TEST(SharedLoss, IsNotSeenInARedisThatNobodyHasUsed) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine idle(redis.url(), ten_an_hour(), clock, patient());
  SharedEngine other(redis.url(), ten_an_hour(), clock, patient());
  ASSERT_TRUE(eventually([&] { return idle.limits().counts().servers == 2; }));
  EXPECT_EQ(redis.ask("EXISTS weir:1:{weir}:epoch"), ":0");
  EXPECT_EQ(admitted(other, 12), 10);
}

}  // namespace
}  // namespace weir::store::redis
