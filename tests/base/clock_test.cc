#include "weir/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr int kThreads = 4;
constexpr Duration kTrial = 1100ms;  // longer than one discipline, and than a clock may idle

Instant wall_now() {
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  return Instant{std::chrono::duration_cast<Duration>(since_epoch).count()};
}

// Without it a processor may read its counter before an earlier load completes,
// and a thread would seem to read the past; see clock.h.
void complete_earlier_loads() {
#if defined(__x86_64__)
  __builtin_ia32_lfence();
#endif
}

// One clock, read by many threads that tell each other the latest instant seen.
class Witness {
 public:
  explicit Witness(SystemClock& clock) : clock_(clock) {}

  void read() {
    std::int64_t latest_ns = latest_ns_.load(std::memory_order_acquire);
    complete_earlier_loads();
    const Instant now = clock_.now();
    if (now.ns < latest_ns) ++fell_;
    while (latest_ns < now.ns && !latest_ns_.compare_exchange_weak(latest_ns, now.ns)) {
    }
  }

  void compare_with_wall_clock() {
    const Instant earliest = wall_now() - 1ms;
    const Instant now = clock_.now();
    const Instant latest = wall_now() + 1ms;
    if (now < earliest || now > latest) ++astray_;
  }

  SystemClock& clock() { return clock_; }
  int fell() const { return fell_; }
  int astray() const { return astray_; }

 private:
  SystemClock& clock_;
  std::atomic<std::int64_t> latest_ns_{0};
  std::atomic<int> fell_{0};
  std::atomic<int> astray_{0};
};

void read_often(Witness& one, Witness& other) {
  for (int i = 0; i < 20; ++i) {
    one.read();
    other.read();
  }
  one.compare_with_wall_clock();
  other.compare_with_wall_clock();
}

class SystemClockFrom : public ::testing::TestWithParam<CounterSource> {};

INSTANTIATE_TEST_SUITE_P(EverySource, SystemClockFrom,
                         ::testing::Values(CounterSource::kBest, CounterSource::kSystem));

TEST_P(SystemClockFrom, StartsAtTheWallClock) {
  SystemClock clock(GetParam());
  const Instant earliest = wall_now() - 1ms;
  const Instant now = clock.now();
  EXPECT_GE(now, earliest);
  EXPECT_LE(now, wall_now() + 1ms);
}

TEST_P(SystemClockFrom, NeverRunsBackwardsWithinAThread) {
  SystemClock clock(GetParam());
  Instant last{0};
  for (int i = 0; i < 500'000; ++i) {
    const Instant now = clock.now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST_P(SystemClockFrom, AdvancesAsFastAsTheSystemDoes) {
  SystemClock clock(GetParam());
  const auto steady_begin = std::chrono::steady_clock::now();
  const Instant begin = clock.now();
  const auto spin_begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - spin_begin < 10ms) {
  }
  const Duration passed = clock.now() - begin;
  const Duration steady_passed = std::chrono::steady_clock::now() - steady_begin;
  EXPECT_GE(passed, 9'900us);
  EXPECT_LE(passed, steady_passed + steady_passed / 100);
}

TEST_P(SystemClockFrom, HasSeenNoStepAtFirst) {
  const SystemClock clock(GetParam());
  EXPECT_EQ(clock.steps(), 0U);
  EXPECT_EQ(clock.last_step(), 0ns);
  EXPECT_EQ(clock.disciplines(), 0U);
}

TEST(SystemClock, LeavesTheCycleCounterAloneWhenTold) {
  EXPECT_FALSE(SystemClock(CounterSource::kSystem).uses_cycle_counter());
}

TEST(MonotonicClock, AdvancesAndNeverRunsBackwards) {
  const Instant begin = monotonic_clock().now();
  Instant last = begin;
  while (last - begin < 1ms) {
    const Instant now = monotonic_clock().now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(SystemClock, IsReadThroughTheInterface) {
  SystemClock clock;
  Clock& any = clock;
  const Instant first = any.now();
  EXPECT_GE(clock.now(), first);
}

// The one test that takes its time: two clocks in use, of either source, and two
// that nobody reads until all threads do at once.
TEST(SystemClock, KeepsToTheWallClockAndNeverRunsBackwardsAcrossThreads) {
  SystemClock best, idle_best;
  SystemClock system(CounterSource::kSystem), idle_system(CounterSource::kSystem);
  Witness in_use(best), in_use_system(system), idle(idle_best), also_idle(idle_system);

  const auto end = std::chrono::steady_clock::now() + kTrial;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (std::chrono::steady_clock::now() < end) read_often(in_use, in_use_system);
      read_often(idle, also_idle);
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (Witness* witness : {&in_use, &in_use_system, &idle, &also_idle}) {
    EXPECT_EQ(witness->fell(), 0);
    EXPECT_EQ(witness->astray(), 0);
    EXPECT_GE(witness->clock().disciplines(), 1U);
    EXPECT_EQ(witness->clock().steps(), 0U);
  }
}

}  // namespace
}  // namespace weir
