// The Redis coordinator with instances that are well, in one process.

#include "weir/store/redis/pool/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/redis/pool/support.h"
#include "weir/store/redis/link/subscriber.h"

namespace weir::store::redis {
namespace {

using ::testing::HasSubstr;
using testing::RedisServer;

class RedisPool : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { redis_ = new RedisServer; }
  static void TearDownTestSuite() { delete std::exchange(redis_, nullptr); }

  // A fleet for each test.
  PoolCoordinatorOptions options() {
    return options_for(redis_->url(),
                       ::testing::UnitTest::GetInstance()->current_test_info()->name());
  }

  static RedisServer* redis_;
};
RedisServer* RedisPool::redis_ = nullptr;

TEST_F(RedisPool, BooksTheEstimateAndSettlesWithWhatWasUsed) {
  Instance one(options(), registration_of({.rates = {.tokens_per_minute = 100'000}}));
  ASSERT_TRUE(one.started().ok()) << one.started().error().message;
  const Grant grant = one.granted("gpt", {10'000, 1});
  EXPECT_EQ(grant.used.minute, (Amounts{10'000, 1}));
  EXPECT_EQ(one.books().used.day, (Amounts{10'000, 1}));
  EXPECT_EQ(one.books().in_flight, 1);

  EXPECT_EQ(one.release(grant, {6'000, 1}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{6'000, 1}));
  EXPECT_EQ(one.books().used.day, (Amounts{6'000, 1}));
  EXPECT_EQ(one.books().in_flight, 0);
}

TEST_F(RedisPool, CountsMoreThanEstimated) {
  Instance one(options(), registration_of({.rates = {.tokens_per_minute = 100}}));
  EXPECT_EQ(one.release(one.granted("gpt", {10, 0}), {250, 3}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{250, 3}));
  EXPECT_EQ(one.refused("gpt", {1, 0}).reason, Refused::kExhausted);
}

TEST_F(RedisPool, HoldsALimitOverInstancesToTheLastRequest) {
  Instance one(options(), registration_of(kTenRequests));
  Instance two(options(), registration_of(kTenRequests));
  for (int i = 0; i < 5; ++i) {
    one.granted("gpt", {0, 1});
    two.granted("gpt", {0, 1});
  }
  const Refusal refusal = two.refused("gpt", {0, 1});
  EXPECT_EQ(refusal.reason, Refused::kExhausted);
  EXPECT_EQ(refusal.dimension, Dimension::kRequestsPerMinute);
  EXPECT_EQ(
      refusal.message,
      "exhausted: model 'gpt': 10 of 10 requests_per_minute are used or reserved, and 1 wanted");
  EXPECT_GT(refusal.retry_at, two.now());
  EXPECT_LE(refusal.retry_at, two.now() + std::chrono::hours{24 * 100});
  // A window that is full refuses what takes nothing of it, too.
  EXPECT_EQ(two.refused("gpt", {7, 0}).dimension, Dimension::kRequestsPerMinute);
}

TEST_F(RedisPool, KeepsThePlacesOfJobsWhoseInstanceHasLeftForALease) {
  const Registration two_places = registration_of({.concurrent = 2});
  PoolCoordinatorOptions mine = options();
  mine.instance_timeout = 1s;
  Instance stays(mine, two_places);
  {
    Instance leaves(mine, two_places);
    leaves.granted("gpt", {10, 1});
    EXPECT_EQ(leaves.release(leaves.granted("gpt", {10, 1}), {10, 1}), Released::kSettled);
    EXPECT_TRUE(leaves.stop().ok());
  }
  const auto left_at = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return stays.report().instance_count == 1; }))
      << "its share is the others' at once";
  EXPECT_EQ(stays.books().in_flight, 1);
  stays.granted("gpt", {10, 1});
  EXPECT_EQ(stays.refused("gpt", {10, 1}).reason, Refused::kBusy);
  EXPECT_TRUE(eventually([&] { return stays.books().in_flight == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - left_at, 900ms);
  EXPECT_EQ(stays.books().used.day, (Amounts{30, 3})) << "the estimate stays";
}

TEST_F(RedisPool, GivesBackWhatWasNotUsed) {
  Instance one(options(), registration_of(kTenRequests));
  const Grant all = one.granted("gpt", {0, 10});
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kExhausted);
  one.release(all, {0, 9});
  one.granted("gpt", {0, 1});
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kExhausted);
}

TEST_F(RedisPool, NamesOfSeveralTheOneThatTakesLongestToPass) {
  Instance one(options(), registration_of({.rates = {.tokens_per_minute = 10, .tokens_per_day = 10},
                                           .concurrent = 1}));
  one.granted("gpt", {10, 1});
  EXPECT_EQ(one.refused("gpt", {10, 1}).dimension, Dimension::kTokensPerDay);
}

TEST_F(RedisPool, BoundsJobsInFlightAndTellsWhoWasRefused) {
  const Registration registration = registration_of({.concurrent = 2});
  Instance one(options(), registration);
  Instance two(options(), registration);
  const Grant first = one.granted("gpt", {1, 1});
  one.granted("gpt", {1, 1});
  EXPECT_EQ(two.refused("gpt", {1, 1}).reason, Refused::kBusy);
  const int before = two.freed_count();
  EXPECT_EQ(one.release(first, {1, 1}), Released::kSettled);
  EXPECT_TRUE(eventually([&] { return two.freed_count() > before; }));
  two.granted("gpt", {1, 1});
}

TEST_F(RedisPool, TellsTheLastReleaseOfABatchToo) {
  PoolCoordinatorOptions slow = options();
  slow.announce_every = 300ms;
  Instance one(slow, registration_of({.concurrent = 2}));
  Instance two(slow, registration_of({.concurrent = 2}));
  Grant first = one.granted("gpt", {1, 1});
  Grant second = one.granted("gpt", {1, 1});
  EXPECT_EQ(two.refused("gpt", {1, 1}).reason, Refused::kBusy);
  one.release(first, {1, 1});
  first = two.granted("gpt", {1, 1});
  EXPECT_EQ(two.refused("gpt", {1, 1}).reason, Refused::kBusy);
  const int before = two.freed_count();
  one.release(second, {1, 1});
  EXPECT_TRUE(eventually([&] { return two.freed_count() > before; }));
  two.granted("gpt", {1, 1});
}

TEST_F(RedisPool, RefusesWhatCanNeverBe) {
  Instance one(options(), registration_of(kTenRequests));
  EXPECT_EQ(one.refused("gpt", {0, 11}).reason, Refused::kNever);
  EXPECT_EQ(one.refused("gpt", {0, 11}).retry_at, kForever);
  EXPECT_EQ(one.refused("claude", {0, 1}).reason, Refused::kUnknownModel);
}

TEST_F(RedisPool, ReleasesAGrantOnce) {
  Instance one(options(), registration_of(kTenRequests));
  const Grant grant = one.granted("gpt", {0, 1});
  EXPECT_EQ(one.release(grant, {0, 1}), Released::kSettled);
  EXPECT_EQ(one.release(grant, {0, 0}), Released::kNotHeld);
  EXPECT_EQ(one.books().used.minute, (Amounts{0, 1}));
}

TEST_F(RedisPool, DividesByTheInstancesThatAreThere) {
  const Registration registration = registration_of({.rates = {.tokens_per_minute = 500}});
  Instance one(options(), registration);
  EXPECT_TRUE(eventually([&] { return one.allocation().pools["gpt"].total_slots == 50; }));
  {
    Instance two(options(), registration);
    EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
    EXPECT_TRUE(eventually([&] { return two.allocation().instance_count == 2; }));
    EXPECT_EQ(one.allocation().pools["gpt"].left.tokens_per_minute, 250);
    EXPECT_EQ(one.allocation().pools["gpt"].total_slots, 25);
    EXPECT_EQ(two.allocation().pools, one.allocation().pools);
    EXPECT_TRUE(two.stop().ok());
  }
  // Fewer instances are applied, too.
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 1; }));
  EXPECT_TRUE(eventually([&] { return one.allocation().pools["gpt"].total_slots == 50; }));
  EXPECT_TRUE(one.epochs_grew());
}

TEST_F(RedisPool, LeavesWhatIsUsedOutOfTheShare) {
  Instance one(options(), registration_of({.rates = {.tokens_per_minute = 500}}));
  one.granted("gpt", {200, 1});
  EXPECT_TRUE(
      eventually([&] { return one.allocation().pools["gpt"].left.tokens_per_minute == 300; }));
  EXPECT_EQ(one.allocation().pools["gpt"].whole.tokens_per_minute, 500);
}

TEST_F(RedisPool, RefusesOtherLimitsByTheNameOfTheModel) {
  Instance one(options(), registration_of(kTenRequests));
  Instance two(options(), registration_of({.rates = {.requests_per_minute = 11}}));
  ASSERT_FALSE(two.started().ok());
  EXPECT_EQ(two.started().error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(two.started().error().message,
              HasSubstr("mismatch: model 'gpt': the fleet has version 1 with "
                        "tokens_per_minute=none requests_per_minute=10 "));
  EXPECT_THAT(two.started().error().message, HasSubstr("requests_per_minute=11 "));
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kStopped);

  Instance three(options(), registration_of(kTenRequests, {11, 1}));
  EXPECT_FALSE(three.started().ok());
  EXPECT_EQ(one.report().instance_count, 1);
}

// With `outage: allow` it would never count anything there.
TEST_F(RedisPool, DoesNotStartOnAReplica) {
  const PoolCoordinatorOptions master = options();
  RedisServer replica({.more = {"--replicaof", "127.0.0.1", std::to_string(master.address.port)}});
  PoolCoordinatorOptions other = master;
  other.address = *parse_address(replica.url());
  Instance instance(other, registration_of(kTenRequests));
  ASSERT_FALSE(instance.started().ok());
  EXPECT_EQ(instance.started().error().code, ErrorCode::kBadArgument);
  EXPECT_THAT(instance.started().error().message, HasSubstr("it is a replica"));
}

TEST_F(RedisPool, FollowsLimitsOfAHigherVersion) {
  Instance one(options(), registration_of(kTenRequests));
  Instance two(options(), registration_of(kTenRequests));
  const Grant before = two.granted("gpt", {0, 4});
  const Registration more = registration_of({.rates = {.requests_per_minute = 12}}, {10, 1}, 2);
  ASSERT_TRUE(one.update(more).ok());
  one.granted("gpt", {0, 8});
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kMismatch);
  // What it holds is settled all the same.
  EXPECT_EQ(two.release(before, {0, 3}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute.requests, 11);
  ASSERT_TRUE(two.update(more).ok());
  two.granted("gpt", {0, 1});
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kExhausted);
}

TEST_F(RedisPool, KeepsTheJobsOfAnInstanceWhoseVersionIsTooLow) {
  PoolCoordinatorOptions brief = options();
  // Long enough for an instance that is held up meanwhile, and the wait below is longer still.
  brief.instance_timeout = 2s;
  const ModelLimits two_jobs{.concurrent = 2};
  Instance one(brief, registration_of(two_jobs));
  Instance two(brief, registration_of(two_jobs));
  const Grant held = two.granted("gpt", {0, 1});
  ASSERT_TRUE(one.update(registration_of({.concurrent = 1}, {10, 1}, 2)).ok());
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kMismatch);
  const auto until = std::chrono::steady_clock::now() + brief.instance_timeout + 500ms;
  while (std::chrono::steady_clock::now() < until) {
    ASSERT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kBusy);
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(two.release(held, {0, 1}), Released::kSettled);
  one.granted("gpt", {0, 1});
}

TEST_F(RedisPool, GoesOnWithItsLimitsIfNewOnesAreRefused) {
  Instance one(options(), registration_of(kTenRequests));
  Instance two(options(), registration_of(kTenRequests));
  const Status refused = one.update(registration_of({.rates = {.requests_per_minute = 9}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(one.granted("gpt", {0, 1}).used.minute, (Amounts{0, 1}));
  EXPECT_EQ(two.granted("gpt", {0, 9}).used.minute, (Amounts{0, 10}));
}

TEST_F(RedisPool, SettlesWhatIsReleasedRightBeforeItStops) {
  Instance one(options(), registration_of(kTenRequests));
  auto two = std::make_unique<Instance>(options(), registration_of(kTenRequests));
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
  const Grant grant = two->granted("gpt", {0, 4});
  std::promise<Released> released;
  two->coordinator().release(grant, {0, 1}, two->now(),
                             [&](Instant, Released result) { released.set_value(result); });
  EXPECT_TRUE(two->stop().ok());
  EXPECT_EQ(released.get_future().get(), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{0, 1}));
  EXPECT_EQ(one.report().instance_count, 1);
}

TEST_F(RedisPool, TakesNewLimitsWhenNobodyElseIsThere) {
  {
    Instance one(options(), registration_of(kTenRequests));
    EXPECT_TRUE(one.stop().ok());
  }
  Instance two(options(), registration_of({.rates = {.requests_per_minute = 3}}));
  ASSERT_TRUE(two.started().ok());
  EXPECT_EQ(two.refused("gpt", {0, 4}).reason, Refused::kNever);
}

TEST_F(RedisPool, CountsWhatWasUsedWithoutAGrant) {
  Instance one(options(), registration_of(kTenRequests));
  one.granted("gpt", {0, 1});
  EXPECT_TRUE(one.replay("gpt", {5, 2}, one.now()).ok());
  EXPECT_TRUE(eventually([&] { return one.books().used.minute == Amounts{5, 3}; }));
  // In a window that has passed.
  EXPECT_TRUE(one.replay("gpt", {5, 2}, Instant{0}).ok());
  EXPECT_EQ(one.granted("gpt", {0, 1}).used.minute, (Amounts{5, 4}));
  EXPECT_FALSE(one.replay("claude", {5, 2}, one.now()).ok());
}

TEST_F(RedisPool, AdoptsWhatRunsAlreadyWhateverTheLimits) {
  Instance one(options(), registration_of({.rates = {.requests_per_minute = 3}, .concurrent = 1}));
  one.granted("gpt", {0, 1});
  const Acquired adopted = one.adopt("gpt", {5, 2}, one.now());
  ASSERT_TRUE(std::holds_alternative<Grant>(adopted));
  EXPECT_EQ(one.books().in_flight, 2);
  EXPECT_EQ(one.books().used.minute, (Amounts{5, 3}));
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kExhausted);
  EXPECT_EQ(one.release(std::get<Grant>(adopted), {1, 1}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{1, 2}));
  EXPECT_EQ(one.books().in_flight, 1);
  // Of a window that has passed: in flight only, and nothing is given back.
  const Acquired old = one.adopt("gpt", {5, 2}, Instant{0});
  ASSERT_TRUE(std::holds_alternative<Grant>(old));
  EXPECT_EQ(one.books().used.minute, (Amounts{1, 2}));
  EXPECT_EQ(one.books().in_flight, 2);
  EXPECT_EQ(one.release(std::get<Grant>(old), {0, 0}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{1, 2}));
}

TEST_F(RedisPool, ReportsWhoIsThere) {
  PoolCoordinatorOptions named = options();
  named.instance = "ann";
  Instance one(named, registration_of(kTenRequests));
  named.instance = "bob";
  Instance two(named, registration_of(kTenRequests));
  two.granted("gpt", {0, 1});
  const CoordinatorReport report = one.report();
  EXPECT_EQ(report.kind, "redis");
  EXPECT_EQ(report.instance, "ann");
  EXPECT_TRUE(report.is_reachable);
  EXPECT_EQ(report.instance_count, 2);
  ASSERT_EQ(report.instances.size(), 2);
  for (const auto& instance : report.instances) {
    EXPECT_EQ(instance.is_own, instance.id == "ann");
    EXPECT_EQ(instance.in_flight, instance.id == "bob" ? 1 : 0);
    EXPECT_GT(instance.last_heard, Instant{0});
  }
  EXPECT_EQ(report.models.front().limits, kTenRequests);
}

TEST_F(RedisPool, AnswersStoppedOnceItIs) {
  Instance one(options(), registration_of({.concurrent = 2}));
  const Grant grant = one.granted("gpt", {1, 1});
  EXPECT_TRUE(one.stop().ok());
  EXPECT_EQ(one.refused("gpt", {1, 1}).reason, Refused::kStopped);
  EXPECT_EQ(one.release(grant, {1, 1}), Released::kStopped);
  // Its job may run on: its slot is kept for a lease, and its estimate stays counted.
  Instance two(options(), registration_of({.concurrent = 2}));
  const Grant other = two.granted("gpt", {1, 1});
  EXPECT_EQ(other.used.minute, (Amounts{2, 2}));
  EXPECT_EQ(two.books().in_flight, 2);
}

TEST_F(RedisPool, KeepsModelsApartWhateverTheirNames) {
  const ModelLimits one_request{.rates = {.requests_per_minute = 1}};
  const Registration registration{.limits = {{"a", one_request},
                                             {"a}b", one_request},
                                             {"a%7Db", one_request},
                                             {"{", one_request}},
                                  .average = {1, 1}};
  Instance one(options(), registration);
  ASSERT_TRUE(one.started().ok());
  for (const auto& [model, limits] : registration.limits) {
    one.granted(model, {0, 1});
    EXPECT_EQ(one.refused(model, {0, 1}).reason, Refused::kExhausted) << model;
  }
}

TEST_F(RedisPool, PublishesTheAllocationAsTheDocumentHasIt) {
  std::mutex mutex;
  std::string last;
  Loop loop;
  SubscriberOptions hearing;
  hearing.address = *parse_address(redis_->url());
  hearing.connect_timeout = kPatience;
  hearing.silence = kPatience;
  hearing.channels = {options().prefix + ":pool:1:allocations"};
  hearing.on_message = [&](std::string_view, std::string_view message) {
    const std::lock_guard lock(mutex);
    last = message;
  };
  const auto subscriber = make_subscriber(loop, hearing);
  ASSERT_TRUE(eventually([&] { return subscriber->is_up(); }));
  PoolCoordinatorOptions full = options();
  full.announce = Announce::kFull;
  full.instance = "instance-\"1\"";
  Instance one(full,
               registration_of({.rates = {.tokens_per_minute = 1000, .requests_per_day = 9}}));
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return !last.empty();
  }));
  const std::lock_guard lock(mutex);
  EXPECT_EQ(
      last,
      R"({"instanceId":"instance-\"1\"","allocation":{"instanceCount":1,"pools":{"gpt":)"
      R"({"totalSlots":9,"tokensPerMinute":1000,"requestsPerMinute":0,"tokensPerDay":0,)"
      R"("requestsPerDay":9}},"dynamicLimits":{"gpt":{"tokensPerMinute":1000,"requestsPerDay":9}}}})");
}

TEST_F(RedisPool, PublishesAnAllocationOnceAndNoneOfAHalfRegisteredNewcomer) {
  std::mutex mutex;
  std::vector<std::string> all;
  Loop loop;
  SubscriberOptions hearing;
  hearing.address = *parse_address(redis_->url());
  hearing.connect_timeout = kPatience;
  hearing.silence = kPatience;
  hearing.channels = {options().prefix + ":pool:1:allocations"};
  hearing.on_message = [&](std::string_view, std::string_view message) {
    const std::lock_guard lock(mutex);
    all.emplace_back(message);
  };
  const auto subscriber = make_subscriber(loop, hearing);
  ASSERT_TRUE(eventually([&] { return subscriber->is_up(); }));
  PoolCoordinatorOptions full = options();
  full.announce = Announce::kFull;
  full.instance = "one";
  full.heartbeat = 20ms;
  Registration models = registration_of(kTenRequests);
  for (const char* const name : {"a", "b", "c", "d"}) models.limits[name] = kTenRequests;
  Instance one(full, models);
  std::this_thread::sleep_for(200ms);  // ten heartbeats
  {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(all.size(), 1u);
  }
  Instance two(options(), models);
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return all.size() >= 2;
  }));
  std::this_thread::sleep_for(100ms);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(all.size(), 2u) << all.back();
  EXPECT_THAT(all[1], HasSubstr("\"instanceCount\":2"));
  EXPECT_THAT(all[1], ::testing::Not(HasSubstr("\"totalSlots\":10")));
}

TEST_F(RedisPool, RefusesOptionsThatCannotBeUsed) {
  Loop loop;
  SystemClock clock;
  const auto message = [&](auto change) {
    PoolCoordinatorOptions bad = options();
    change(bad);
    const auto made = make_pool_coordinator(loop, clock, bad);
    EXPECT_FALSE(made.ok());
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_THAT(message([](auto& bad) { bad.prefix = "a{b"; }), HasSubstr("no braces"));
  EXPECT_THAT(message([](auto& bad) { bad.prefix.assign(65, 'x'); }), HasSubstr("1 to 64 bytes"));
  EXPECT_THAT(message([](auto& bad) { bad.timeout = 0ms; }), HasSubstr("timeout"));
  EXPECT_THAT(message([](auto& bad) { bad.instance_timeout = bad.heartbeat * 2 - 1ns; }),
              HasSubstr("at least twice heartbeat"));
  EXPECT_THAT(message([](auto& bad) { bad.day = bad.minute - 1ns; }), HasSubstr("windows"));
}

}  // namespace
}  // namespace weir::store::redis
