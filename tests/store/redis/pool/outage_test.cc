// The Redis coordinator when an instance is taken for dead, and when Redis is paused,
// restarted, or has lost its data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/store/redis/pool/support.h"
#include "weir/testing/manual_clock.h"

namespace weir::store::redis {
namespace {

using testing::RedisServer;

constexpr ModelLimits kTwoJobs{.concurrent = 2};

class RedisPoolOutage : public ::testing::Test {
 protected:
  PoolCoordinatorOptions options() { return options_for(redis_.url(), "fleet"); }
  PoolCoordinatorOptions hasty() {
    PoolCoordinatorOptions result = options();
    result.timeout = 20ms;
    return result;
  }
  // Ends the lease that the grant was made under, as if its instance had been silent for too
  // long; not one that it has got since.
  void end_lease_of(const Grant& grant) {
    redis_.ask("ZADD fleet:pool:1:{gpt}:leases XX 1 " + std::to_string(grant.fence));
  }

  RedisServer redis_{{.keeps_data = true}};
};

TEST_F(RedisPoolOutage, ReturnsTheSlotsOfADeadInstanceAndKeepsItsEstimates) {
  Instance one(options(), registration_of(kTwoJobs));
  {
    PoolCoordinatorOptions dying = options();
    dying.heartbeat = 1s;
    dying.instance_timeout = 2s;
    Instance two(dying, registration_of(kTwoJobs));
    two.granted("gpt", {5, 1});
    two.granted("gpt", {5, 1});
    EXPECT_EQ(one.refused("gpt", {5, 1}).reason, Refused::kBusy);
    // Gone without a word.
  }
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 1; }));
  const Grant grant = one.granted("gpt", {5, 1});
  EXPECT_EQ(grant.used.minute, (Amounts{15, 3}));
  EXPECT_EQ(one.books().in_flight, 1);
}

TEST_F(RedisPoolOutage, RegistersAgainAndIsFencedWhenItWasTakenForDead) {
  PoolCoordinatorOptions silent = options();
  silent.heartbeat = 60s;
  silent.instance_timeout = 120s;
  Instance one(options(), registration_of(kTwoJobs));
  Grant of_before;
  {
    Instance two(silent, registration_of(kTwoJobs));
    of_before = two.granted("gpt", {5, 1});
    // It may look at the fleet once more, which renews its lease.
    EXPECT_TRUE(eventually([&] {
      end_lease_of(of_before);
      return one.books().in_flight == 0;
    }));
    const Grant of_now = two.granted("gpt", {5, 1});
    EXPECT_GT(of_now.fence, of_before.fence);
    EXPECT_EQ(one.books().in_flight, 1);
    // No place is freed that another instance may hold by now. Its estimate still counted in the
    // window, and so what it did not use goes back.
    EXPECT_EQ(two.release(of_before, {1, 1}), Released::kFenced);
    EXPECT_EQ(one.books().in_flight, 1);
    EXPECT_EQ(one.books().used.minute, (Amounts{6, 2}));
    EXPECT_EQ(two.release(of_now, {1, 1}), Released::kSettled);
    EXPECT_EQ(one.books().in_flight, 0);
    EXPECT_EQ(one.books().used.minute, (Amounts{2, 2}));
  }
}

// What an earlier version wrote of each instance was shorter.
TEST_F(RedisPoolOutage, KeepsTheRecordsOfThoseThatHaveEndedBesideOnesOfAnEarlierVersion) {
  PoolCoordinatorOptions silent = options();
  silent.heartbeat = 60s;
  silent.instance_timeout = 120s;
  Instance one(options(), registration_of({.concurrent = 3}));
  Grant of_earlier;
  {
    Instance earlier(silent, registration_of({.concurrent = 3}));
    of_earlier = earlier.granted("gpt", {5, 1});
    // Gone without a word.
  }
  const std::string books = "fleet:pool:1:{gpt}";
  const std::string record = "HSET " + books + " r:" + std::to_string(of_earlier.fence);
  ASSERT_EQ(redis_.ask(record + R"( "\x00\x00\x00\x00\x00\x00\xf0\x3f)"
                                R"(\x00\x00\x00\x00\x00\x00\x00\x00")"),
            ":0");
  EXPECT_TRUE(eventually([&] {
    end_lease_of(of_earlier);
    return one.books().in_flight == 0;
  }));
  Instance two(silent, registration_of({.concurrent = 3}));
  const Grant of_before = two.granted("gpt", {5, 1});
  EXPECT_TRUE(eventually([&] {
    end_lease_of(of_before);
    return one.books().in_flight == 0;
  }));
  EXPECT_EQ(redis_.ask("HSTRLEN " + books + " gone"), ":64");
  two.granted("gpt", {5, 1});
  EXPECT_EQ(two.release(of_before, {1, 1}), Released::kFenced);
  EXPECT_EQ(one.books().used.minute, (Amounts{11, 3})) << "what it did not use goes back";
  // A list that an earlier version has left out of step is begun anew.
  ASSERT_EQ(redis_.ask("HSET " + books + " gone 0123456789"), ":0");
  const Grant last = two.granted("gpt", {5, 1});
  EXPECT_TRUE(eventually([&] {
    end_lease_of(last);
    return one.books().in_flight == 0;
  }));
  EXPECT_EQ(redis_.ask("HSTRLEN " + books + " gone"), ":64");
  two.granted("gpt", {5, 1});
  EXPECT_EQ(two.release(last, {1, 1}), Released::kFenced);
}

TEST_F(RedisPoolOutage, KeepsTheJobsOfWhoHasLeftWhenRedisWasAwayForLongerThanALease) {
  PoolCoordinatorOptions brittle = options();
  brittle.silence = 1s;
  brittle.connect_timeout = 1s;
  Instance stays(brittle, registration_of(kTwoJobs));
  stays.granted("gpt", {0, 1});
  {
    Instance leaves(brittle, registration_of(kTwoJobs));
    leaves.granted("gpt", {0, 1});
    EXPECT_TRUE(leaves.stop().ok());
  }
  redis_.pause();
  std::this_thread::sleep_for(brittle.instance_timeout + 500ms);
  redis_.resume();
  EXPECT_TRUE(eventually([&] { return stays.is_reachable(); }));
  std::this_thread::sleep_for(4 * brittle.heartbeat);
  EXPECT_EQ(stays.refused("gpt", {0, 1}).reason, Refused::kBusy);
  EXPECT_TRUE(eventually([&] { return stays.books().in_flight == 1; })) << "not for ever";
}

TEST_F(RedisPoolOutage, LetsTheListOfWhoHasLeftEndThoughNobodyIsThere) {
  {
    Instance last(options(), registration_of(kTwoJobs));
    last.granted("gpt", {0, 1});
    EXPECT_TRUE(last.stop().ok());
  }
  const std::string rest = redis_.ask("PTTL fleet:pool:1:{gpt}:left");
  EXPECT_GT(std::stoll(rest.substr(1)), 0) << rest;
}

TEST_F(RedisPoolOutage, GivesBackWhatALateAnswerGranted) {
  Instance one(options(), registration_of(kTenRequests));
  one.granted("gpt", {0, 1});
  Instance two(hasty(), registration_of(kTenRequests));
  redis_.pause();
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kUnreachable);
  redis_.resume();
  EXPECT_TRUE(eventually([&] {
    const auto books = one.books();
    return books.used.minute.requests == 1 && books.in_flight == 1;
  }));
}

// Redis does not answer for much longer, by the machine's clock, than a question may take.
TEST_F(RedisPoolOutage, WaitsForAnAnswerUntilTheDeadlineByTheClockItWasGiven) {
  testing::ManualClock clock(SystemClock().now());
  Instance one(hasty(), registration_of(kTenRequests), &clock);
  const Grant held = one.granted("gpt", {0, 1});
  redis_.pause();
  std::future<Acquired> asked = one.acquire_later("gpt", {0, 1});
  std::future<Released> released = one.release_later(held, {0, 1});
  // Both are on their way, and their deadlines set, once the loop has come round twice.
  EXPECT_FALSE(one.update({}));
  EXPECT_FALSE(one.update({}));
  clock.advance(hasty().timeout - 1ns);
  EXPECT_EQ(asked.wait_for(10 * hasty().timeout), std::future_status::timeout);
  EXPECT_EQ(released.wait_for(0s), std::future_status::timeout);
  clock.advance(1ns);
  const Acquired answer = asked.get();
  const auto* refusal = std::get_if<Refusal>(&answer);
  ASSERT_NE(refusal, nullptr);
  EXPECT_EQ(refusal->reason, Refused::kUnreachable);
  EXPECT_EQ(released.get(), Released::kUnreachable);
  redis_.resume();
}

TEST_F(RedisPoolOutage, SettlesLateWhatCouldNotBeSettledInTime) {
  Instance one(options(), registration_of(kTenRequests));
  const Grant first = one.granted("gpt", {0, 1});
  Instance two(hasty(), registration_of(kTenRequests));
  Acquired acquired = two.acquire("gpt", {0, 5});
  while (!std::holds_alternative<Grant>(acquired)) acquired = two.acquire("gpt", {0, 5});
  redis_.pause();
  EXPECT_EQ(two.release(std::get<Grant>(acquired), {0, 2}), Released::kUnreachable);
  redis_.resume();
  EXPECT_TRUE(eventually([&] {
    const auto books = one.books();
    return books.used.minute.requests == 3 && books.in_flight == 1;
  }));
}

TEST_F(RedisPoolOutage, SettlesAgainWhatWasRefusedLate) {
  Instance one(options(), registration_of(kTenRequests));
  const Grant first = one.granted("gpt", {0, 1});
  Instance two(hasty(), registration_of(kTenRequests));
  Acquired acquired = two.acquire("gpt", {0, 5});
  while (!std::holds_alternative<Grant>(acquired)) acquired = two.acquire("gpt", {0, 5});
  redis_.ask("CONFIG SET maxmemory 1");
  redis_.pause();
  EXPECT_EQ(two.release(std::get<Grant>(acquired), {0, 2}), Released::kUnreachable);
  redis_.resume();  // and answers OOM, long after the timeout
  redis_.ask("CONFIG SET maxmemory 0");
  EXPECT_TRUE(eventually([&] {
    const auto books = one.books();
    return books.used.minute.requests == 3 && books.in_flight == 1;
  }));
}

TEST_F(RedisPoolOutage, SettlesOnceWhatItReleasedWhileRedisWasGone) {
  Instance one(options(), registration_of(kTenRequests));
  const Grant first = one.granted("gpt", {0, 4});
  const Grant second = one.granted("gpt", {0, 4});
  EXPECT_EQ(one.release(first, {0, 1}), Released::kSettled);
  redis_.kill();
  EXPECT_EQ(one.release(second, {0, 1}), Released::kUnreachable);
  EXPECT_TRUE(eventually([&] { return !one.is_reachable(); }));
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable(); }));
  EXPECT_TRUE(eventually([&] { return one.books().in_flight == 0; }));
  EXPECT_EQ(one.books().used.minute, (Amounts{0, 2}));
  EXPECT_EQ(one.report().instance_count, 1);
}

TEST_F(RedisPoolOutage, ForgetsTheSlotsOfAnswersThatNeverCame) {
  PoolCoordinatorOptions brittle = options();
  brittle.silence = 600ms;
  brittle.timeout = 5s;
  Instance one(brittle, registration_of(kTwoJobs));
  const Grant held = one.granted("gpt", {0, 1});
  // Redis executes it when it goes on, after the connection is gone.
  redis_.pause();
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kUnreachable);
  redis_.resume();
  EXPECT_TRUE(eventually([&] { return one.is_reachable(); }));
  EXPECT_TRUE(eventually([&] { return one.books().in_flight == 1; }));
  const Grant other = one.granted("gpt", {0, 1});
  EXPECT_EQ(one.release(held, {0, 1}), Released::kSettled);
  EXPECT_EQ(one.release(other, {0, 1}), Released::kSettled);
  EXPECT_EQ(one.books().in_flight, 0);
}

TEST_F(RedisPoolOutage, ReportsWhatWasUsedWhenRedisHasLostIt) {
  Instance one(options(), registration_of(kTenRequests));
  Instance two(options(), registration_of(kTenRequests));
  const Grant held = one.granted("gpt", {0, 3});
  two.release(two.granted("gpt", {0, 4}), {0, 4});
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
  EXPECT_TRUE(eventually([&] { return two.allocation().instance_count == 2; }));
  redis_.kill();
  EXPECT_TRUE(eventually([&] { return !one.is_reachable() && !two.is_reachable(); }));
  redis_.forget();
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable() && two.is_reachable(); }));
  const Grant after = one.granted("gpt", {0, 3});
  EXPECT_EQ(after.used.minute, (Amounts{0, 10}));
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kExhausted);
  EXPECT_EQ(one.books().in_flight, 2);
  // A grant from before is still one.
  EXPECT_EQ(one.release(held, {0, 2}), Released::kSettled);
  EXPECT_EQ(one.books().used.minute, (Amounts{0, 9}));
}

TEST_F(RedisPoolOutage, CountsTheDeadAtTheirFullShareWhenRedisHasLostItsData) {
  Instance one(options(), registration_of(kTenRequests));
  {
    Instance two(options(), registration_of(kTenRequests));
    two.granted("gpt", {0, 1});
    EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
    redis_.kill();
    // Both go at once.
    EXPECT_TRUE(eventually([&] { return !one.is_reachable(); }));
  }
  redis_.forget();
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable(); }));
  const Acquired at_once = one.acquire_once("gpt", {0, 1});
  ASSERT_TRUE(std::holds_alternative<Refusal>(at_once));
  EXPECT_EQ(std::get<Refusal>(at_once).reason, Refused::kRecovering);
  EXPECT_GT(std::get<Refusal>(at_once).retry_at, one.now());
  const Grant grant = one.granted("gpt", {0, 1});
  EXPECT_EQ(grant.used.minute, (Amounts{0, 6}));
}

TEST_F(RedisPoolOutage, CountsWhoLeftInThisMinuteWhenRedisHasLostItsData) {
  Instance one(options(), registration_of(kTenRequests));
  {
    Instance two(options(), registration_of(kTenRequests));
    two.granted("gpt", {0, 5});
    EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
    EXPECT_TRUE(two.stop().ok());
  }
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 1; }));
  redis_.ask("FLUSHALL");
  EXPECT_EQ(one.granted("gpt", {0, 1}).used.minute, (Amounts{0, 6}));
}

TEST_F(RedisPoolOutage, CountsWhatWasSeenOfThoseWhoLeftWhenRedisHasLostItsData) {
  PoolCoordinatorOptions brief = options();
  // The minute of the one that leaves is over, and its day is not.
  brief.minute = 200ms;
  const ModelLimits limits{.rates = {.requests_per_day = 10}};
  Instance one(brief, registration_of(limits));
  Instant minute;
  {
    Instance two(brief, registration_of(limits));
    minute = two.granted("gpt", {0, 8}).minute;
    EXPECT_TRUE(two.stop().ok());
  }
  EXPECT_TRUE(eventually([&] { return one.books().minute > minute + 2 * brief.minute; }));
  EXPECT_TRUE(eventually([&] { return one.allocation().pools["gpt"].left.requests_per_day == 2; }));
  redis_.ask("FLUSHALL");
  EXPECT_EQ(one.granted("gpt", {0, 1}).used.day, (Amounts{0, 9}));
}

TEST_F(RedisPoolOutage, NoticesThatRedisCameBackWithOlderData) {
  RedisServer forgetful;  // on disk is what SAVE put there
  const PoolCoordinatorOptions shared = options_for(forgetful.url(), "fleet");
  Instance idle(shared, registration_of(kTenRequests));
  Instance busy(shared, registration_of(kTenRequests));
  const Grant held = busy.granted("gpt", {0, 2});
  EXPECT_TRUE(eventually([&] { return idle.allocation().instance_count == 2; }));
  forgetful.ask("SAVE");
  busy.granted("gpt", {0, 6});
  forgetful.kill();
  EXPECT_TRUE(eventually([&] { return !idle.is_reachable() && !busy.is_reachable(); }));
  forgetful.start();
  EXPECT_TRUE(eventually([&] { return idle.is_reachable() && busy.is_reachable(); }));
  EXPECT_EQ(idle.refused("gpt", {0, 3}).reason, Refused::kExhausted);
  EXPECT_EQ(idle.granted("gpt", {0, 2}).used.minute, (Amounts{0, 10}));
  EXPECT_EQ(busy.release(held, {0, 1}), Released::kSettled);
  EXPECT_EQ(idle.books().in_flight, 2);
}

TEST_F(RedisPoolOutage, KeepsJobsInFlightWhenRedisWasAwayForLongerThanALease) {
  // The connections break meanwhile. When Redis is back both have half a lease to say that they are
  // there, so it is not a short one.
  PoolCoordinatorOptions brittle = options();
  brittle.silence = 1s;
  brittle.connect_timeout = 1s;
  Instance one(brittle, registration_of(kTwoJobs));
  Instance two(brittle, registration_of(kTwoJobs));
  const Grant first = one.granted("gpt", {0, 1});
  const Grant second = two.granted("gpt", {0, 1});
  redis_.pause();
  std::this_thread::sleep_for(brittle.instance_timeout + 500ms);
  redis_.resume();
  EXPECT_TRUE(eventually([&] { return one.is_reachable() && two.is_reachable(); }));
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kBusy);
  EXPECT_EQ(two.refused("gpt", {0, 1}).reason, Refused::kBusy);
  EXPECT_EQ(one.release(first, {0, 1}), Released::kSettled);
  EXPECT_EQ(two.release(second, {0, 1}), Released::kSettled);
  EXPECT_EQ(one.books().in_flight, 0);
}

TEST_F(RedisPoolOutage, TakesOtherLimitsWhenEverybodyHasBeenSilentForLong) {
  PoolCoordinatorOptions brief = options();
  brief.instance_timeout = 300ms;
  {
    Instance one(brief, registration_of(kTenRequests));
    one.granted("gpt", {0, 1});
    // Gone without a word.
  }
  std::this_thread::sleep_for(3 * brief.instance_timeout);
  Instance two(brief, registration_of(kTwoJobs));
  ASSERT_TRUE(two.started().ok()) << two.started().error().message;
  EXPECT_TRUE(eventually([&] { return two.books().in_flight == 0; }));
}

TEST_F(RedisPoolOutage, CountsOnceWhatWasUsedWithoutIt) {
  Instance one(options(), registration_of(kTenRequests));
  one.granted("gpt", {0, 1});
  Instance two(hasty(), registration_of(kTenRequests));
  EXPECT_TRUE(eventually([&] { return one.allocation().instance_count == 2; }));
  redis_.pause();
  // Redis executes it when it goes on, long after the time-out.
  EXPECT_TRUE(two.replay("gpt", {0, 2}, two.now()).ok());
  std::this_thread::sleep_for(100ms);
  redis_.resume();
  EXPECT_TRUE(eventually([&] { return one.books().used.minute.requests == 3; }));
  // Nor is it lost or counted again when the connection breaks.
  redis_.kill();
  EXPECT_TRUE(two.replay("gpt", {0, 4}, two.now()).ok());
  // Both have noticed: one that has not would still be reachable below.
  EXPECT_TRUE(eventually([&] { return !one.is_reachable() && !two.is_reachable(); }));
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable() && two.is_reachable(); }));
  EXPECT_TRUE(eventually([&] { return one.books().used.minute.requests == 7; }));
  EXPECT_EQ(one.refused("gpt", {0, 4}).reason, Refused::kExhausted);
  EXPECT_EQ(one.granted("gpt", {0, 3}).used.minute, (Amounts{0, 10}));
}

TEST_F(RedisPoolOutage, WaitsOnAnEmptyRedisThatMayHaveLostItsData) {
  PoolCoordinatorOptions careful = options();
  careful.trusts_empty = false;
  Instance one(careful, registration_of(kTenRequests));
  const Acquired at_once = one.acquire_once("gpt", {0, 1});
  ASSERT_TRUE(std::holds_alternative<Refusal>(at_once));
  EXPECT_EQ(std::get<Refusal>(at_once).reason, Refused::kRecovering);
  EXPECT_EQ(one.granted("gpt", {0, 1}).used.minute, (Amounts{0, 1}));
}

TEST_F(RedisPoolOutage, NoticesThatSomebodyHasRemovedTheBooks) {
  Instance one(options(), registration_of(kTenRequests));
  one.granted("gpt", {0, 6});
  redis_.ask("FLUSHALL");
  const Grant grant = one.granted("gpt", {0, 4});
  EXPECT_EQ(grant.used.minute, (Amounts{0, 10}));
  EXPECT_TRUE(one.epochs_grew());
}

TEST_F(RedisPoolOutage, GoesOnTryingWhenRedisIsNotThereAtTheStart) {
  redis_.kill();
  Instance one(options(), registration_of(kTenRequests));
  ASSERT_FALSE(one.started().ok());
  EXPECT_EQ(one.started().error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kUnreachable);
  EXPECT_FALSE(one.is_reachable());
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable(); }));
  one.granted("gpt", {0, 1});
}

TEST_F(RedisPoolOutage, GoesOnWithItsLimitsIfRedisIsAwayWhenTheyChange) {
  Registration two_models = registration_of(kTenRequests);
  two_models.limits["small"] = kTenRequests;
  Instance one(options(), two_models);
  one.granted("gpt", {0, 1});
  redis_.kill();
  EXPECT_TRUE(eventually([&] { return !one.is_reachable(); }));
  Registration more = two_models;
  more.version = 2;
  more.limits["gpt"].rates.requests_per_minute = 20;
  const Status changed = one.update(more);
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code, ErrorCode::kUnavailable);
  redis_.start();
  EXPECT_TRUE(eventually([&] { return one.is_reachable(); }));
  EXPECT_EQ(one.granted("gpt", {0, 9}).used.minute, (Amounts{0, 10}));
  EXPECT_EQ(one.refused("gpt", {0, 1}).reason, Refused::kExhausted);
  ASSERT_TRUE(one.update(more).ok());
  one.granted("gpt", {0, 10});
}

TEST_F(RedisPoolOutage, NamesAForeignValueUnderItsKey) {
  redis_.ask("SET fleet:pool:1:{gpt} mine");
  Instance one(options(), registration_of(kTenRequests));
  ASSERT_FALSE(one.started().ok());
  EXPECT_THAT(one.started().error().message, ::testing::HasSubstr("WRONGTYPE"));
  EXPECT_THAT(one.started().error().message, ::testing::HasSubstr("'pool register'"));
  EXPECT_EQ(redis_.ask("GET fleet:pool:1:{gpt}"), "$4");
}

}  // namespace
}  // namespace weir::store::redis
