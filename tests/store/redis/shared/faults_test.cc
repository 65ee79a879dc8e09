// Shared limits with a Redis that refuses, is slow, forgets, lies, or has another clock: each
// fault by its name, and what each limit then does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "tests/store/redis/shared/support.h"
#include "tests/support/delaying_proxy.h"
#include "tests/support/stub_redis.h"
#include "weir/base/clock.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::Outage;
using engine::RuleSetSpec;
using ::testing::HasSubstr;
using testing::RedisServer;

RuleSetSpec ten_for_all(Outage outage) {
  return {.limits = {{.name = "calls",
                      .meter = engine::BucketSpec{.amount = 10, .period = 1h, .burst = 10},
                      .shared = engine::SharedSpec{outage}}}};
}

// A server whose clock, which paces the breaker, follows the real one.
struct Asker {
  explicit Asker(const std::string& url, Outage outage = Outage::kDeny, Duration timeout = 10s)
      : here(SystemClock{}.now()),
        server(url, ten_for_all(outage), here, {.timeout = timeout}, true) {}

  Result<Decision> ask() {
    here.set(SystemClock{}.now());
    return server.acquire(kAny);
  }
  bool is_normal() {
    const Result<Decision> decision = ask();
    return decision.ok() && !server.limits().counts().is_out;
  }
  bool becomes_normal() {
    return eventually([&] { return is_normal(); });
  }
  std::uint64_t failed(FailureKind kind) {
    return server.limits().counts().failed_by[static_cast<std::size_t>(kind)];
  }

  testing::ManualClock here;
  SharedEngine server;
};

TEST(SharedHeartbeats, TellOnceThatTheirKeyIsSomebodyElses) {
  RedisServer redis;
  ASSERT_EQ(redis.ask("SET weir:1:{weir}:servers hello"), "+OK");
  SystemClock clock;
  std::mutex lock;
  std::vector<std::string> told;
  SharedOptions options{.timeout = 10s};
  options.on_beat = [&](std::string_view why) {
    const std::scoped_lock held(lock);
    told.emplace_back(why);
  };
  SharedEngine server(redis.url(), ten_for_all(Outage::kDeny), clock, std::move(options), true);
  const auto failed = [&] {
    return server.limits().counts().failed_by[static_cast<std::size_t>(FailureKind::kForeign)];
  };
  ASSERT_TRUE(eventually([&] { return failed() >= 2; }));
  ASSERT_EQ(redis.ask("DEL weir:1:{weir}:servers"), ":1");
  ASSERT_TRUE(eventually([&] {
    const std::scoped_lock held(lock);
    return told.size() == 2;
  }));
  const std::scoped_lock held(lock);
  EXPECT_THAT(told[0], HasSubstr("FOREIGN weir:1:{weir}:servers"));
  EXPECT_EQ(told[1], "");
}

// A fault of which Redis tells by an error reply, to the greeting or to a script.
struct Told {
  std::string name;
  std::string reply;
  FailureKind kind;
  std::string message;
  bool is_outage = true;
};

class SharedFault : public ::testing::TestWithParam<Told> {};

TEST_P(SharedFault, IsNamedAndLeftToThePolicyOrAnErrorWhateverThePolicy) {
  const Told& told = GetParam();
  StubRedis stub;
  stub.answer(told.reply);
  Asker deny(stub.url());
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr(told.message));
  EXPECT_EQ(deny.failed(told.kind), 1u);

  Asker allow(stub.url(), Outage::kAllow);
  const Result<Decision> admitted = allow.ask();
  EXPECT_EQ(admitted.ok(), told.is_outage);
  if (!told.is_outage) {
    EXPECT_THAT(admitted.error().message, HasSubstr(told.message));
    EXPECT_EQ(allow.server.limits().counts().by_policy, 0u);
  }
  EXPECT_EQ(allow.failed(told.kind), 1u);
}

INSTANTIATE_TEST_SUITE_P(
    ToldByRedis, SharedFault,
    ::testing::Values(
        Told{"Loading", "-LOADING Redis is loading the dataset in memory\r\n",
             FailureKind::kLoading, "LOADING"},
        Told{"OutOfMemory",
             "-OOM command not allowed when used memory > 'maxmemory'. script: 1f, on "
             "@user_script:1.\r\n",
             FailureKind::kOutOfMemory, "OOM"},
        Told{"NoScriptTwice", "-NOSCRIPT No matching script. Please use EVAL.\r\n",
             FailureKind::kNoScript, "NOSCRIPT"},
        Told{"Busy", "-BUSY Redis is busy running a script.\r\n", FailureKind::kBusy, "BUSY"},
        Told{"ReadOnly", "-READONLY You can't write against a read only replica.\r\n",
             FailureKind::kTopology, "READONLY", false},
        Told{"Moved", "-MOVED 3999 127.0.0.1:6381\r\n", FailureKind::kTopology,
             "so nothing is admitted, whatever 'outage' says", false},
        Told{"ClusterDown", "-CLUSTERDOWN Hash slot not served\r\n", FailureKind::kTopology,
             "CLUSTERDOWN", false},
        Told{"NoPermission", "-NOPERM this user has no permissions\r\n", FailureKind::kRefusedUser,
             "NOPERM"},
        Told{"ScriptError",
             "-ERR user_script:3: attempt to index a nil value script: 1f, on @user_script:3.\r\n",
             FailureKind::kScript, "to the script 'decide'", false},
        Told{"Clock", "-CLOCK 5 script: 1f, on @user_script:3.\r\n", FailureKind::kClock,
             "set the clocks", false}),
    [](const auto& test) { return test.param.name; });

TEST(SharedFault, OfAReplyInAnotherFormIsAnError) {
  for (const char* reply : {":7\r\n", "$3\r\nabc\r\n", "*0\r\n", "*3\r\n:1\r\n:2\r\n$0\r\n\r\n",
                            "*5\r\n:0\r\n:5\r\n$0\r\n\r\n:0\r\n:0\r\n", "$-1\r\n"}) {
    StubRedis stub;
    stub.answer(reply);
    Asker allow(stub.url(), Outage::kAllow);
    const Result<Decision> decision = allow.ask();
    ASSERT_FALSE(decision) << reply;
    EXPECT_THAT(decision.error().message, HasSubstr("run the same version of weir everywhere"));
  }
}

TEST(SharedFault, OfAnOldRedisIsNamedAndLeftToThePolicy) {
  StubRedis old("6.2.14");
  Asker deny(old.url());
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message,
              HasSubstr("its version is '6.2.14', but weir needs Redis 7 or later"));
  EXPECT_EQ(deny.failed(FailureKind::kVersion), 1u);
  EXPECT_TRUE(Asker(old.url(), Outage::kAllow).ask());
}

// What each turn was told with; both turns are told by one thread at a time.
class Turns {
 public:
  std::function<void(std::string_view)> take() {
    return [this](std::string_view why) {
      const std::scoped_lock lock(lock_);
      told_.emplace_back(why);
    };
  }
  std::vector<std::string> told() {
    const std::scoped_lock lock(lock_);
    return told_;
  }

 private:
  std::mutex lock_;
  std::vector<std::string> told_;
};

// What answers is no single Redis: that is no outage, and nothing is admitted with any policy.
void expect_refused_by_name(const std::string& url, const std::string& name) {
  Turns turns;
  testing::ManualClock here{SystemClock{}.now()};
  SharedOptions options{.timeout = 10s};
  options.on_topology = turns.take();
  SharedEngine allow(url, ten_for_all(Outage::kAllow), here, std::move(options), true);
  const Status first = allow.limits().first_word(kPatience);
  ASSERT_FALSE(first);
  EXPECT_THAT(first.error().message, HasSubstr(name));
  for (int i = 0; i < 10; ++i) {
    const Result<Decision> refused = allow.acquire(kAny);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr(name));
  }
  EXPECT_EQ(allow.limits().counts().by_policy, 0u);
  EXPECT_FALSE(allow.limits().counts().is_out);
  ASSERT_EQ(turns.told().size(), 1u) << "once";
  EXPECT_THAT(turns.told()[0], HasSubstr(name));
}

TEST(SharedTopology, OfAClusterIsRefusedByName) {
  RedisServer redis({.more = {"--cluster-enabled", "yes"}});
  expect_refused_by_name(redis.url(), "it is a node of a cluster");
}

TEST(SharedTopology, OfASentinelIsRefusedByName) {
  RedisServer redis({.is_sentinel = true});
  expect_refused_by_name(redis.url(), "it is a sentinel");
}

TEST(SharedTopology, OfAReplicaIsRefusedByName) {
  RedisServer redis;
  RedisServer replica({.more = {"--replicaof", "127.0.0.1", std::to_string(redis.port())}});
  expect_refused_by_name(replica.url(), "it is a replica");
}

TEST(SharedTopology, ThatIsNotHeardOfIsNoError) {
  StubRedis stub;
  Asker allow(stub.url(), Outage::kAllow);
  EXPECT_TRUE(allow.server.limits().first_word(kPatience));
  Asker nobody("redis://127.0.0.1:1", Outage::kAllow);
  EXPECT_TRUE(nobody.server.limits().first_word(kPatience));
  EXPECT_TRUE(nobody.ask()) << "an outage, which the limit allows";
}

// A failover that leaves the address with the replica, and one that brings it back.
TEST(SharedTopology, ThatChangesIsNoticedAndToldOnceEachTime) {
  RedisServer redis;
  RedisServer master;
  Turns turns;
  Turns topology;
  SystemClock clock;
  SharedOptions options{.timeout = 10s};
  options.on_turn = turns.take();
  options.on_topology = topology.take();
  SharedEngine allow(redis.url(), ten_for_all(Outage::kAllow), clock, std::move(options), true);
  ASSERT_TRUE(allow.acquire(kAny));
  ASSERT_EQ(redis.ask("REPLICAOF 127.0.0.1 " + std::to_string(master.port())), "+OK");
  const Result<Decision> refused = allow.acquire(kAny);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("READONLY"));
  ASSERT_EQ(redis.ask("REPLICAOF NO ONE"), "+OK");
  EXPECT_TRUE(eventually([&] { return topology.told().size() == 2; }));
  EXPECT_EQ(topology.told().back(), "");
  EXPECT_TRUE(allow.acquire(kAny));
  EXPECT_THAT(turns.told(), ::testing::IsEmpty());
}

TEST(SharedFault, OfAPasswordIsNamedAndEndsWhenTheUserIsLetIn) {
  RedisServer redis({.password = "secret"});
  Asker deny(redis.url());
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("NOAUTH"));
  EXPECT_GE(deny.failed(FailureKind::kRefusedUser), 1u);
  EXPECT_EQ(redis.ask("AUTH secret\r\nCONFIG SET requirepass \"\""), "+OK");
  EXPECT_TRUE(deny.becomes_normal());
}

TEST(SharedFault, OfForgottenScriptsIsNotNoticed) {
  RedisServer redis;
  Asker deny(redis.url());
  for (int i = 0; i < 3; ++i) {
    redis.ask("SCRIPT FLUSH");
    const Result<Decision> decision = deny.ask();
    ASSERT_TRUE(decision) << decision.error().message;
    EXPECT_EQ(decision->outcomes()[0].remaining, 9 - i);
  }
  EXPECT_EQ(deny.server.limits().counts().failed, 0u);
}

TEST(SharedFault, OfFullMemoryChargesNothingAndEndsWithIt) {
  RedisServer redis;
  Asker deny(redis.url());
  ASSERT_TRUE(deny.ask());
  redis.ask("CONFIG SET maxmemory 1");
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("OOM"));
  EXPECT_EQ(deny.failed(FailureKind::kOutOfMemory), 1u);
  redis.ask("CONFIG SET maxmemory 0");
  const Result<Decision> decision = deny.ask();
  ASSERT_TRUE(decision) << decision.error().message;
  EXPECT_EQ(decision->outcomes()[0].remaining, 8);
}

TEST(SharedFault, OfLoadingEndsWithIt) {
  StubRedis stub;
  stub.refuse("-LOADING Redis is loading the dataset in memory\r\n");
  Asker allow(stub.url(), Outage::kAllow);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(allow.ask());
  EXPECT_THAT(allow.server.limits().trouble(), HasSubstr("LOADING"));
  EXPECT_GE(allow.failed(FailureKind::kLoading), 1u);
  EXPECT_EQ(allow.server.limits().counts().by_policy, 10u);
  // Allowed, at some instant, with an epoch, of a bucket that is full.
  stub.answer("*5\r\n:1\r\n:1800000000000000\r\n$18\r\n0123456789abcdef:0\r\n:0\r\n:0\r\n");
  stub.refuse({});
  EXPECT_TRUE(allow.becomes_normal());
  EXPECT_EQ(allow.server.limits().trouble(), "");
}

// The connection stands, but nothing comes over it any more: it is opened again.
TEST(SharedFault, OfAHalfOpenConnectionEndsByANewOne) {
  RedisServer redis;
  DelayingProxy proxy(redis.port());
  Asker deny(proxy.url(), Outage::kDeny, 200ms);
  ASSERT_TRUE(deny.becomes_normal());
  proxy.swallow();
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("no reply in time"));
  EXPECT_TRUE(deny.becomes_normal());
}

// Beyond the timeout nothing is admitted, and what came too late is charged.
TEST(SharedFault, OfSlownessIsTimedOutAndCharged) {
  RedisServer redis;
  DelayingProxy proxy(redis.port());
  Asker deny(proxy.url(), Outage::kDeny, 300ms);
  ASSERT_TRUE(deny.becomes_normal());
  proxy.set_delay(350ms);  // each way; within the second after which silence breaks a connection
  const Result<Decision> refused = deny.ask();
  ASSERT_FALSE(refused);
  EXPECT_GE(deny.failed(FailureKind::kTimedOut), 1u);
  proxy.set_delay(0ms);
  ASSERT_TRUE(deny.becomes_normal());
  // Once it is answered in time.
  std::int64_t remaining = 10;
  ASSERT_TRUE(eventually([&] {
    deny.here.set(SystemClock{}.now());
    const Result<Decision> decision = deny.server.peek(kAny);
    if (decision) remaining = decision->outcomes()[0].remaining;
    return decision.ok();
  }));
  EXPECT_LE(remaining, 7);
}

// Beats have a second, so they are answered while decisions are not. That ends no outage: else
// each of them would give every key a fresh share.
TEST(SharedFault, OfSlownessAdmitsOneShareHoweverOftenTheHeartBeats) {
  RedisServer redis;
  DelayingProxy proxy(redis.port());
  SystemClock clock;
  // Far shorter than the delay: a loop that is held up from before the one until after the other
  // would take the answer for one in time.
  SharedEngine server(proxy.url(), ten_for_all(Outage::kLocal), clock, {.timeout = 20ms}, true);
  // By looking only, so that all of the share is left.
  ASSERT_TRUE(eventually([&] {
    const bool is_said = server.peek(kAny).ok();
    return is_said && server.limits().counts().answered > 0 && !server.limits().counts().is_out;
  }));
  const std::uint64_t turns = server.limits().counts().turns;
  proxy.set_delay(200ms);
  int admitted = 0;
  const Instant begin = clock.now();
  while (clock.now() - begin < 3s) {
    const Result<Decision> decision = server.acquire(kAny);
    ASSERT_TRUE(decision) << decision.error().message;
    if (decision->allowed()) ++admitted;
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_GT(admitted, 0);
  EXPECT_LE(admitted, 10);
  EXPECT_TRUE(server.limits().counts().is_out);
  EXPECT_EQ(server.limits().counts().turns, turns + 1);
}

// --- the clock of Redis

struct ClockCase {
  std::string name;
  engine::MeterSpec meter;
};

class SharedClock : public ::testing::TestWithParam<ClockCase> {
 protected:
  static constexpr Instant kRedisStart{1'800'000'000'000'000'000};

  // As many of `asked` as pass.
  int admitted(int asked) {
    int count = 0;
    for (int i = 0; i < asked; ++i) {
      const Result<Decision> decision = server.acquire(kAny);
      EXPECT_TRUE(decision) << decision.error().message;
      if (decision && decision->allowed()) ++count;
    }
    return count;
  }

  RedisServer redis;
  testing::ManualClock here{kRedisStart};
  testing::ManualClock there{kRedisStart};
  SharedEngine server{
      redis.url(),
      {.limits = {{.name = "calls", .meter = GetParam().meter, .shared = engine::SharedSpec{}}}},
      here,
      {.timeout = 30s, .redis_clock = &there},
      true};
};

TEST_P(SharedClock, ThatJumpsBackAdmitsNothingMore) {
  EXPECT_EQ(admitted(6), 5);
  there.advance(-1h);
  EXPECT_EQ(admitted(6), 0);
  // Until it is where it was, there is not one more either.
  for (int i = 0; i < 11; ++i) {
    there.advance(5min);
    EXPECT_EQ(admitted(1), 0) << i;
  }
  there.set(kRedisStart);
  EXPECT_EQ(admitted(1), 0);
  there.advance(1h);
  EXPECT_EQ(admitted(6), 5);
}

TEST_P(SharedClock, ThatJumpsForwardAdmitsNoMoreThanTheLimitHolds) {
  EXPECT_EQ(admitted(6), 5);
  there.advance(240h);
  EXPECT_EQ(admitted(6), 5);
  there.advance(-240h);
  EXPECT_EQ(admitted(6), 0);
}

INSTANTIATE_TEST_SUITE_P(OfEachMeter, SharedClock,
                         ::testing::Values(ClockCase{"Bucket", engine::BucketSpec{5, 1h, 5}},
                                           ClockCase{"Ticker", engine::TickerSpec{5, 1h, 5}},
                                           ClockCase{"Window", engine::WindowSpec{5, 1h}},
                                           ClockCase{"Log", engine::LogSpec{5, 1h}}),
                         [](const auto& test) { return test.param.name; });

TEST(SharedClockOfCalendars, TooFarFromOursIsANamedError) {
  RedisServer redis;
  testing::ManualClock here(kStart);
  testing::ManualClock there(kStart);
  const engine::CalendarSpec a_day{5, meter::CalendarUnit::kDay};
  SharedEngine server(
      redis.url(),
      {.limits = {{.name = "calls", .meter = a_day, .shared = engine::SharedSpec{Outage::kAllow}}}},
      here, {.timeout = 30s, .redis_clock = &there}, true);
  ASSERT_TRUE(server.acquire(kAny));
  there.advance(72h);
  const Result<Decision> decision = server.acquire(kAny);
  ASSERT_FALSE(decision);
  EXPECT_THAT(decision.error().message, HasSubstr("set the clocks"));
  here.advance(72h);
  EXPECT_TRUE(server.acquire(kAny));
}

}  // namespace
}  // namespace weir::store::redis
