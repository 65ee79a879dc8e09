#include "weir/base/alarm_thread.h"

#include <gmock/gmock.h>
#include <pthread.h>

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
  AlarmThread thread(clock, [&](Instant now) {
    ++calls;
    return now + 1ms;
  });
  ASSERT_TRUE(thread.start());
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
  ASSERT_TRUE(thread.start());
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
    ASSERT_TRUE(thread.start());
    EXPECT_TRUE(eventually([&] { return calls >= 1; }));
  }
  const int after = calls;
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(calls, after);
}

TEST(AlarmThread, SaysThatThereIsNoThreadToBeHad) {
  testing::ManualClock clock(Instant{1'000});
  AlarmThread thread(clock, [](Instant) { return kForever; });
  // A stack larger than all of memory stands for a system without threads to give.
  pthread_attr_t before;
  pthread_attr_t greedy;
  ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(::pthread_attr_init(&greedy), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&greedy, std::size_t{1} << 60), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&greedy), 0);
  const Status started = thread.start();
  ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
  ::pthread_attr_destroy(&greedy);
  ::pthread_attr_destroy(&before);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(started.error().message, ::testing::HasSubstr("allow the process more threads"));
}

}  // namespace
}  // namespace weir
