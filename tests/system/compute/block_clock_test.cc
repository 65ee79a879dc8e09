#include "weir/system/compute/block_clock.h"

#include <gtest/gtest.h>

#include "tests/system/compute/support.h"

namespace weir::system::compute {
namespace {

constexpr std::int64_t kLength = 100;

struct PushedBlocks : ::testing::Test {
  Fault push(Block block, Duration after, std::int64_t length = kLength) {
    return clock.push(block, kStart + after, length);
  }

  BlockClock clock{{.source = BlockSource::kPushed}};
};

TEST_F(PushedBlocks, AreMeasuredOverAWholeEpoch) {
  EXPECT_EQ(clock.epoch_time(kLength), 1200s) << "100 blocks of 12 s";
  push(1'000, 0s);
  push(1'050, 500s);
  push(1'099, 990s);
  EXPECT_EQ(clock.epoch_time(kLength), 1200s) << "no epoch was seen yet";
  push(1'100, 1000s);
  EXPECT_EQ(clock.epoch_time(kLength), 1000s);
  push(1'150, 1700s);
  EXPECT_EQ(clock.epoch_time(kLength), 1200s) << "from 1,050 to 1,150";
}

TEST_F(PushedBlocks, ThatCatchUpAreNotMeasured) {
  for (Block block = 1'000; block <= 1'200; ++block) push(block, 1ms * (block - 1'000));
  EXPECT_EQ(clock.epoch_time(kLength), 1200s);
  push(1'300, 200ms + 150s);
  EXPECT_EQ(clock.epoch_time(kLength), 150s) << "eight times as fast is still believed";
  push(1'400, 200ms + 150s + 150s - 1ns);
  EXPECT_EQ(clock.epoch_time(kLength), 1200s);
}

TEST_F(PushedBlocks, AreMeasuredOverLongEpochsToo) {
  constexpr std::int64_t kLong = 50'000;
  for (Block block = 1; block <= 120'000; ++block) push(block, 10s * block, kLong);
  const Duration measured = clock.epoch_time(kLong);
  EXPECT_EQ(measured, 500'000s) << "blocks come evenly, so it does not matter which are kept";
}

TEST_F(PushedBlocks, MayJumpOnceAndThenNotTooFar) {
  EXPECT_EQ(push(20'000'000'000, 0s), Fault::kNone) << "a chain is older than its ledger";
  EXPECT_EQ(push(20'000'000'000 + kPushAheadMax + 1, 1s), Fault::kBlockTooFar);
  EXPECT_EQ(push(kBlockMax, 1s), Fault::kBlockTooFar);
  EXPECT_EQ(push(20'000'000'000 + kPushAheadMax, 1s), Fault::kNone);
  EXPECT_EQ(push(1, 2s), Fault::kBlockWentBack);
}

TEST(BlocksByTime, CannotBePushed) {
  BlockClock clock({.source = BlockSource::kTime, .genesis = kStart});
  EXPECT_EQ(clock.push(5, kStart, kLength), Fault::kBlocksFollowTime);
  EXPECT_EQ(clock.block(kStart + 60s), 5);
}

}  // namespace
}  // namespace weir::system::compute
