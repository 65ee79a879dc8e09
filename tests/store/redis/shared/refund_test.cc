// What comes back to shared buckets and tickers when holds end: the same as in memory.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/store/redis/shared/support.h"
#include "tests/support/seed.h"
#include "weir/engine/engine.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

engine::RuleSetSpec one_limit(const engine::MeterSpec& meter, bool is_shared) {
  engine::LimitSpec limit{.name = "one", .meter = meter};
  if (is_shared) limit.shared = engine::SharedSpec{};
  return {.limits = {limit}};
}

// A fleet of two, and an engine that does the same alone.
class SharedRefund : public ::testing::Test {
 protected:
  void begin(const engine::MeterSpec& meter) {
    for (auto& server : fleet_) {
      server =
          std::make_unique<SharedEngine>(redis_.url(), one_limit(meter, true), clock_, patient());
    }
    alone_ = std::move(*engine::Engine::create(compiled(one_limit(meter, false))));
  }

  struct Held {
    HoldId fleet;
    HoldId alone;
  };
  // Takes units of both, with a hold or not. Nothing: refused.
  std::optional<Held> take(int server, std::int64_t units, Duration hold) {
    const engine::Cost cost[] = {{engine::kRequests, units}};
    const auto shared = fleet_[server]->acquire({.costs = cost}, {.hold = hold});
    const auto alone = engine::acquire(*alone_, {.costs = cost}, {.hold = hold}, clock_.now());
    EXPECT_TRUE(shared.ok() && alone.ok());
    EXPECT_EQ(shared->verdict, alone->verdict);
    if (!alone->allowed()) return std::nullopt;
    return Held{shared->hold, alone->hold};
  }
  void cancel(int server, const Held& held) {
    const auto shared = fleet_[server]->cancel(held.fleet);
    EXPECT_EQ(*shared, engine::cancel(*alone_, held.alone, clock_.now()));
  }
  void settle(int server, const Held& held, std::int64_t units) {
    const engine::Cost cost[] = {{engine::kRequests, units}};
    const auto shared = fleet_[server]->settle(held.fleet, cost);
    EXPECT_EQ(*shared, *engine::settle(*alone_, held.alone, cost, clock_.now()));
  }
  void expect_alike() {
    const auto shared = fleet_[0]->inspect("one");
    const auto alone = engine::inspect(*alone_, "one", {}, clock_.now());
    ASSERT_TRUE(shared.ok() && alone.ok());
    ASSERT_EQ(shared->remaining, alone->remaining);
  }
  std::int64_t left() { return fleet_[0]->inspect("one")->remaining; }

  void draw_and_compare(std::int64_t burst);

  testing::RedisServer redis_;
  testing::ManualClock clock_{kStart};
  std::unique_ptr<SharedEngine> fleet_[2];
  std::unique_ptr<engine::Engine> alone_;
};

TEST_F(SharedRefund, IsNothingOfWhatTheBucketHasRefilledSince) {
  begin(engine::BucketSpec{.amount = 2, .period = 1s, .burst = 4});
  std::vector<Held> holds;
  for (int i = 0; i < 6; ++i) {
    holds.push_back(*take(i % 2, 4, 1h));
    clock_.advance(2s);
  }
  for (const Held& hold : holds) cancel(0, hold);
  EXPECT_EQ(left(), 4);
  EXPECT_TRUE(take(0, 4, {}));
  EXPECT_FALSE(take(1, 1, {}));
}

TEST_F(SharedRefund, IsExactWhileTheBucketCannotHaveBeenFull) {
  begin(engine::BucketSpec{.amount = 2, .period = 1s, .burst = 4});
  take(0, 3, 1h);
  const Held hold = *take(1, 1, 1h);
  clock_.advance(1500ms);
  cancel(0, hold);
  EXPECT_EQ(left(), 4);
}

TEST_F(SharedRefund, IsNothingAfterAReset) {
  begin(engine::BucketSpec{.amount = 2, .period = 1s, .burst = 4});
  const Held hold = *take(0, 4, 1h);
  ASSERT_TRUE(fleet_[1]->reset("one").ok());
  const engine::Cost all[] = {{engine::kRequests, 4}};
  ASSERT_TRUE(fleet_[0]->acquire({.costs = all})->allowed());
  ASSERT_EQ(*fleet_[0]->cancel(hold.fleet), engine::HoldState::kCancelled);
  EXPECT_EQ(left(), 0);
}

void SharedRefund::draw_and_compare(std::int64_t burst) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE("reproduce with WEIR_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::vector<std::pair<Held, std::int64_t>> open;
  for (int i = 0; i < 500; ++i) {
    clock_.advance(below(4) == 0 ? 1ms * below(3000) : 1ms * below(300));
    alone_->advance(clock_.now());
    const int server = static_cast<int>(below(2));
    if (below(10) < 6) {
      const std::int64_t units = 1 + below(burst);
      const bool holds = below(3) > 0;
      const auto held = take(server, units, holds ? 20s : Duration{0});
      if (held && holds) open.emplace_back(*held, units);
    } else if (!open.empty()) {
      const auto at = open.begin() + below(static_cast<std::int64_t>(open.size()));
      const auto [held, units] = *at;
      open.erase(at);
      if (below(2) == 0) {
        cancel(server, held);
      } else {
        settle(server, held, below(2 * units + 1));
      }
    }
    ASSERT_NO_FATAL_FAILURE(expect_alike()) << "step " << i;
    ASSERT_FALSE(HasFailure()) << "step " << i;
  }
}

TEST_F(SharedRefund, ToABucketIsWhatItIsInMemory) {
  begin(engine::BucketSpec{.amount = 2, .period = 1s, .burst = 4});
  draw_and_compare(4);
}

TEST_F(SharedRefund, ToABucketWithFractionsIsWhatItIsInMemory) {
  begin(engine::BucketSpec{.amount = 7, .period = 3s, .burst = 20});
  draw_and_compare(20);
}

TEST_F(SharedRefund, ToATickerIsWhatItIsInMemory) {
  begin(engine::TickerSpec{2, 1s, 9});
  draw_and_compare(9);
}

}  // namespace
}  // namespace weir::store::redis
