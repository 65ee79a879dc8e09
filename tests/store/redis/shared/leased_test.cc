// Limits with leases on a real Redis.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tests/store/redis/shared/support.h"
#include "tests/support/delaying_proxy.h"
#include "weir/base/clock.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::Outage;
using engine::RuleSetSpec;
using ::testing::HasSubstr;
using testing::RedisServer;

RuleSetSpec leased(engine::MeterSpec meter, std::int64_t most, Outage outage = Outage::kDeny,
                   Duration length = 1h) {
  return {.limits = {{.name = "calls",
                      .per = {"client"},
                      .meter = std::move(meter),
                      .shared = engine::SharedSpec{outage, engine::LeaseSpec{most, length}}}}};
}

// Refills so slowly that no test sees it.
RuleSetSpec hundred_a_day(std::int64_t most = 40, Outage outage = Outage::kDeny,
                          Duration length = 1h) {
  return leased(engine::BucketSpec{.amount = 100, .period = 24h, .burst = 100}, most, outage,
                length);
}

LeaseCounts counts_of(SharedEngine& server) {
  const std::vector<LeaseCounts> counts = server.limits().lease_counts();
  return counts.empty() ? LeaseCounts{} : counts.front();
}

// Asks until something is drawn ahead. Returns how many were admitted.
int warm_up(SharedEngine& server) {
  int count = 0;
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(admitted(server, 1), 1);
    ++count;
    return counts_of(server).held >= 4;
  }));
  return count;
}

class EveryKind : public ::testing::TestWithParam<engine::MeterSpec> {};

TEST_P(EveryKind, IsOneLimitForTwoServers) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine first(redis.url(), leased(GetParam(), 5), clock, patient());
  SharedEngine second(redis.url(), leased(GetParam(), 5), clock, patient());
  int allowed = 0;
  for (int i = 0; i < 30; ++i) allowed += admitted(i % 3 == 0 ? first : second, 1);
  EXPECT_EQ(allowed, 30);
  for (int i = 0; i < 200; ++i) allowed += admitted(i % 2 == 0 ? first : second, 1);
  EXPECT_EQ(allowed, 100);
}

TEST_P(EveryKind, GivesBackWhatIsNotUsed) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  auto first =
      std::make_unique<SharedEngine>(redis.url(), leased(GetParam(), 40), clock, patient());
  const int used = warm_up(*first);
  first.reset();  // gives everything back, and what a draw under way brings
  SharedEngine second(redis.url(), leased(GetParam(), 40), clock, patient());
  EXPECT_EQ(admitted(second, 120), 100 - used);
}

// One of two servers is not heard of any more, while it holds something.
struct Crashed {
  explicit Crashed(const engine::MeterSpec& meter)
      : rules(leased(meter, 40, Outage::kDeny, 64s)),
        first(proxy->url(), rules, clock, patient()),
        second(std::make_unique<SharedEngine>(redis.url(), rules, clock, patient())) {
    used = warm_up(first);
    held = static_cast<int>(counts_of(first).held);
    proxy.reset();
  }

  RedisServer redis;
  std::optional<DelayingProxy> proxy{redis.port()};
  testing::ManualClock clock{kStart};
  RuleSetSpec rules;
  SharedEngine first;
  std::unique_ptr<SharedEngine> second;
  int used = 0;
  int held = 0;
};

TEST_P(EveryKind, ComesBackWhenTheLeaseOfACrashedServerEnds) {
  Crashed fleet(GetParam());
  const int before = admitted(*fleet.second, 120);
  EXPECT_LE(before, 100 - fleet.used - fleet.held);
  fleet.clock.advance(64s);  // only the server that held it knows that it has ended
  EXPECT_EQ(admitted(*fleet.second, 5), 0);
  fleet.clock.advance(4s);
  const int admitted_in_all = fleet.used + before + admitted(*fleet.second, 120);
  EXPECT_GE(admitted_in_all, 100);
  EXPECT_LE(admitted_in_all, 100 + 40);
  fleet.second.reset();
  fleet.clock.advance(100s);
  SharedEngine third(fleet.redis.url(), fleet.rules, fleet.clock, patient());
  EXPECT_EQ(admitted(third, 5), 0) << "came back twice";
}

TEST_P(EveryKind, IsPeekedAtAndHeldWithWhatHasComeBack) {
  Crashed fleet(GetParam());
  SharedEngine& server = *fleet.second;
  const engine::Cost rest[] = {{"requests", 100 - fleet.used}};
  const engine::Request request{.attributes = kAcme, .costs = rest};
  EXPECT_EQ(server.peek(request)->verdict, Verdict::kDenied);
  EXPECT_EQ(server.acquire(request, {.hold = 60s})->verdict, Verdict::kDenied);
  EXPECT_LT(server.inspect("calls", {"acme"})->remaining, 100 - fleet.used);
  fleet.clock.advance(68s);
  EXPECT_EQ(server.peek(request)->verdict, Verdict::kAllowed);
  EXPECT_GE(server.inspect("calls", {"acme"})->remaining, 100 - fleet.used);
  EXPECT_EQ(server.acquire(request, {.hold = 60s})->verdict, Verdict::kAllowed);
}

TEST_P(EveryKind, DoesNotComeBackAfterAReset) {
  Crashed fleet(GetParam());
  ASSERT_TRUE(fleet.second->reset("calls", {"acme"}));
  EXPECT_EQ(admitted(*fleet.second, 60), 60);
  fleet.second.reset();
  fleet.clock.advance(68s);
  SharedEngine third(fleet.redis.url(), fleet.rules, fleet.clock, patient());
  EXPECT_EQ(admitted(third, 60), 40);
}

TEST_P(EveryKind, BeginsUsedUpAfterALoss) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), leased(GetParam(), 40), clock, patient());
  warm_up(server);
  ASSERT_EQ(redis.ask("FLUSHALL"), "+OK");
  // What was drawn before may be used, and nothing more.
  EXPECT_LE(admitted(server, 200), 40);
  const std::uint64_t drawn = counts_of(server).drawn;
  clock.advance(1s);  // a refusal is told again for a while
  EXPECT_EQ(admitted(server, 50), 0);
  EXPECT_EQ(counts_of(server).drawn, drawn);
  EXPECT_EQ(server.limits().counts().losses, 1u);
}

std::string kind_name(const ::testing::TestParamInfo<engine::MeterSpec>& tested) {
  constexpr std::string_view kNames[] = {"Bucket", "Ticker", "Window", "Calendar", "Log"};
  return std::string(kNames[tested.index]);
}

INSTANTIATE_TEST_SUITE_P(
    Meters, EveryKind,
    ::testing::Values(engine::BucketSpec{.amount = 100, .period = 24h, .burst = 100},
                      engine::TickerSpec{.per_tick = 1, .interval = 1h, .burst = 100},
                      engine::WindowSpec{100, 24h},
                      engine::CalendarSpec{100, meter::CalendarUnit::kMonth},
                      engine::LogSpec{100, 24h}),
    kind_name);

TEST(LeasedLimits, AreDecidedWithoutRedisAsLongAsTheLeaseLasts) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, patient());
  EXPECT_FALSE(server.engine().decide(kCall, clock.now())) << "there is no lease yet";
  warm_up(server);
  const Result<Decision> here = server.engine().decide(kCall, clock.now());
  ASSERT_TRUE(here);
  EXPECT_EQ(here->verdict, Verdict::kAllowed);
  EXPECT_EQ(here->outcomes()[0].limit, "calls");
}

TEST(LeasedLimits, TellARefusalAgainWithoutAsking) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, patient());
  EXPECT_EQ(admitted(server, 101), 100);
  const std::uint64_t asked = server.limits().counts().asked;
  const Result<Decision> decision = server.engine().decide(kCall, clock.now());
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->verdict, Verdict::kDenied);
  EXPECT_EQ(decision->earliest, kStart + Duration{24h} / 100);
  EXPECT_EQ(server.limits().counts().asked, asked);
}

TEST(LeasedLimits, AreThereWhenARefusalSaidTheyWouldBe) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, patient());
  const engine::Cost five[] = {{"requests", 5}};
  const engine::Request request{.attributes = kAcme, .costs = five};
  EXPECT_EQ(admitted(server, 98), 98);
  const Result<Decision> refused = server.acquire(request);
  ASSERT_TRUE(refused);
  ASSERT_EQ(refused->verdict, Verdict::kDenied);
  clock.set(refused->earliest);
  const Result<Decision> again = server.acquire(request);
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->allowed());
}

TEST(LeasedLimits, SayNeverToMoreThanThereCanBe) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, patient());
  const engine::Cost all[] = {{"requests", 100}};
  const engine::Cost more[] = {{"requests", 101}};
  EXPECT_EQ(server.acquire({.attributes = kAcme, .costs = more})->verdict, Verdict::kNever);
  EXPECT_EQ(server.acquire({.attributes = kAcme, .costs = all})->verdict, Verdict::kAllowed);
}

TEST(LeasedLimits, ThatRefuseLeaveOtherLimitsAsTheyWere) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = hundred_a_day();
  rules.limits.push_back({.name = "here", .meter = engine::WindowSpec{1000, 24h}});
  rules.limits.push_back(
      {.name = "strict", .meter = engine::WindowSpec{1000, 24h}, .shared = engine::SharedSpec{}});
  SharedEngine server(redis.url(), rules, clock, patient());
  EXPECT_EQ(admitted(server, 150), 100);
  EXPECT_EQ(engine::inspect(server.engine(), "here", {}, clock.now())->remaining, 900);
  const Result<Decision> peeked = server.peek(kCall);
  ASSERT_TRUE(peeked);
  EXPECT_EQ(peeked->outcomes()[2].remaining, 900);
  EXPECT_EQ(peeked->verdict, Verdict::kDenied);
}

TEST(LeasedLimits, AreToldWholeToWhoeverPeeks) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, patient());
  const int used = warm_up(server);
  EXPECT_EQ(server.peek(kCall)->outcomes()[0].remaining, 100 - used);
}

TEST(LeasedLimits, AreNeverMoreThanThereCanBeToWhoeverPeeks) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(),
                      leased(engine::BucketSpec{.amount = 100, .period = 1s, .burst = 100}, 40),
                      clock, patient());
  warm_up(server);
  clock.advance(10s);  // Redis has all of it again
  const engine::Cost costs[] = {{"requests", 60}};
  EXPECT_EQ(server.peek({.attributes = kAcme, .costs = costs})->outcomes()[0].remaining, 100);
}

TEST(LeasedLimits, AreLeftAsTheyWereByAStrictOneThatRefuses) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = hundred_a_day();
  rules.limits.push_back(
      {.name = "strict", .meter = engine::WindowSpec{10, 24h}, .shared = engine::SharedSpec{}});
  auto first = std::make_unique<SharedEngine>(redis.url(), rules, clock, patient());
  EXPECT_EQ(admitted(*first, 50), 10);
  first.reset();  // gives everything back
  SharedEngine second(redis.url(), hundred_a_day(), clock, patient());
  EXPECT_EQ(admitted(second, 200), 90);
}

TEST(LeasedLimits, AreAskedInRedisForAHoldThatAnyServerEnds) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  auto first = std::make_unique<SharedEngine>(redis.url(), hundred_a_day(), clock, patient());
  SharedEngine second(redis.url(), hundred_a_day(), clock, patient());
  const int used = warm_up(*first);
  const engine::Cost rest[] = {{"requests", 100 - used}};
  // What is held here goes back first, and what a draw brings that is still on its way.
  const Result<Decision> held = first->acquire({.attributes = kAcme, .costs = rest}, {.hold = 60s});
  ASSERT_TRUE(held);
  ASSERT_TRUE(held->allowed());
  EXPECT_TRUE(held->hold.is_shared);
  EXPECT_EQ(admitted(second, 1), 0);
  EXPECT_EQ(*second.cancel(held->hold), engine::HoldState::kCancelled);
  first.reset();      // it may have drawn ahead of what came back
  clock.advance(1s);  // a refusal is told again for a while
  EXPECT_EQ(admitted(second, 200), 100 - used);
}

TEST(LeasedLimits, GoOnDuringAnOutageUntilTheLeaseEnds) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(), clock, {.timeout = 1s});
  warm_up(server);
  redis.kill();
  EXPECT_TRUE(server.engine().decide(kCall, clock.now())->allowed());
  const auto held = static_cast<int>(counts_of(server).held);
  for (int i = 0; i < held - 1; ++i) {
    const Result<Decision> decision = server.acquire(kCall);
    ASSERT_TRUE(decision) << decision.error().message;
    EXPECT_TRUE(decision->allowed());
  }
  clock.advance(1h);  // one is left, but not for long
  const Result<Decision> late = server.acquire(kCall);
  ASSERT_FALSE(late);
  EXPECT_THAT(late.error().message, HasSubstr("limit 'calls'"));
  EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
}

TEST(LeasedLimits, AreDecidedByTheirOutagePolicyWhenNothingCanBeDrawn) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine lax(redis.url(), hundred_a_day(40, Outage::kAllow), clock, {.timeout = 1s});
  SharedEngine alone(redis.url(), hundred_a_day(40, Outage::kLocal), clock, {.timeout = 1s});
  ASSERT_TRUE(eventually([&] { return alone.limits().counts().servers == 2; }));
  redis.kill();
  EXPECT_EQ(admitted(lax, 200), 200);
  EXPECT_EQ(admitted(alone, 200), 50);
}

TEST(LeasedLimits, AreAnErrorWhereSomebodyElseWroteTheirKey) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(40, Outage::kAllow), clock, patient());
  ASSERT_EQ(redis.ask("SET weir:1:{weir}:b:calls:acme hello"), "+OK");
  const Result<Decision> decision = server.acquire(kCall);
  ASSERT_FALSE(decision);
  EXPECT_THAT(decision.error().message, HasSubstr("weir:1:{weir}:b:calls:acme"));
}

TEST(LeasedLimits, AreAnErrorWhereSomebodyElseWroteTheirRecord) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  SharedEngine server(redis.url(), hundred_a_day(40, Outage::kAllow), clock, patient());
  for (const std::string value : {"hello", "drawn", "d1234567123456781234567812345671p"}) {
    ASSERT_EQ(redis.ask("SET weir:1:{weir}:lease:b:calls:acme " + value), "+OK");
    const Result<Decision> decision = server.acquire(kCall);
    ASSERT_FALSE(decision) << value;
    EXPECT_THAT(decision.error().message, HasSubstr("weir:1:{weir}:lease:b:calls:acme"));
  }
  EXPECT_EQ(redis.ask("EXISTS weir:1:{weir}:b:calls:acme"), ":0") << "nothing was charged";
  ASSERT_EQ(redis.ask("SET weir:1:{weir}:lease:b:calls:acme hello"), "+OK");
  EXPECT_FALSE(server.reset("calls", {"acme"}));
  EXPECT_EQ(redis.ask("EXISTS weir:1:{weir}:lease:b:calls:acme"), ":1");
}

// The record is there as long as there is something in it, and never longer than the meter.
TEST(LeasedLimits, HaveARecordAsLongAsSomethingIsHeld) {
  RedisServer redis;
  SystemClock clock;
  const RuleSetSpec rules = hundred_a_day(40, Outage::kDeny, 3s);
  auto server = std::make_unique<SharedEngine>(redis.url(), rules, clock, patient(), true);
  warm_up(*server);
  ASSERT_TRUE(
      eventually([&] { return redis.ask("EXISTS weir:1:{weir}:lease:b:calls:acme") == ":1"; }));
  const auto ttl = [&](const std::string& key) {
    return std::stoll(redis.ask("PTTL " + key).substr(1));
  };
  const auto of_record = ttl("weir:1:{weir}:lease:b:calls:acme");
  EXPECT_GT(of_record, 0);
  EXPECT_LE(of_record, ttl("weir:1:{weir}:b:calls:acme") + 1000);
  server.reset();
  // Who holds nothing stays in it until its lease would have ended.
  EXPECT_TRUE(
      eventually([&] { return redis.ask("EXISTS weir:1:{weir}:lease:b:calls:acme") == ":0"; }));
}

TEST(LeasedLimits, OfAnIdleServerGoBackToTheOthers) {
  RedisServer redis;
  testing::ManualClock manual(kStart);
  SharedEngine first(redis.url(), hundred_a_day(40, Outage::kDeny, 60s), manual, patient());
  SharedEngine second(redis.url(), hundred_a_day(40, Outage::kDeny, 60s), manual, patient());
  const int used = warm_up(first);
  LeaseCounts counts;
  ASSERT_TRUE(eventually([&] {
    manual.advance(100ms);
    counts = counts_of(first);
    return counts.drawn == static_cast<std::uint64_t>(used) + counts.returned + counts.expired;
  }));
  EXPECT_GT(counts.returned, 0u);
  int allowed = 0;
  EXPECT_TRUE(eventually([&] {
    manual.advance(1s);  // a refusal is told again for a while
    allowed += admitted(second, 150);
    return allowed >= 100 - used - static_cast<int>(counts.expired);
  }));
  EXPECT_EQ(allowed, 100 - used - static_cast<int>(counts.expired));
}

}  // namespace
}  // namespace weir::store::redis
