#include "weir/store/redis/shared/doubtful.h"

#include <gtest/gtest.h>

#include "tests/store/redis/shared/support.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

// What it does with a Redis that answers too late: limits_test.cc.
struct DoubtfulHoldsTest : ::testing::Test {
  Loop loop;
  testing::ManualClock clock{kStart};
  Fleet fleet{"weir", clock, nullptr};
  Epochs epochs;
  Outages outages{{}, clock, nullptr, nullptr};
  Connections connections{loop, {}, 1};
  SharedHolds holds{fleet, connections, epochs, outages};
  DoubtfulHolds doubtful{holds};
};

TEST_F(DoubtfulHoldsTest, AreAtMostAsManyAsTheirBound) {
  for (std::uint64_t i = 1; i <= kDoubtfulHoldsMax + 1; ++i) {
    doubtful.add({1, i}, nullptr, true, kStart, kStart + 10s);
  }
  EXPECT_EQ(doubtful.size(), kDoubtfulHoldsMax);
  doubtful.add({2, 1}, nullptr, true, kStart + 10s - 1ns, kStart + 20s);
  EXPECT_EQ(doubtful.size(), kDoubtfulHoldsMax) << "none of them has ended";
  doubtful.add({2, 2}, nullptr, true, kStart + 10s, kStart + 20s);
  EXPECT_EQ(doubtful.size(), 1u);
}

TEST_F(DoubtfulHoldsTest, AreForgottenOnceRedisSaysThatItMadeNone) {
  doubtful.add({1, 1}, nullptr, true, kStart, kStart + 10s);
  doubtful.add({1, 2}, nullptr, true, kStart, kStart + 10s);
  doubtful.heard({1, 1, true}, false, kStart);
  EXPECT_EQ(doubtful.size(), 1u);
  doubtful.heard({1, 1, true}, false, kStart);
  doubtful.ended({1, 1}, engine::HoldState::kSettled, {}, kStart);
  EXPECT_EQ(doubtful.size(), 1u);
}

}  // namespace
}  // namespace weir::store::redis
