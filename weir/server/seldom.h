// Seldom: whether something that may happen often is told now.
//
//   if (const std::uint64_t times = seldom.count(clock.now())) say(times);
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <cstdint>

#include "weir/base/time.h"

namespace weir::server {

class Seldom {
 public:
  // Told at most once in `every`.
  explicit Seldom(Duration every) noexcept : every_(every) {}

  // It has happened once more. Returns how often since it was last told, or 0: it is not told now.
  std::uint64_t count(Instant now) noexcept {
    times_.fetch_add(1, std::memory_order_relaxed);
    std::int64_t next_ns = next_ns_.load(std::memory_order_relaxed);
    if (now.ns < next_ns || !next_ns_.compare_exchange_strong(next_ns, (now + every_).ns)) return 0;
    return times_.exchange(0, std::memory_order_relaxed);
  }

 private:
  const Duration every_;
  std::atomic<std::uint64_t> times_{0};
  std::atomic<std::int64_t> next_ns_{0};
};

}  // namespace weir::server
