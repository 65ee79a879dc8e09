#include "weir/system/pool/driver.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/system/pool/support.h"

namespace weir::system::pool {
namespace {

std::unique_ptr<Pools> started(PoolsSettings settings, Clock& clock) {
  auto pools = Pools::create(std::move(settings),
                             std::make_unique<LocalCoordinator>(std::make_shared<LocalFleet>()));
  EXPECT_TRUE(pools);
  (*pools)->start(clock.now(), [](Instant, const Status&) {});
  return *std::move(pools);
}

TEST(PoolDriver, HandsOutJobsAndTakesBackWhatIsDropped) {
  SystemClock clock;
  const std::unique_ptr<Pools> pools = started(places_of(1), clock);
  const std::unique_ptr<Driver> driver = *Driver::create(*pools, clock);
  {
    const Result<RunningJob> job = driver->acquire("a");
    ASSERT_TRUE(job) << job.error().message;
    EXPECT_EQ(job->model(), "m");
    EXPECT_FALSE(driver->acquire("a", Duration{0}));
  }
  Result<RunningJob> job = driver->acquire("a", Duration{0});
  ASSERT_TRUE(job) << job.error().message;
  EXPECT_FALSE(job->finish({.requests = -1})) << "and the job runs on";
  EXPECT_TRUE(job->finish({.requests = 1}));
  EXPECT_EQ(pools->reading(clock.now()).jobs, 0u);
}

TEST(PoolDriver, WaitsForAnotherThreadsEnd) {
  SystemClock clock;
  PoolsSettings settings = places_of(1);
  settings.types[0].max_wait = {{"m", 1h}};
  const std::unique_ptr<Pools> pools = started(settings, clock);
  const std::unique_ptr<Driver> driver = *Driver::create(*pools, clock);
  Result<RunningJob> first = driver->acquire("a");
  ASSERT_TRUE(first);
  std::thread other([&] {
    Result<RunningJob> second = driver->acquire("a");
    ASSERT_TRUE(second);
    EXPECT_TRUE(second->finish({.requests = 1}));
  });
  while (pools->reading(clock.now()).waiting == 0) std::this_thread::yield();
  EXPECT_TRUE(first->finish({.requests = 1}));
  other.join();
}

TEST(PoolDriver, CallsWhenPatienceEnds) {
  SystemClock clock;
  const std::unique_ptr<Pools> pools = started(places_of(1), clock);
  const std::unique_ptr<Driver> driver = *Driver::create(*pools, clock);
  const Result<RunningJob> first = driver->acquire("a");
  ASSERT_TRUE(first);
  const Result<RunningJob> second = driver->acquire("a", 20ms);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kExhausted);
}

TEST(PoolDriver, DelegatesAHandle) {
  SystemClock clock;
  PoolsSettings settings = places_of(1);
  settings.models.push_back({.name = "n", .limits = {.concurrent = 1}});
  settings.escalation = {"m", "n"};
  const std::unique_ptr<Pools> pools = started(settings, clock);
  const std::unique_ptr<Driver> driver = *Driver::create(*pools, clock);
  Result<RunningJob> job = driver->acquire("a");
  ASSERT_TRUE(job);
  ASSERT_TRUE(job->delegate({.requests = 1}));
  EXPECT_EQ(job->model(), "n");
  EXPECT_TRUE(job->finish({.requests = 1}));
}

}  // namespace
}  // namespace weir::system::pool
