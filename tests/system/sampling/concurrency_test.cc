#include <atomic>
#include <thread>

#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

TEST(SamplingConcurrency, GrantsTheAllowanceOnceHoweverManyAsk) {
  const auto sampling = sampling_of(spec_of({rotating("E", 1000, 3600, 0)}));  // 1200 an hour
  std::atomic<std::int64_t> total{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 1000; ++i) {
        const auto grant = sampling->grant(miner(), 1 + t, kStart + Duration{i});
        if (!grant) return;
        total += grant->granted;
        if (i % 3 != 0 || !grant->reservation) continue;
        if (const auto back = sampling->release(grant->reservation, kStart)) total -= back->units;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.load(), 1200);
}

}  // namespace
}  // namespace weir::system::sampling
