#include "weir/base/clock.h"

#include <time.h>

#include <fstream>
#include <string>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace weir {
namespace {

constexpr Duration kCalibrationSpan{2'000'000};
constexpr int kSampleTries = 5;
constexpr int kPublishTries = 8;

// The monotonic clock that goes on counting while the machine sleeps, so that
// waking up is an idle period and not a step of the wall clock.
#if defined(CLOCK_BOOTTIME)
constexpr clockid_t kMonotonicClock = CLOCK_BOOTTIME;
#else
constexpr clockid_t kMonotonicClock = CLOCK_MONOTONIC;
#endif

std::int64_t read_system(clockid_t clock) noexcept {
  timespec at{};
  ::clock_gettime(clock, &at);
  return std::int64_t{at.tv_sec} * 1'000'000'000 + at.tv_nsec;
}

// The processor promises a constant rate through all its power states.
bool has_invariant_counter() {
#if defined(__x86_64__)
  unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(0x80000007U, &eax, &ebx, &ecx, &edx) != 0 && (edx & (1U << 8)) != 0;
#else
  return false;
#endif
}

// The kernel has compared the counters of all processors, and watches them.
bool kernel_trusts_counter() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  std::string name;
  return file >> name && name == "tsc";
}

}  // namespace

Clock::~Clock() = default;

Clock& monotonic_clock() noexcept {
  // It stands still while the machine sleeps, as the timers of event loops do.
  class Monotonic final : public Clock {
    Instant now() noexcept override { return Instant{read_system(CLOCK_MONOTONIC)}; }
  };
  static Monotonic clock;
  return clock;
}

SystemClock::SystemClock(CounterSource source) {
  published_.cycles =
      source == CounterSource::kBest && has_invariant_counter() && kernel_trusts_counter();
  std::int64_t rate = published_.cycles ? calibrate() : kOneNsPerCount;
  if (rate == 0) {
    published_.cycles = false;
    rate = kOneNsPerCount;
  }
  plan_ = first_plan(take_sample(), rate);
  publish_in_time(plan_);
}

std::uint64_t SystemClock::read_counter() const noexcept {
  return published_.cycles ? cycle_counter()
                           : static_cast<std::uint64_t>(read_system(kMonotonicClock));
}

Instant SystemClock::now_off_the_line() noexcept {
  for (;;) {
    const Reading reading = read();
    switch (reading.lines.standing(reading.count)) {
      case Standing::kDue:
        // The second thread reads on: a new line does not bend before this count.
        if (mutex_.try_lock()) {
          discipline_if_due();
          mutex_.unlock();
        }
        [[fallthrough]];
      case Standing::kFresh:
        return Instant{reading.lines.at(reading.count)};
      case Standing::kStale: {
        const std::lock_guard lock(mutex_);
        discipline_if_due();
      }
    }
  }
}

SystemClock::Reading SystemClock::read() const noexcept {
  for (;;) {
    const std::uint32_t version = published_.version.load(std::memory_order_acquire) & ~1U;
    Reading reading{};
    reading.lines.before = published_.before.load();
    reading.lines.after = published_.after.load();
    reading.lines.due =
        reading.lines.after.counter + published_.due_counts.load(std::memory_order_acquire);
    reading.lines.until = until_.load(std::memory_order_acquire);
    reading.count = read_counter();
    if (published_.version.load(std::memory_order_acquire) == version) return reading;
    // The publisher needs nanoseconds, unless it has just lost its processor.
    std::this_thread::yield();
  }
}

// Of several tries the one least disturbed, with the counter's mean before and
// after the other two clocks were read.
ClockSample SystemClock::take_sample() const noexcept {
  ClockSample best;
  std::uint64_t best_width = ~std::uint64_t{0};
  for (int i = 0; i < kSampleTries; ++i) {
    ClockSample sample;
    const std::uint64_t begin = read_counter();
    sample.monotonic_ns = read_system(kMonotonicClock);
    sample.wall_ns = read_system(CLOCK_REALTIME);
    const std::uint64_t width = read_counter() - begin;
    sample.counter = begin + width / 2;
    if (width >= best_width) continue;
    best = sample;
    best_width = width;
  }
  return best;
}

std::int64_t SystemClock::calibrate() const noexcept {
  const ClockSample begin = take_sample();
  ClockSample end = begin;
  while (end.monotonic_ns - begin.monotonic_ns < kCalibrationSpan.count()) end = take_sample();
  return measured_rate(begin, end);
}

// Requires mutex_.
void SystemClock::discipline_if_due() noexcept {
  for (int i = 0; i < kPublishTries; ++i) {
    const ClockSample sample = take_sample();
    if (plan_.lines.standing(sample.counter) == Standing::kFresh) return;  // another was first
    const ClockPlan next = discipline(plan_, sample);
    if (!publish_in_time(next)) continue;

    plan_ = next;
    disciplines_.fetch_add(1, std::memory_order_relaxed);
    if (next.step != Duration{0}) {
      last_step_ns_.store(next.step.count(), std::memory_order_relaxed);
      steps_.fetch_add(1, std::memory_order_relaxed);
    }
    return;
  }
}

// Publishes a plan whose bend is still ahead of all readers; returns false, with
// nothing changed, if this thread was held up for too long since the sample.
//
// The check comes after the version has become odd: from then on no reader
// returns an instant, so this thread may be interrupted anywhere below. Half the
// lead is left for whatever the processors reorder. A plan that starts afresh
// has its bend at the sample, and no reader to overtake.
bool SystemClock::publish_in_time(const ClockPlan& plan) noexcept {
  const std::uint64_t lead = plan.lines.after.counter - plan.sample.counter;
  const std::uint32_t version = published_.version.load(std::memory_order_relaxed);
  published_.version.exchange(version + 1, std::memory_order_seq_cst);
  const bool in_time = lead == 0 || read_counter() - plan.sample.counter <= lead / 2;
  if (in_time) {
    published_.before.store(plan.lines.before);
    published_.after.store(plan.lines.after);
    published_.due_counts.store(plan.lines.due - plan.lines.after.counter,
                                std::memory_order_release);
    until_.store(plan.lines.until, std::memory_order_release);
  }
  published_.version.store(version + 2, std::memory_order_release);
  return in_time;
}

void SystemClock::PublishedLine::store(const ClockLine& line) noexcept {
  counter.store(line.counter, std::memory_order_release);
  ns.store(line.ns, std::memory_order_release);
  ns_per_count_2_32.store(line.ns_per_count_2_32, std::memory_order_release);
}

}  // namespace weir
