#include "weir/engine/log_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

namespace weir::engine {
namespace {

constexpr std::size_t kPlenty = 1'000'000;

TEST(LogBlocks, HaveNoRingBehindHandleZero) {
  LogBlocks blocks(kPlenty);
  EXPECT_TRUE(blocks.ring(0).empty());
}

TEST(LogBlocks, MakeRoomForAnyNumberOfRuns) {
  for (std::uint32_t runs = 1; runs <= meter::kRunsMax; ++runs) {
    LogBlocks blocks(kPlenty);
    meter::LogState state;
    ASSERT_TRUE(blocks.reserve(state, runs));
    ASSERT_GE(blocks.ring(state.block).size(), runs);
  }
}

TEST(LogBlocks, KeepARingThatIsLargeEnough) {
  LogBlocks blocks(kPlenty);
  meter::LogState state;
  ASSERT_TRUE(blocks.reserve(state, 3));
  const meter::LogState before = state;
  ASSERT_TRUE(blocks.reserve(state, 2));
  EXPECT_EQ(state, before);
}

TEST(LogBlocks, MoveTheRunsToALargerRingInTheirOrder) {
  LogBlocks blocks(kPlenty);
  meter::LogState state;
  ASSERT_TRUE(blocks.reserve(state, 4));
  const meter::LogRing ring = blocks.ring(state.block);
  // The oldest of three runs stands at the end of the ring.
  state.head = 3;
  state.size = 3;
  ring[3] = {Instant{10}, 1};
  ring[0] = {Instant{20}, 2};
  ring[1] = {Instant{30}, 3};
  ASSERT_TRUE(blocks.reserve(state, 5));
  ASSERT_EQ(state.size, 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const meter::LogRing larger = blocks.ring(state.block);
    const meter::LogRun& run = larger[(state.head + i) % larger.size()];
    EXPECT_EQ(run.at.ns, 10 * (i + 1));
    EXPECT_EQ(run.units, i + 1);
  }
}

TEST(LogBlocks, UseAFreedBlockAgain) {
  LogBlocks blocks(kPlenty);
  meter::LogState first;
  ASSERT_TRUE(blocks.reserve(first, 4));
  blocks.release(first.block);
  meter::LogState second;
  ASSERT_TRUE(blocks.reserve(second, 4));
  EXPECT_EQ(second.block, first.block);
}

TEST(LogBlocks, IgnoreTheReleaseOfNothing) {
  LogBlocks blocks(kPlenty);
  blocks.release(0);
  meter::LogState state;
  EXPECT_TRUE(blocks.reserve(state, 1));
}

TEST(LogBlocks, LeaveTheStateUntouchedWhenTheirBoundIsReached) {
  LogBlocks blocks(0);
  meter::LogState state;
  EXPECT_FALSE(blocks.reserve(state, 1));
  EXPECT_EQ(state, meter::LogState{});
}

TEST(LogBlocks, StayWithinTheirBound) {
  constexpr std::size_t kBound = 4096;
  LogBlocks blocks(kBound);
  std::size_t runs = 0;
  for (std::size_t i = 0; i < kBound; ++i) {
    meter::LogState state;
    if (!blocks.reserve(state, 4)) break;
    runs += blocks.ring(state.block).size();
  }
  EXPECT_LE(runs, kBound);
  EXPECT_GE(runs, kBound / 2);
}

TEST(LogBlocks, HaveRoomAgainOnceOneIsReleased) {
  LogBlocks blocks(4096);
  std::vector<meter::LogState> all;
  for (meter::LogState state; blocks.reserve(state, 4); state = {}) all.push_back(state);
  ASSERT_FALSE(all.empty());
  blocks.release(all.back().block);
  meter::LogState state;
  EXPECT_TRUE(blocks.reserve(state, 4));
}

// As many runs in rings for `each` as there is room for.
std::vector<meter::LogState> fill(LogBlocks& blocks, std::uint32_t each) {
  std::vector<meter::LogState> all;
  for (meter::LogState state; blocks.reserve(state, each); state = {}) all.push_back(state);
  return all;
}

TEST(LogBlocks, OfAnySizeBecomeRoomForAnyOtherSize) {
  constexpr std::size_t kBound = 16'384;
  for (std::uint32_t before = 4; before <= meter::kRunsMax; before *= 2) {
    for (std::uint32_t after = 4; after <= meter::kRunsMax; after *= 2) {
      LogBlocks blocks(kBound);
      std::vector<meter::LogState> all = fill(blocks, before);
      ASSERT_EQ(all.size(), kBound / before);
      std::shuffle(all.begin(), all.end(), std::mt19937_64(8127));
      for (const meter::LogState& state : all) blocks.release(state.block);
      EXPECT_EQ(fill(blocks, after).size(), kBound / after) << before << " to " << after;
    }
  }
}

TEST(LogBlocks, UseABoundThatIsNoMultipleOfTheLargest) {
  for (const std::size_t bound : {4u, 8u, 12u, 1'000u, 1'020u, 1'028u, 2'044u}) {
    LogBlocks blocks(bound);
    const std::vector<meter::LogState> all = fill(blocks, 1);
    EXPECT_EQ(all.size(), bound / 4) << bound;
    for (const meter::LogState& state : all) blocks.release(state.block);
    EXPECT_EQ(fill(blocks, 1).size(), bound / 4) << bound;
  }
}

TEST(LogBlocks, LetAllLogsGrowTogetherToTheLargest) {
  constexpr std::size_t kLogs = 16;
  LogBlocks blocks((kLogs + 8) * meter::kRunsMax);
  std::vector<meter::LogState> logs(kLogs);
  for (std::uint32_t runs = 1; runs <= meter::kRunsMax; ++runs) {
    for (meter::LogState& log : logs) ASSERT_TRUE(blocks.reserve(log, runs)) << runs;
  }
}

// A shard's share of the default bound. Growing passes through every size, and
// what the smaller sizes took must not use up the room for the largest.
TEST(LogBlocks, LetOneLogGrowToItsLargestWithinAShardsShare) {
  LogBlocks blocks(16'000'000 / 256);
  meter::LogState state;
  for (std::uint32_t runs = 1; runs <= meter::kRunsMax; ++runs) {
    ASSERT_TRUE(blocks.reserve(state, runs)) << runs;
  }
}

TEST(LogBlocks, KeepRingsApart) {
  std::mt19937_64 random(8127);
  LogBlocks blocks(kPlenty);
  struct Log {
    meter::LogState state;
    std::int64_t mark;
  };
  std::vector<Log> logs;
  std::int64_t next_mark = 1;
  for (int step = 0; step < 3000; ++step) {
    const std::uint64_t draw = random();
    if (logs.empty() || draw % 4 < 2) {
      logs.push_back({{}, next_mark++});
    }
    Log& log = logs[random() % logs.size()];
    if (draw % 4 == 3) {
      blocks.release(log.state.block);
      log = logs.back();
      logs.pop_back();
      continue;
    }
    const auto runs = static_cast<std::uint32_t>(random() % 100 + 1);
    ASSERT_TRUE(blocks.reserve(log.state, runs));
    for (meter::LogRun& run : blocks.ring(log.state.block)) run.units = log.mark;
    log.state.size = static_cast<std::uint16_t>(blocks.ring(log.state.block).size());
    log.state.head = 0;
    for (const Log& other : logs) {
      for (const meter::LogRun& run : blocks.ring(other.state.block)) {
        ASSERT_EQ(run.units, other.mark) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace weir::engine
