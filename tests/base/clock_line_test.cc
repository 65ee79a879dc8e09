// The simulated machine has a true time, a counter that ticks at a rate of its
// own, a monotonic clock that tells the true time, and a wall clock that a test
// may set. Each advance reads the clock as a busy server would.

#include "weir/base/clock_line.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kHalfNsPerCount = kOneNsPerCount / 2;  // 2 GHz
constexpr std::int64_t kEpochNs = 1'700'000'000'000'000'000;
constexpr ClockSample kFirst{0, 5'000'000'000, kEpochNs};

class Machine {
 public:
  explicit Machine(std::int64_t counts_per_second = 2'000'000'000)
      : counts_per_second_(counts_per_second) {}

  void set_counts_per_second(std::int64_t value) { counts_per_second_ = value; }
  void set_wall(Duration by) { wall_ahead_ += by; }
  void restart_counter() { counter_nano_ = 0; }

  // Lets time pass with nobody reading the clock.
  void idle(Duration span) {
    elapsed_ += span;
    counter_nano_ += Wide{span.count()} * counts_per_second_;
  }

  // Lets time pass while the clock is read and disciplined once a millisecond.
  void run(Duration span) {
    for (Duration passed{0}; passed < span; passed += 1ms) {
      idle(1ms);
      read();
    }
  }

  void read() {
    if (plan_.lines.standing(sample().counter) != Standing::kFresh) {
      plan_ = discipline(plan_, sample());
      if (plan_.step != Duration{0}) ++steps_;
    }
    const Instant now{plan_.lines.at(sample().counter)};
    if (now < last_) fell_ = true;
    last_ = now;
    worst_error_ = std::max(worst_error_, std::chrono::abs(error()));
  }

  ClockSample sample() const {
    return ClockSample{static_cast<std::uint64_t>(counter_nano_ / 1'000'000'000),
                       kFirst.monotonic_ns + elapsed_.count(),
                       kFirst.wall_ns + (elapsed_ + wall_ahead_).count()};
  }

  const ClockPlan& plan() const { return plan_; }
  Instant now() const { return last_; }
  Duration error() const { return last_ - Instant{sample().wall_ns}; }
  Duration worst_error() const { return worst_error_; }
  bool fell() const { return fell_; }
  int steps() const { return steps_; }

 private:
  std::int64_t counts_per_second_;
  Duration elapsed_{0};
  Duration wall_ahead_{0};
  Wide counter_nano_ = 0;
  ClockPlan plan_ = first_plan(kFirst, kHalfNsPerCount);
  Instant last_{kFirst.wall_ns};
  Duration worst_error_{0};
  bool fell_ = false;
  int steps_ = 0;
};

TEST(ClockLine, RoundsDownToWholeNanoseconds) {
  constexpr ClockLine line{100, kEpochNs, kHalfNsPerCount};
  static_assert(line.at(100) == kEpochNs);
  static_assert(line.at(101) == kEpochNs);
  static_assert(line.at(102) == kEpochNs + 1);
  EXPECT_EQ(line.at(99), kEpochNs - 1);
}

TEST(ClockLine, NeverFallsFromOneCountToTheNext) {
  const ClockLine line{1'000'000, kEpochNs, 1'654'321'987};
  for (std::uint64_t count = 990'000; count < 1'010'000; ++count) {
    ASSERT_LE(line.at(count), line.at(count + 1)) << count;
  }
}

TEST(ClockLines, AreDueAndThenStale) {
  const ClockLines lines = first_plan(kFirst, kHalfNsPerCount).lines;
  EXPECT_EQ(lines.standing(1'499'999'999), Standing::kFresh);
  EXPECT_EQ(lines.standing(1'500'000'000), Standing::kDue);
  EXPECT_EQ(lines.standing(1'999'999'999), Standing::kDue);
  EXPECT_EQ(lines.standing(2'000'000'000), Standing::kStale);
}

TEST(ClockLines, ReadAsTheirFirstInstantShortlyBeforeTheyBegin) {
  const ClockSample first{1'000'000, 0, kEpochNs};
  const ClockLines lines = first_plan(first, kHalfNsPerCount).lines;
  EXPECT_EQ(lines.standing(1'000'000 - kCounterSkewMax), Standing::kFresh);
  EXPECT_EQ(lines.at(1'000'000 - kCounterSkewMax), kEpochNs);
  EXPECT_EQ(lines.standing(1'000'000 - kCounterSkewMax - 1), Standing::kStale);
}

TEST(MeasuredRate, IsNotBelievedOutsideItsBounds) {
  const ClockSample from{1'000, 1'000, 0};
  EXPECT_EQ(measured_rate(from, ClockSample{17'000, 2'000, 0}), kRateMin);
  EXPECT_EQ(measured_rate(from, ClockSample{17'001, 2'000, 0}), 0);
  EXPECT_EQ(measured_rate(from, ClockSample{1'001, 2'000, 0}), kRateMax);
  EXPECT_EQ(measured_rate(from, ClockSample{1'001, 2'001, 0}), 0);
  EXPECT_EQ(measured_rate(from, from), 0);
  EXPECT_EQ(measured_rate(from, ClockSample{999, 2'000, 0}), 0);
}

TEST(LearnedRate, MovesByAThousandthAtMost) {
  EXPECT_EQ(learned_rate(1'000'000, 1'001'000), 1'001'000);
  EXPECT_EQ(learned_rate(1'000'000, 1'001'001), 1'001'000);
  EXPECT_EQ(learned_rate(1'000'000, 500'000), 999'000);
  EXPECT_EQ(learned_rate(1'000'000, 0), 1'000'000);
}

TEST(SlewingRate, IsBoundedByATwentiethEitherWay) {
  EXPECT_EQ(slewing_rate(1'000'000, 1s, 10ms), 1'010'000);
  EXPECT_EQ(slewing_rate(1'000'000, 1s, 50ms), 1'050'000);
  EXPECT_EQ(slewing_rate(1'000'000, 1s, 51ms), 1'050'000);
  EXPECT_EQ(slewing_rate(1'000'000, 1s, -3600s), 950'000);
}

// docs/design/time.md works this example.
TEST(Discipline, MatchesTheWorkedExample) {
  const ClockPlan plan = first_plan(kFirst, kHalfNsPerCount);
  const ClockSample sample{1'500'000'000, kFirst.monotonic_ns + 750'150'030,
                           kEpochNs + 750'150'030};
  const ClockPlan next = discipline(plan, sample);

  EXPECT_EQ(plan.lines.at(sample.counter), kEpochNs + 750'000'000);
  EXPECT_EQ(next.lines.after.counter, sample.counter + 1'999'600);
  EXPECT_EQ(next.lines.after.ns, kEpochNs + 750'999'800);
  EXPECT_EQ(next.lines.due, sample.counter + 1'499'700'000);
  EXPECT_NEAR(static_cast<double>(next.rate) / kOneNsPerCount, 0.50010002, 1e-9);
  EXPECT_NEAR(static_cast<double>(next.lines.after.ns_per_count_2_32) / kOneNsPerCount, 0.50020033,
              1e-8);
  EXPECT_NEAR(static_cast<double>(next.lines.at(next.lines.due) - sample.wall_ns), 750e6, 2);
}

TEST(Discipline, LeavesReadersBeforeTheBendWhereTheyWere) {
  const ClockPlan plan = first_plan(kFirst, kHalfNsPerCount);
  const ClockSample sample{1'600'000'000, kFirst.monotonic_ns + 800'000'000, kEpochNs};
  const ClockPlan next = discipline(plan, sample);

  ASSERT_EQ(next.lines.after.counter, sample.counter + 2'000'000);
  for (std::uint64_t count = sample.counter; count < next.lines.after.counter; count += 97) {
    ASSERT_EQ(next.lines.at(count), plan.lines.at(count)) << count;
  }
  EXPECT_EQ(next.lines.at(next.lines.after.counter), plan.lines.at(next.lines.after.counter));
}

TEST(Discipline, LearnsACounterThatIsSlowOrFast) {
  for (const int ppm : {-200, 200}) {
    Machine machine(2'000'000'000 + ppm * 2'000);
    machine.run(2s);
    EXPECT_LT(machine.worst_error(), 1ms) << ppm;
    machine.run(60s);
    EXPECT_LT(std::chrono::abs(machine.error()), 10ns) << ppm;
    EXPECT_FALSE(machine.fell()) << ppm;
    EXPECT_EQ(machine.steps(), 0) << ppm;
  }
}

TEST(Discipline, StaysWithinAMillisecondOfAWallClockWhileTheCounterWanders) {
  Machine machine;
  for (int second = 0; second < 60; ++second) {
    machine.set_counts_per_second(second % 2 == 0 ? 2'000'400'000 : 1'999'600'000);
    machine.run(1s);
  }
  EXPECT_LT(machine.worst_error(), 1ms);
  EXPECT_FALSE(machine.fell());
  EXPECT_EQ(machine.steps(), 0);
}

TEST(Discipline, ReportsAStepBeyondAMillisecondOnly) {
  const ClockPlan plan = first_plan(kFirst, kHalfNsPerCount);
  ClockSample sample{1'500'000'000, kFirst.monotonic_ns + 750'000'000, 0};
  const std::int64_t expected_ns = kEpochNs + 750'000'000;

  sample.wall_ns = expected_ns + kStepMin.count();
  EXPECT_EQ(discipline(plan, sample).step, Duration{0});
  sample.wall_ns = expected_ns + kStepMin.count() + 1;
  EXPECT_EQ(discipline(plan, sample).step, kStepMin + 1ns);
  sample.wall_ns = expected_ns - kStepMin.count();
  EXPECT_EQ(discipline(plan, sample).step, Duration{0});
  sample.wall_ns = expected_ns - 3600'000'000'000;
  EXPECT_EQ(discipline(plan, sample).step, -3600s);
}

TEST(Discipline, FollowsAForwardStepByFiftyMillisecondsInASecond) {
  Machine machine;
  machine.run(3s);
  machine.set_wall(2s);
  const Instant begin = machine.now();
  machine.run(10s);

  EXPECT_LE(machine.now() - begin, 10s * 1.05);
  EXPECT_GE(machine.now() - begin, 9s * 1.05 + 1s);  // the step is noticed within a second
  EXPECT_FALSE(machine.fell());
}

TEST(Discipline, FollowsABackwardStepWithoutRunningBackwards) {
  Machine machine;
  machine.run(3s);
  machine.set_wall(-2s);
  const Instant begin = machine.now();
  machine.run(10s);

  EXPECT_GE(machine.now() - begin, 10s * 0.95 - 1us);
  EXPECT_LE(machine.now() - begin, 9s * 0.95 + 1s);
  EXPECT_FALSE(machine.fell());
}

TEST(Discipline, CatchesUpWithAStepAndCountsItOnce) {
  for (const Duration step : {Duration{2s}, Duration{-2s}}) {
    Machine machine(2'000'000'000 - 200'000);
    machine.run(3s);
    machine.set_wall(step);
    machine.run(42s);
    EXPECT_LT(std::chrono::abs(machine.error()), 1ms) << step.count();
    EXPECT_EQ(machine.steps(), 1) << step.count();
    EXPECT_FALSE(machine.fell()) << step.count();
  }
}

TEST(Discipline, TakesUpTheWallClockAtOnceAfterALongIdlePeriod) {
  Machine machine(2'000'400'000);
  machine.run(3s);
  machine.idle(std::chrono::hours{8});
  machine.read();
  EXPECT_EQ(machine.error(), 0ns);
  EXPECT_EQ(machine.steps(), 0);
}

TEST(Discipline, JumpsAfterIdlingNoFurtherThanItCouldHaveSlewed) {
  for (const int direction : {-1, 1}) {
    Machine machine;
    machine.run(1500ms);  // the second discipline is just done; it held for one second more
    machine.set_wall(10s * direction);
    machine.idle(101s);
    machine.read();
    EXPECT_EQ(machine.error(), -5s * direction) << direction;
    EXPECT_EQ(machine.steps(), 1) << direction;
    EXPECT_FALSE(machine.fell()) << direction;
  }
}

TEST(Discipline, NeverResumesBeforeAnInstantItHasTold) {
  Machine machine;
  machine.run(3s);
  machine.set_wall(1s);
  machine.run(900ms);  // now slewing forward
  machine.set_wall(-1h);
  machine.idle(1001ms);
  machine.read();
  machine.run(10s);
  EXPECT_FALSE(machine.fell());
}

TEST(Discipline, SurvivesACounterThatRestarts) {
  Machine machine;
  machine.run(3s);
  machine.idle(10s);
  machine.restart_counter();
  machine.read();
  EXPECT_EQ(machine.error(), 0ns);
  machine.run(3s);
  EXPECT_LT(machine.worst_error(), 1ms);
  EXPECT_FALSE(machine.fell());
}

}  // namespace
}  // namespace weir
