#include "weir/base/timed_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/eventually.h"
#include "weir/testing/manual_clock.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

struct TimedWait : ::testing::Test {
  bool wait(Duration most) {
    std::unique_lock guard(lock);
    return wait_by(told, guard, clock, clock.now() + most, [this] { return is_met; });
  }
  void meet() {
    const std::scoped_lock guard(lock);
    is_met = true;
    told.notify_all();
  }

  testing::ManualClock clock{Instant{1'000}};
  std::mutex lock;
  std::condition_variable told;
  bool is_met = false;
};

TEST_F(TimedWait, LooksAtTheConditionFirst) {
  EXPECT_FALSE(wait(0s));
  is_met = true;
  EXPECT_TRUE(wait(0s));
  EXPECT_TRUE(wait(-1s));
}

TEST_F(TimedWait, EndsWhenTheConditionIsMet) {
  std::thread other([&] { meet(); });
  EXPECT_TRUE(wait(1h)) << "the clock stands still";
  other.join();
}

TEST_F(TimedWait, EndsWhenItsClockHasComeToTheDeadline) {
  std::atomic<bool> has_ended = false;
  std::thread other([&] {
    EXPECT_FALSE(wait(1h));
    has_ended = true;
  });
  EXPECT_TRUE(eventually([&] {
    clock.advance(1min);
    return has_ended.load();
  }));
  other.join();
}

}  // namespace
}  // namespace weir
