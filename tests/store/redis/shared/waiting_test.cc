// Requests that wait for shared limits: within one server, first come first served.
//
// Redis has the time of the test, which stands still until it is moved: a waiter that is tried
// before is refused again. Timers are real, so those who wait do look again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "tests/store/redis/shared/support.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using engine::RuleSetSpec;
using ::testing::ElementsAre;
using testing::RedisServer;

// Twenty units a second: one in 50 ms.
RuleSetSpec twenty_a_second() {
  return {.limits = {{.name = "calls",
                      .per = {"client"},
                      .unit = "tokens",
                      .meter = engine::BucketSpec{.amount = 20, .period = 1s, .burst = 5},
                      .shared = engine::SharedSpec{}}},
          .units = {{"tokens"}}};
}

RuleSetSpec one_slot(std::int64_t queue) {
  return {.limits = {{.name = "running",
                      .meter = engine::SlotsSpec{.limit = 1, .queue = queue, .hold = 10h},
                      .shared = engine::SharedSpec{}}}};
}

// Who still waits when the test ends may hear that the store has ended.
std::string what_became_of(const Result<Decision>& answer) {
  std::string text;
  if (!answer) {
    text.append(" failed: ").append(answer.error().message);
  } else if (!answer->allowed()) {
    text.append(" ").append(to_string(answer->verdict));
  }
  return text;
}

struct SharedWaiting : ::testing::Test {
  void start(RuleSetSpec rules) {
    server = std::make_unique<SharedEngine>(redis.url(), std::move(rules), clock, patient());
  }
  Result<Decision> take(std::int64_t tokens, const char* client = "acme") {
    const engine::Attribute who[] = {{"client", client}};
    const engine::Cost costs[] = {{"tokens", tokens}};
    return server->acquire({.attributes = who, .costs = costs});
  }
  // Asks, and notes the name when it is allowed. Returns when it waits.
  void wait_for(const std::string& name, std::int64_t tokens, Duration most = 10h) {
    const engine::Attribute who[] = {{"client", "acme"}};
    const engine::Cost costs[] = {{"tokens", tokens}};
    ask(name, {.attributes = who, .costs = costs}, most);
  }
  void ask(const std::string& name, const engine::Request& request, Duration most) {
    const std::size_t before = server->engine().usage().waiters;
    engine::ask(server->engine(), {.request = request, .wait_until = clock.now() + most},
                clock.now(), [this, name](const Result<Decision>& answer) {
                  const std::scoped_lock lock(mutex);
                  served.push_back(name + what_became_of(answer));
                });
    ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == before + 1; })) << name;
  }
  std::vector<std::string> so_far() {
    const std::scoped_lock lock(mutex);
    return served;
  }
  bool has_served(std::size_t count) {
    return eventually([&] { return so_far().size() >= count; });
  }

  std::mutex mutex;
  std::vector<std::string> served;  // outlives those who write to it
  RedisServer redis;
  testing::ManualClock clock{kStart};
  std::unique_ptr<SharedEngine> server;
};

TEST_F(SharedWaiting, ServesTheOldestFirstThoughItCostsMost) {
  start(twenty_a_second());
  ASSERT_TRUE(take(5)->allowed());
  wait_for("first", 4);
  wait_for("second", 1);
  wait_for("third", 2);
  wait_for("fourth", 1);
  // Enough for any but the first.
  clock.advance(150ms);
  EXPECT_EQ(server->inspect("calls", {"acme"})->remaining, 3);
  EXPECT_EQ(server->inspect("calls", {"acme"})->waiters, 4u);
  EXPECT_FALSE(take(1)->allowed());
  EXPECT_TRUE(so_far().empty());
  clock.advance(50ms);
  ASSERT_TRUE(has_served(1));
  clock.advance(200ms);
  ASSERT_TRUE(has_served(4));
  EXPECT_THAT(so_far(), ElementsAre("first", "second", "third", "fourth"));
  EXPECT_EQ(server->engine().usage().waiters, 0u);
  EXPECT_EQ(server->inspect("calls", {"acme"})->remaining, 0);
}

TEST_F(SharedWaiting, GoesOnInRedisWhenTheLimitMovesThere) {
  RuleSetSpec here = twenty_a_second();
  here.limits[0].shared.reset();
  start(here);
  ASSERT_TRUE(take(5)->allowed());
  const engine::Attribute who[] = {{"client", "acme"}};
  for (const auto& [name, tokens] : {std::pair("first", 4), std::pair("second", 2)}) {
    const engine::Cost costs[] = {{"tokens", tokens}};
    const auto start = engine::wait(
        server->engine(), {.attributes = who, .costs = costs}, {.deadline = clock.now() + 10h},
        clock.now(), [this, name = std::string(name)](const Result<Decision>& answer) {
          const std::scoped_lock lock(mutex);
          served.push_back(name + what_became_of(answer));
        });
    ASSERT_EQ(start->decision.verdict, Verdict::kQueued);
  }
  ASSERT_TRUE(server->engine().swap(compiled(twenty_a_second()), clock.now()));
  // Nothing was used there yet.
  ASSERT_TRUE(has_served(1));
  ASSERT_TRUE(eventually([&] { return server->engine().usage().waiters == 1; }));
  EXPECT_EQ(server->inspect("calls", {"acme"})->remaining, 1);
  clock.advance(50ms);
  ASSERT_TRUE(has_served(2));
  EXPECT_THAT(so_far(), ElementsAre("first", "second"));
  EXPECT_EQ(server->inspect("calls", {"acme"})->remaining, 0);
}

TEST_F(SharedWaiting, RefusesWhoWouldOvertakeAndNobodyElse) {
  start(twenty_a_second());
  ASSERT_TRUE(take(5)->allowed());
  wait_for("first", 5);
  clock.advance(100ms);
  const Result<Decision> younger = take(1);
  ASSERT_TRUE(younger) << younger.error().message;
  EXPECT_EQ(younger->verdict, Verdict::kDenied);
  EXPECT_EQ(younger->outcomes()[0].remaining, 2);
  EXPECT_GT(younger->earliest, clock.now());
  EXPECT_TRUE(take(1, "other")->allowed());
  const Result<Decision> never = take(6);
  EXPECT_EQ(never->verdict, Verdict::kNever);
  clock.advance(150ms);
  ASSERT_TRUE(has_served(1));
  EXPECT_THAT(so_far(), ElementsAre("first"));
}

TEST_F(SharedWaiting, RefusesWhoIsBehindAtItsDeadline) {
  start(twenty_a_second());
  ASSERT_TRUE(take(5)->allowed());
  wait_for("first", 5);
  wait_for("second", 1, 4s);  // real ones, and it must wait before they are over
  ASSERT_TRUE(has_served(1));
  EXPECT_THAT(so_far(), ElementsAre("second denied"));
  clock.advance(250ms);
  ASSERT_TRUE(has_served(2));
  EXPECT_THAT(so_far(), ElementsAre("second denied", "first"));
}

TEST_F(SharedWaiting, GoesOnWithTheNextWhenTheFirstGivesUp) {
  start(one_slot(4));
  const Result<Decision> running = server->acquire({});
  ASSERT_TRUE(running && running->allowed());
  ask("first", {}, 4s);  // real ones, and the others must wait before they are over
  ask("second", {}, 10h);
  ask("third", {}, 10h);
  ASSERT_TRUE(has_served(1));
  EXPECT_THAT(so_far(), ElementsAre("first denied"));
  ASSERT_TRUE(server->cancel(running->hold));
  ASSERT_TRUE(has_served(2));
  EXPECT_THAT(so_far(), ElementsAre("first denied", "second"));
}

TEST_F(SharedWaiting, HasAsManyPlacesAsTheQueue) {
  start(one_slot(2));
  const Result<Decision> running = server->acquire({});
  ASSERT_TRUE(running && running->allowed());
  ask("first", {}, 10h);
  ask("second", {}, 10h);
  const Result<Decision> third = server->acquire({}, {}, 10h);
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_EQ(third->verdict, Verdict::kOverloaded);
}

TEST_F(SharedWaiting, EndsAtOnceWhenTheKeyIsReset) {
  start(twenty_a_second());
  ASSERT_TRUE(take(5)->allowed());
  wait_for("first", 4);
  wait_for("second", 1);
  ASSERT_TRUE(server->reset("calls", {"acme"}));
  ASSERT_TRUE(has_served(2));
  EXPECT_THAT(so_far(), ElementsAre("first", "second"));
}

TEST_F(SharedWaiting, IsNotOvertakenOutOfALease) {
  RuleSetSpec rules = twenty_a_second();
  rules.limits[0].shared->lease = engine::LeaseSpec{.most = 5, .length = 10s};
  start(rules);
  const engine::Attribute who[] = {{"client", "acme"}};
  const engine::Cost one[] = {{"tokens", 1}};
  const engine::Request request{.attributes = who, .costs = one};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(take(1)->allowed());
  wait_for("first", 4);
  clock.advance(100ms);
  EXPECT_FALSE(server->engine().decide(request, clock.now())) << "Redis has to be asked";
  EXPECT_FALSE(take(1)->allowed());
  clock.advance(1s);
  ASSERT_TRUE(has_served(1));
  EXPECT_THAT(so_far(), ElementsAre("first"));
  EXPECT_TRUE(take(1)->allowed());
}

// --- taking as much as there is

TEST_F(SharedWaiting, IsNothingForWhoTakesWhatThereIs) {
  start(twenty_a_second());
  const engine::Attribute who[] = {{"client", "acme"}};
  const engine::Cost costs[] = {{"tokens", 7}};
  const engine::Request request{.attributes = who, .costs = costs};
  EXPECT_EQ(server->acquire(request, {.up_to = "tokens"}, 1s).error().code,
            ErrorCode::kBadArgument);
  EXPECT_EQ(server->acquire(request, {.up_to = "requests"}).error().code, ErrorCode::kBadArgument);
  const Result<Decision> part = server->acquire(request, {.up_to = "tokens"});
  ASSERT_TRUE(part && part->allowed());
  EXPECT_EQ(part->granted, 5);
  EXPECT_EQ(part->outcomes()[0].cost, 5);
  EXPECT_EQ(server->acquire(request, {.up_to = "tokens"})->granted, 0);
}

TEST(SharedGrants, OfManyThreadsAreTheLimitTogether) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = twenty_a_second();
  rules.limits[0].meter = engine::LogSpec{1000, 1h};
  SharedEngine one(redis.url(), rules, clock, patient());
  SharedEngine two(redis.url(), rules, clock, patient());
  std::atomic<std::int64_t> granted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, &server = i % 2 == 0 ? one : two] {
      const engine::Attribute who[] = {{"client", "acme"}};
      const engine::Cost costs[] = {{"tokens", 17}};
      for (;;) {
        const Result<Decision> part =
            server.acquire({.attributes = who, .costs = costs}, {.up_to = "tokens"});
        ASSERT_TRUE(part) << part.error().message;
        if (!part->allowed()) return;
        ASSERT_GE(part->granted, 1);
        granted += part->granted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(granted, 1000);
}

// A lease knows only what Redis had when it was last asked.
TEST(SharedGrants, CountWhatALeaseHolds) {
  RedisServer redis;
  testing::ManualClock clock(kStart);
  RuleSetSpec rules = twenty_a_second();
  rules.limits[0].meter = engine::BucketSpec{.amount = 1, .period = 1h, .burst = 100};
  rules.limits[0].shared->lease = engine::LeaseSpec{.most = 50, .length = 10s};
  SharedEngine server(redis.url(), rules, clock, patient());
  const engine::Attribute who[] = {{"client", "acme"}};
  const engine::Cost one[] = {{"tokens", 1}};
  const engine::Cost many[] = {{"tokens", 200}};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(server.acquire({.attributes = who, .costs = one})->allowed());
  }
  const Result<Decision> part =
      server.acquire({.attributes = who, .costs = many}, {.up_to = "tokens"});
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->granted, 90);
}

}  // namespace
}  // namespace weir::store::redis
