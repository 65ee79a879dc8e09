// The second generation of registries, and the portal's side.

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string_view>

#include "tests/system/compute/support.h"
#include "weir/system/compute/published/exit_queue.h"
#include "weir/system/compute/published/merge.h"
#include "weir/system/compute/published/stake_pool.h"
#include "weir/system/compute/published/worker_choice.h"

namespace weir::system::compute {
namespace {

TEST(StakePool, TurnsOnAndOffOnlyWhenStakeMoves) {
  StakePool pool({.least = 100 * kToken, .capacity = 150 * kToken, .mana_bp = 20'000});
  pool.stake(100 * kToken - 1);
  EXPECT_FALSE(pool.is_active());
  pool.stake(1);
  EXPECT_EQ(pool.units(), 200u);
  pool.set_least(200 * kToken);
  EXPECT_TRUE(pool.is_active());
  pool.stake(60 * kToken);
  EXPECT_EQ(pool.units(), 300u) << "no more than the capacity";
  EXPECT_FALSE(pool.unstake(161 * kToken));
  EXPECT_TRUE(pool.unstake(1));
  EXPECT_EQ(pool.units(), 0u);
}

TEST(ExitQueue, MovesNoFurtherThanItIsAsked) {
  // The example in the header.
  ExitQueue queue(0, 10);
  EXPECT_EQ(queue.request(0, 25, 10), 25u);
  EXPECT_EQ(queue.request(1, 5, 10), 30u);
  EXPECT_EQ(queue.processed(2), 20u);
  EXPECT_EQ(queue.wait_seconds(2, 25), 1);
  EXPECT_EQ(queue.wait_seconds(2, 30), 1);
  EXPECT_EQ(queue.processed(1'000), 30u);
  EXPECT_EQ(queue.request(1'000, 10, 0), 40u);
  EXPECT_EQ(queue.wait_seconds(2'000, 40), std::nullopt) << "nothing was saved up";
}

TEST(ExitQueue, TellsTheWaitByTheRateOfNowThoughTheBeltStillMovesByTheOldOne) {
  ExitQueue queue(0, 10);
  queue.request(0, 25, 10);
  queue.request(1, 5, 10);
  queue.change_rate(1);
  EXPECT_EQ(queue.processed(2), 20u);
  EXPECT_EQ(queue.wait_seconds(2, 25), 5);
  EXPECT_EQ(queue.wait_seconds(2, 30), 10);
  queue.change_rate(0);
  EXPECT_EQ(queue.wait_seconds(2, 25), std::nullopt);
  EXPECT_EQ(queue.wait_seconds(2, 20), 0) << "one that is there waits at no rate";
  queue.change_rate(1'000);
  EXPECT_EQ(queue.wait_seconds(2, 30), 1);
  EXPECT_EQ(queue.processed(3), 30u);
  // Another change before anybody asks: only the last counts, and the belt never saw the others.
  queue.change_rate(7);
  EXPECT_EQ(queue.request(4, 70, 7), 100u);
  EXPECT_EQ(queue.processed(4), 30u);
  EXPECT_EQ(queue.wait_seconds(4, 100), 10);
}

TEST(ExitQueue, SettlesWhatWasBeforeARequestByTheOldRate) {
  ExitQueue queue(0, 7);
  queue.request(0, 100, 7);
  queue.change_rate(0);
  EXPECT_EQ(queue.processed(5), 35u);
  EXPECT_EQ(queue.wait_seconds(5, 100), std::nullopt);
  queue.request(10, 1, 0);
  EXPECT_EQ(queue.processed(10), 70u);
  EXPECT_EQ(queue.processed(1'000), 70u);
  queue.change_rate(31);
  EXPECT_EQ(queue.processed(1'000), 70u);
  EXPECT_EQ(queue.wait_seconds(1'000, 101), 1);
  EXPECT_EQ(queue.wait_seconds(2'000, 101), 1) << "until somebody asks, it stands";
}

TEST(ExitQueue, MovesByARaisedRateAtOnceWhereItIsSet) {
  ExitQueue queue(0, 10);
  queue.request(0, 1'000, 10);
  queue.set_rate(10, 4);
  EXPECT_EQ(queue.processed(20), 200u) << "a lower one from the next request on";
  EXPECT_EQ(queue.wait_seconds(20, 1'000), 200);
  queue.set_rate(20, 50);
  EXPECT_EQ(queue.processed(20), 200u);
  EXPECT_EQ(queue.processed(21), 250u);
  EXPECT_EQ(queue.wait_seconds(21, 1'000), 15);
}

TEST(ExitQueue, HoldsAnyRateForAnyTime) {
  ExitQueue queue(0, kAmountMax);
  queue.request(0, kAmountMax, kAmountMax);
  EXPECT_EQ(queue.processed(std::numeric_limits<std::int64_t>::max()), kAmountMax);
}

TEST(Merge, MakesOneClusterOfAnOwner) {
  const std::vector<ClusterAllocation> pools = {
      {"B", {"p1"}, 100}, {"B", {"p2"}, 20}, {"A", {}, 7}, {"C", {"p3"}, 0}};
  const std::vector<LegacyPortal> legacy = {
      {"p2", "A", 50}, {"q1", "B", 3}, {"q2", "B", 3}, {"p3", "A", 9}};
  const std::vector<ClusterAllocation> expected = {{"A", {"p3"}, 9},
                                                   {"B", {"p1", "p2", "q1", "q2"}, 123}};
  EXPECT_EQ(merge_registries(pools, legacy), expected);
}

struct ChoiceTest : ::testing::Test {
  static constexpr std::array<std::string_view, 2> kBoth = {"w1", "w2"};

  WorkerChoice choice{ChoiceSettings{}};
};

TEST_F(ChoiceTest, TakesTheOneThatIsFree) {
  EXPECT_EQ(choice.pick(kBoth, kStart).worker, "w1");
  EXPECT_EQ(choice.pick(kBoth, kStart).worker, "w2");
  const Chosen none = choice.pick(kBoth, kStart);
  EXPECT_FALSE(none.worker || none.until);
  choice.answered("w2", {}, kStart);
  EXPECT_EQ(choice.pick(kBoth, kStart).worker, "w2");
}

TEST_F(ChoiceTest, WaitsForAHint) {
  for (const std::string_view worker : kBoth) {
    choice.pick({&worker, 1}, kStart);
    choice.answered(worker, {.hint = worker == "w1" ? 3s : 2s}, kStart);
  }
  EXPECT_EQ(choice.pick(kBoth, kStart).until, kStart + 2s);
  EXPECT_EQ(choice.pick(kBoth, kStart + 2s).worker, "w2");
}

TEST_F(ChoiceTest, AvoidsTroubleForAWhile) {
  choice.pick(kBoth, kStart);
  choice.answered("w1", {.kind = AnswerKind::kServerError}, kStart);
  const std::array<std::string_view, 1> one = {"w1"};
  EXPECT_FALSE(choice.pick(one, kStart + 30s - 1ns).worker);
  EXPECT_EQ(choice.pick(one, kStart + 30s).worker, "w1");
}

}  // namespace
}  // namespace weir::system::compute
