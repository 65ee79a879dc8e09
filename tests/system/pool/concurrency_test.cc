// Many threads on two instances that share their limits.

#include <gmock/gmock.h>

#include <atomic>
#include <thread>

#include "tests/system/pool/support.h"
#include "weir/system/pool/driver.h"

namespace weir::system::pool {
namespace {

TEST(PoolsConcurrency, KeepsTheNumberInFlight) {
  constexpr int kPlaces = 4;
  constexpr int kThreads = 4;
  constexpr int kRounds = 200;
  SystemClock clock;
  const auto fleet = std::make_shared<LocalFleet>();
  PoolsSettings settings = places_of(kPlaces);
  settings.types = {type_of("a", 100, 0.5), type_of("b", 100, 0.5)};
  for (JobType& type : settings.types) type.max_wait = {{"m", 1h}};
  std::vector<std::unique_ptr<Pools>> pools;
  for (int i = 0; i < 2; ++i) {
    auto made = Pools::create(settings, std::make_unique<LocalCoordinator>(fleet));
    ASSERT_TRUE(made);
    pools.push_back(*std::move(made));
    pools.back()->start(clock.now(), [](Instant, const Status&) {});
  }
  std::atomic<int> in_flight = 0;
  std::atomic<int> most = 0;
  {
    const std::unique_ptr<Driver> first = *Driver::create(*pools[0], clock);
    const std::unique_ptr<Driver> second = *Driver::create(*pools[1], clock);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Driver& driver = i % 2 == 0 ? *first : *second;
        for (int round = 0; round < kRounds; ++round) {
          Result<RunningJob> job = driver.acquire(round % 3 == 0 ? "a" : "b");
          ASSERT_TRUE(job) << job.error().message;
          const int now = in_flight.fetch_add(1) + 1;
          int seen = most.load();
          while (seen < now && !most.compare_exchange_weak(seen, now)) {
          }
          in_flight.fetch_sub(1);
          if (round % 5 == 0) continue;  // dropped
          ASSERT_TRUE(job->finish({.requests = 1, .input_tokens = 50}));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_LE(most.load(), kPlaces);
  for (const auto& instance : pools) {
    EXPECT_EQ(instance->reading(clock.now()).jobs, 0u);
    EXPECT_EQ(instance->reading(clock.now()).models[0].in_flight, 0);
  }
}

}  // namespace
}  // namespace weir::system::pool
