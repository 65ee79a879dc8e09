// Clock: where an Instant comes from.
//
// A clock is read once, at the edge; below it, functions take `now`. The system
// clock is anchored to the machine's wall time, so that an instant still means
// something after a restart, and advances with the processor's cycle counter,
// so that reading it costs little more than reading that counter. It is
// disciplined to the wall clock at least every second it is in use, never by
// setting it back; clock_line.h has the arithmetic, docs/design/time.md the
// picture. The operating system's clocks are named in clock.cc and nowhere else, which
// tests/layering looks after.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "weir/base/clock_line.h"
#include "weir/base/export.h"
#include "weir/base/time.h"

namespace weir {

constexpr std::size_t kCacheLineBytes = 64;

class WEIR_EXPORT Clock {
 public:
  virtual ~Clock();

  // Never earlier than an instant this thread has had before.
  //
  // Thread safety: implementations allow any number of threads at once.
  virtual Instant now() noexcept = 0;
};

// How long things take: the machine's monotonic clock, for deadlines of what waits for sockets and
// processes. Its instants say nothing about the time of day, and nothing in another process.
//
// Thread safety: it may be read from any thread.
WEIR_EXPORT Clock& monotonic_clock() noexcept;

enum class CounterSource : std::uint8_t {
  kBest,    // the cycle counter where it can be trusted, else the system's monotonic clock
  kSystem,  // always the system's monotonic clock
};

// The machine's time.
//
// All threads read one and the same function of the counter, and that function
// never decreases. It stays within 1 ms of a wall clock that is not set. If the
// wall clock is set, this one follows by 50 ms in every second, in either
// direction, and counts a step; after seconds without any reader it catches up
// at once by 50 ms for each of them.
//
// Out-of-order execution may read the cycle counter about a microsecond before
// earlier loads of the same thread complete; to forbid it would cost as much as
// asking the operating system. An instant that another thread passes along can
// thus lie that much ahead of the next one read here, as it can anyway whenever
// a thread is interrupted between reading the clock and using the answer.
//
// The cycle counter is trusted on x86-64 if the processor calls it invariant
// and the kernel itself keeps time by it.
//
// Thread safety: every function may be called from any thread. Readers take no
// lock, except that the first ones after a second without any reader wait for
// one of them to discipline the clock.
class WEIR_EXPORT SystemClock final : public Clock {
 public:
  // Takes about 2 ms, to measure the cycle counter's rate.
  explicit SystemClock(CounterSource source = CounterSource::kBest);

  SystemClock(const SystemClock&) = delete;
  SystemClock& operator=(const SystemClock&) = delete;

  Instant now() noexcept override {
    if (!published_.cycles) return now_off_the_line();
    // A sequence lock without fences: each word is stored with release and
    // loaded with acquire, so a reader that sees a new word also sees that the
    // version has changed. A version being odd, hence different from its even part,
    // means that a discipline is being published.
    const std::uint32_t version = published_.version.load(std::memory_order_acquire) & ~1U;
    const ClockLine after = published_.after.load();
    const std::uint64_t due_counts = published_.due_counts.load(std::memory_order_acquire);
    const std::uint64_t count = cycle_counter();
    // Checked after the counter: a thread interrupted between the two must not
    // read an old line at a new count.
    const bool settled = published_.version.load(std::memory_order_acquire) == version;
    // Before the bend the difference wraps round and is large.
    const bool past_bend = count - after.counter < due_counts;
    return settled && past_bend ? Instant{after.at(count)} : now_off_the_line();
  }

  bool uses_cycle_counter() const noexcept { return published_.cycles; }

  // How often the wall clock was set by more than kStepMin, and by how much the
  // last time: positive if it was set forward.
  std::uint64_t steps() const noexcept { return steps_.load(std::memory_order_relaxed); }
  Duration last_step() const noexcept {
    return Duration{last_step_ns_.load(std::memory_order_relaxed)};
  }

  // How often the clock has been compared with the wall clock.
  std::uint64_t disciplines() const noexcept {
    return disciplines_.load(std::memory_order_relaxed);
  }

 private:
  struct PublishedLine {
    void store(const ClockLine& line) noexcept;
    ClockLine load() const noexcept {
      return ClockLine{counter.load(std::memory_order_acquire), ns.load(std::memory_order_acquire),
                       ns_per_count_2_32.load(std::memory_order_acquire)};
    }

    std::atomic<std::uint64_t> counter{0};
    std::atomic<std::int64_t> ns{0};
    std::atomic<std::int64_t> ns_per_count_2_32{0};
  };

  // All that a reader needs, in one cache line.
  struct alignas(kCacheLineBytes) Published {
    std::atomic<std::uint32_t> version{0};
    bool cycles = false;  // set by the constructor only
    std::atomic<std::uint64_t> due_counts{0};
    PublishedLine after;
    PublishedLine before;
  };
  static_assert(sizeof(Published) == kCacheLineBytes);

  // The lines that held while the counter stood at `count`.
  struct Reading {
    ClockLines lines;
    std::uint64_t count;
  };

  static std::uint64_t cycle_counter() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;  // never asked: nothing here is trusted as a cycle counter
#endif
  }

  Instant now_off_the_line() noexcept;
  std::uint64_t read_counter() const noexcept;
  Reading read() const noexcept;
  ClockSample take_sample() const noexcept;
  std::int64_t calibrate() const noexcept;
  void discipline_if_due() noexcept;
  bool publish_in_time(const ClockPlan& plan) noexcept;

  Published published_;
  std::atomic<std::uint64_t> until_{0};  // read with the published words, off the hot path
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::int64_t> last_step_ns_{0};
  std::atomic<std::uint64_t> disciplines_{0};
  std::mutex mutex_;  // held by the one thread that disciplines
  ClockPlan plan_;    // guarded by mutex_
};

}  // namespace weir
