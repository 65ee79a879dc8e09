#include "weir/system/pool/wakeup.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

TEST(Wakeup, IsDueOnlyWhenTheNextInstantBecomesEarlier) {
  std::mutex mutex;
  Wakeup wakeup;
  std::unique_lock lock(mutex);
  wakeup.set(lock, [](Instant) {});
  ASSERT_NE(wakeup.begin(kStart + 5s), nullptr);
  wakeup.end();
  EXPECT_EQ(wakeup.begin(kStart + 5s), nullptr);
  EXPECT_EQ(wakeup.begin(kStart + 9s), nullptr);  // the hook comes too early, which is no harm
  ASSERT_NE(wakeup.begin(kStart + 7s), nullptr);  // earlier than what was known last
  wakeup.end();
}

TEST(Wakeup, WithoutAHookIsNeverDue) {
  Wakeup wakeup;
  EXPECT_EQ(wakeup.begin(kStart), nullptr);
}

TEST(Wakeup, TakesAnotherHookWhenNoCallOfTheFormerOneIsRunning) {
  std::mutex mutex;
  Wakeup wakeup;
  std::unique_lock lock(mutex);
  wakeup.set(lock, [](Instant) {});
  ASSERT_NE(wakeup.begin(kStart), nullptr);
  std::atomic<bool> is_set{false};
  std::atomic<bool> has_begun{false};
  std::thread setter([&] {
    std::unique_lock own(mutex);
    has_begun = true;
    wakeup.set(own, nullptr);
    is_set = true;
  });
  lock.unlock();
  while (!has_begun) std::this_thread::yield();
  lock.lock();  // the setter waits now
  EXPECT_FALSE(is_set);
  wakeup.end();
  lock.unlock();
  setter.join();
  EXPECT_TRUE(is_set);
}

}  // namespace
}  // namespace weir::system::pool
