#include "weir/engine/driver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "tests/engine/support.h"
#include "weir/base/clock.h"

namespace weir::engine {
namespace {

constexpr Duration kPatient = 10s;  // never waited for unless something is broken

RuleSetSpec one_slot(Duration hold = 1min) {
  return {.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9, .hold = hold}}}};
}

struct DriverTest : ::testing::Test {
  void use(const RuleSetSpec& spec) {
    engine = engine_of(spec);
    driver = *Driver::create(*engine, clock);
  }

  SystemClock clock;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Driver> driver;  // last: it ends before what it uses
};

TEST_F(DriverTest, AdmitsAtOnceWhereThereIsRoom) {
  use(one_slot());
  EXPECT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
}

TEST_F(DriverTest, BlocksUntilABucketHasRefilled) {
  use({.limits = {{.name = "rate", .meter = BucketSpec{1, 20ms}}}});
  const Instant start = clock.now();
  ASSERT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
  const auto second = driver->acquire(RequestOf(), kPatient);
  EXPECT_TRUE(second->allowed());
  EXPECT_GE(clock.now(), start + 20ms);
  EXPECT_GE(second->earliest, start + 20ms);
}

TEST_F(DriverTest, AnswersAtOnceWhenPatienceCannotBeEnough) {
  use({.limits = {{.name = "rate", .meter = BucketSpec{1, 1h}}}});
  ASSERT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
  const Instant start = clock.now();
  EXPECT_EQ(driver->acquire(RequestOf(), kPatient)->verdict, Verdict::kDenied);
  EXPECT_LT(clock.now(), start + kPatient);
}

TEST_F(DriverTest, GivesUpWhenPatienceRunsOut) {
  use(one_slot());
  ASSERT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
  const Instant start = clock.now();
  EXPECT_EQ(driver->acquire(RequestOf(), 20ms)->verdict, Verdict::kDenied);
  EXPECT_GE(clock.now(), start + 20ms);
  EXPECT_EQ(engine->usage().waiters, 0u);
}

TEST_F(DriverTest, WakesABlockedThreadWhenAnotherReleases) {
  use(one_slot());
  const auto held = driver->acquire(RequestOf(), kPatient);
  auto blocked =
      std::async(std::launch::async, [&] { return driver->acquire(RequestOf(), kPatient); });
  while (engine->usage().waiters == 0) std::this_thread::yield();
  ASSERT_EQ(*engine::settle(*engine, held->hold, {}, clock.now()), HoldState::kSettled);
  EXPECT_TRUE(blocked.get()->allowed());
}

TEST_F(DriverTest, WakesABlockedThreadWhenAHoldExpires) {
  use(one_slot(20ms));
  ASSERT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
  EXPECT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
}

TEST_F(DriverTest, CallsBack) {
  use(one_slot());
  const auto held = driver->acquire(RequestOf(), kPatient);
  std::promise<Verdict> answered;
  const std::uint64_t ticket =
      driver->acquire(RequestOf(), kPatient, {},
                      [&](const Result<Decision>& answer) { answered.set_value(answer->verdict); });
  ASSERT_NE(ticket, 0u);
  ASSERT_TRUE(engine::settle(*engine, held->hold, {}, clock.now()));
  EXPECT_EQ(answered.get_future().get(), Verdict::kAllowed);
}

// The waiter waits for a slot first, with no instant in sight, and then for the
// bucket: the driver must hear of the instant that came into sight.
TEST_F(DriverTest, IsOnTimeForAWaiterThatAReleaseBroughtNearer) {
  use({.limits = {{.name = "slots", .meter = SlotsSpec{.limit = 1, .queue = 9}},
                  {.name = "rate", .meter = BucketSpec{1, 50ms}}}});
  // An idle driver looks by itself once a second, so one that is not told is late every other
  // time. A busy machine may be, once.
  int late = 0;
  for (int round = 0; round < 8; ++round) {
    const auto held = driver->acquire(RequestOf(), kPatient);
    ASSERT_TRUE(held->allowed());
    const Instant refilled = held->earliest + 50ms;
    auto blocked =
        std::async(std::launch::async, [&] { return driver->acquire(RequestOf(), kPatient); });
    while (engine->usage().waiters == 0) std::this_thread::yield();
    ASSERT_TRUE(engine::settle(*engine, held->hold, {}, clock.now()));
    const auto admitted_late = blocked.get();
    ASSERT_TRUE(admitted_late->allowed());
    late += admitted_late->earliest < refilled + 500ms ? 0 : 1;
    ASSERT_TRUE(engine::settle(*engine, admitted_late->hold, {}, clock.now()));
  }
  EXPECT_LE(late, 1);
}

TEST_F(DriverTest, ServesManyBlockedThreads) {
  use({.limits = {{.name = "rate", .meter = BucketSpec{1, 2ms}}}});
  std::atomic<int> allowed{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back(
        [&] { allowed += driver->acquire(RequestOf(), kPatient)->allowed() ? 1 : 0; });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allowed, 8);
}

TEST_F(DriverTest, ReportsABadRequest) {
  use(one_slot());
  EXPECT_FALSE(driver->acquire(client("nobody knows"), kPatient));
}

TEST_F(DriverTest, MayGoAndBeReplaced) {
  use(one_slot(20ms));
  ASSERT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
  driver.reset();
  driver = *Driver::create(*engine, clock);
  EXPECT_TRUE(driver->acquire(RequestOf(), kPatient)->allowed());
}

}  // namespace
}  // namespace weir::engine
