#include "weir/base/alarm_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/eventually.h"
#include "weir/testing/manual_clock.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

TEST(AlarmThread, CallsAtOnceAndAtTheInstantsThatAreNamed) {
  SystemClock clock;
  std::atomic<int> calls{0};
  const AlarmThread thread(clock, [&](Instant now) {
    ++calls;
    return now + 1ms;
  });
  EXPECT_TRUE(eventually([&] { return calls > 20; }));
}

TEST(AlarmThread, CallsEarlierWhenItIsWoken) {
  testing::ManualClock clock(Instant{1'000});
  std::atomic<int> calls{0};
  std::atomic<int> wakes{0};
  AlarmThread thread(clock, [&](Instant) {
    ++calls;
    return kForever;
  });
  // Far more often than once a second.
  const auto begin = std::chrono::steady_clock::now();
  while (wakes < 200) {
    const int before = calls;
    thread.wake();
    ++wakes;
    ASSERT_TRUE(eventually([&] { return calls > before; }));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 100s);
}

TEST(AlarmThread, EndsWhileItWaits) {
  testing::ManualClock clock(Instant{1'000});
  std::atomic<int> calls{0};
  {
    AlarmThread thread(clock, [&](Instant) {
      ++calls;
      return kForever;
    });
    EXPECT_TRUE(eventually([&] { return calls == 1; }));
  }
  const int after = calls;
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(calls, after);
}

}  // namespace
}  // namespace weir
