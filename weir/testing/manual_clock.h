// Manual clock: moves only when told. For tests, the embedder's included.
//
// Thread safety: safe from any thread.

#pragma once

#include <atomic>
#include <cstdint>

#include "weir/base/clock.h"

namespace weir::testing {

class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = Instant{0}) : ns_(start.ns) {}

  Instant now() noexcept override { return Instant{ns_.load(std::memory_order_relaxed)}; }
  void advance(Duration span) noexcept { ns_.fetch_add(span.count(), std::memory_order_relaxed); }
  void set(Instant at) noexcept { ns_.store(at.ns, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> ns_;
};

}  // namespace weir::testing
