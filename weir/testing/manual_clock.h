// Manual clock: moves only when told. For tests, the embedder's included.
//
//   ManualClock clock(Instant{1'800'000'000'000'000'000});
//   EXPECT_FALSE(engine.decide(request, clock.now())->allowed());
//   clock.advance(334ms);
//   EXPECT_TRUE(engine.decide(request, clock.now())->allowed());
//
// It may be set back, which a SystemClock never is. It does not check where it is
// set: an engine answers an error to instants outside [0, 2^62) ns.
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
  // Moves by `span` at once; back if that is negative.
  void advance(Duration span) noexcept { ns_.fetch_add(span.count(), std::memory_order_relaxed); }
  void set(Instant at) noexcept { ns_.store(at.ns, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> ns_;
};

}  // namespace weir::testing
