// Pools in a ledger: stakes, units at every worker, the belt by which stake leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/system/compute/support.h"

namespace weir::system::compute {
namespace {

using ::testing::HasSubstr;

Operation of_pool(Op op, const std::string& wallet, std::int64_t tokens = 0) {
  return {
      .op = op, .wallet = wallet, .amount = static_cast<Amount>(tokens) * kToken, .name = "lake"};
}
Operation withdrawal(const std::string& wallet, std::int64_t ticket) {
  Operation operation = of_pool(Op::kWithdraw, wallet);
  operation.value = ticket;
  return operation;
}

// 100 tokens make a pool active, 150 count, a tenth of a unit each; 10 tokens may leave in a block.
struct PoolLedger : ::testing::Test {
  PoolLedger() {
    for (const char* worker : {"w1", "w2"}) EXPECT_TRUE(apply(0, join_of(worker)).ok());
    EXPECT_TRUE(apply(0, of_pool(Op::kOpenPool, "owner")).ok());
  }
  Applied apply(Block block, const Operation& operation) { return ledger.apply(block, operation); }
  std::int64_t units(WorkerId worker, Block block) {
    const Allocations found = ledger.allocations(worker, block);
    return found.rows.empty() ? 0 : found.rows.at(0).units;
  }
  const Pool& pool() { return *ledger.find_pool("lake"); }

  Ledger ledger = ledger_of({.min_lock = kToken,
                             .min_stake = 100 * kToken,
                             .pool_capacity = 150 * kToken,
                             .pool_mana_bp = 1'000,
                             .exit_rate = 10 * kToken});
};

TEST_F(PoolLedger, GivesItsUnitsToTheOwnersClusterAtEveryWorkerAlike) {
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 60)).ok());
  EXPECT_TRUE(apply(10, register_of("owner", {"p1"})).ok());
  EXPECT_EQ(units(1, 100), 0) << "below the least stake it is not active";
  EXPECT_TRUE(apply(100, of_pool(Op::kStake, "bert", 60)).ok());
  EXPECT_EQ(units(1, 100), 12);
  EXPECT_EQ(units(2, 100), 12) << "undivided, as published";
  EXPECT_TRUE(apply(100, of_pool(Op::kStake, "bert", 500)).ok());
  EXPECT_EQ(units(1, 100), 15) << "no more than the capacity counts";
  EXPECT_TRUE(apply(100, lock_of("owner", 100, 1'000)).ok());
  EXPECT_EQ(units(1, 200), 15 + 50) << "beside what a lock of the owner gives";
  EXPECT_EQ(ledger.staked(), 620 * kToken);
}

TEST_F(PoolLedger, IsOfNoUseWithoutAPortal) {
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 100)).ok());
  EXPECT_TRUE(ledger.allocations(1, 100).rows.empty());
  EXPECT_EQ(ledger.find("owner")->pool_units, 10);
  EXPECT_TRUE(apply(100, register_of("owner", {"p1"})).ok());
  EXPECT_EQ(units(1, 100), 10);
}

TEST_F(PoolLedger, LetsStakeLeaveNoFasterThanTheBelt) {
  EXPECT_TRUE(apply(10, register_of("owner", {"p1"})).ok());
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 100)).ok());
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "bert", 100)).ok());
  const Applied first = apply(100, of_pool(Op::kExit, "anna", 25));
  EXPECT_EQ(first.receipt.ticket, 0);
  EXPECT_EQ(first.receipt.place, 25 * kToken);
  EXPECT_EQ(apply(100, of_pool(Op::kExit, "bert", 100)).receipt.place, 125 * kToken);
  const Applied early = apply(102, withdrawal("anna", 0));
  EXPECT_EQ(early.fault, Fault::kNotReady);
  EXPECT_EQ(early.detail, "the place of ticket 0 is reached in 1 blocks; withdraw then");
  EXPECT_EQ(units(1, 102), 15) << "until it is withdrawn it counts";
  EXPECT_EQ(apply(103, withdrawal("bert", 0)).fault, Fault::kNotOperator);
  EXPECT_EQ(apply(103, withdrawal("anna", 0)).receipt.amount, 25 * kToken);
  EXPECT_EQ(apply(103, withdrawal("anna", 0)).fault, Fault::kNothing);
  EXPECT_EQ(apply(112, withdrawal("bert", 1)).fault, Fault::kNotReady);
  EXPECT_TRUE(apply(113, withdrawal("bert", 1)).ok());
  EXPECT_EQ(units(1, 113), 0) << "75 tokens are too few";
  EXPECT_EQ(ledger.staked(), 75 * kToken);
  EXPECT_EQ(ledger.stakes(), 1u);
}

TEST_F(PoolLedger, TellsTheWaitByARateThatWasSetSince) {
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 100)).ok());
  EXPECT_TRUE(apply(10, of_pool(Op::kExit, "anna", 100)).ok());
  EXPECT_TRUE(apply(10, {.op = Op::kSetExitRate, .amount = kToken}).ok());
  EXPECT_EQ(pool().exits.processed(15), 50 * kToken);
  EXPECT_EQ(pool().exits.wait_seconds(15, 100 * kToken), 50);
  EXPECT_TRUE(apply(15, of_pool(Op::kStake, "anna", 7)).ok());
  EXPECT_TRUE(apply(15, of_pool(Op::kExit, "anna", 7)).ok());
  EXPECT_EQ(pool().exits.processed(16), 51 * kToken);
}

TEST_F(PoolLedger, LetsTheLastStakerGoWhenTheRateIsRaisedFromNothing) {
  Operation rate{.op = Op::kSetExitRate};
  EXPECT_TRUE(apply(10, rate).ok());
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 30)).ok());
  EXPECT_TRUE(apply(20, of_pool(Op::kExit, "anna", 30)).ok());
  EXPECT_THAT(apply(50, withdrawal("anna", 0)).detail, HasSubstr("set 'exit_rate' above 0"));
  rate.amount = 10 * kToken;
  EXPECT_TRUE(apply(100, rate).ok());
  EXPECT_THAT(apply(100, withdrawal("anna", 0)).detail, HasSubstr("is reached in 3 blocks"));
  EXPECT_EQ(pool().exits.processed(102), 20 * kToken);
  EXPECT_TRUE(apply(103, withdrawal("anna", 0)).ok());
}

TEST_F(PoolLedger, NamesWhyNot) {
  EXPECT_EQ(apply(1, of_pool(Op::kOpenPool, "other")).fault, Fault::kPoolTaken);
  EXPECT_EQ(apply(1, {.op = Op::kOpenPool, .wallet = "other"}).fault, Fault::kNoSuchPool);
  EXPECT_EQ(apply(1, {.op = Op::kStake, .wallet = "anna", .amount = 1, .name = "sea"}).fault,
            Fault::kNoSuchPool);
  EXPECT_EQ(apply(1, of_pool(Op::kStake, "anna")).fault, Fault::kNothing);
  EXPECT_EQ(apply(1, of_pool(Op::kStake, "anna", 1'337'000'001)).fault, Fault::kBeyondSupply);
  EXPECT_TRUE(apply(1, lock_of("owner", 1'336'999'999, 1'000)).ok());
  EXPECT_EQ(apply(1, of_pool(Op::kStake, "anna", 2)).fault, Fault::kBeyondSupply);
  EXPECT_TRUE(apply(1, of_pool(Op::kStake, "anna", 1)).ok());
  EXPECT_EQ(apply(1, lock_of("late", 1, 1'000)).fault, Fault::kBeyondSupply);
  EXPECT_EQ(apply(1, of_pool(Op::kExit, "anna", 2)).fault, Fault::kInsufficient);
  EXPECT_EQ(apply(1, of_pool(Op::kExit, "nobody", 1)).fault, Fault::kInsufficient);
  EXPECT_EQ(apply(1, of_pool(Op::kExit, "anna")).fault, Fault::kNothing);
  EXPECT_TRUE(apply(1, of_pool(Op::kExit, "anna", 1)).ok());
  EXPECT_EQ(apply(1, of_pool(Op::kExit, "anna", 1)).fault, Fault::kInsufficient)
      << "it is leaving already";
  EXPECT_EQ(apply(1, withdrawal("anna", 1)).fault, Fault::kNoSuchTicket);
  EXPECT_TRUE(apply(1, {.op = Op::kSetExitRate}).ok());
  EXPECT_TRUE(apply(9, withdrawal("anna", 0)).ok()) << "the old rate had let it through";
}

TEST_F(PoolLedger, HasBounds) {
  for (std::size_t i = 1; i < kPoolsOfOwnerMax; ++i) {
    Operation open = of_pool(Op::kOpenPool, "owner");
    open.name = fmt::format("pool {}", i);
    ASSERT_TRUE(apply(1, open).ok());
  }
  Operation open = of_pool(Op::kOpenPool, "owner");
  open.name = "one more";
  EXPECT_EQ(apply(1, open).fault, Fault::kTooMany);
  open.wallet = "other";
  EXPECT_TRUE(apply(1, open).ok());
  ASSERT_TRUE(apply(1, of_pool(Op::kStake, "anna", 2'000)).ok());
  for (std::size_t i = 0; i < kTicketsOfStakeMax; ++i) {
    ASSERT_TRUE(apply(1, of_pool(Op::kExit, "anna", 1)).ok());
  }
  const Applied beyond = apply(1, of_pool(Op::kExit, "anna", 1));
  EXPECT_EQ(beyond.fault, Fault::kTooMany);
  EXPECT_EQ(beyond.detail,
            "wallet 'anna' has 1000 tickets in pool 'lake', which is the most; withdraw one first");
  EXPECT_TRUE(apply(2, withdrawal("anna", 0)).ok());
  EXPECT_TRUE(apply(2, of_pool(Op::kExit, "anna", 1)).ok());
}

TEST_F(PoolLedger, IsTurnedOnAndOffOnlyWhenStakeMoves) {
  EXPECT_TRUE(apply(10, of_pool(Op::kStake, "anna", 100)).ok());
  EXPECT_TRUE(apply(10, {.op = Op::kSetMinStake, .amount = 200 * kToken}).ok());
  EXPECT_TRUE(pool().stake.is_active());
  EXPECT_EQ(ledger.find("owner")->pool_units, 10);
}

}  // namespace
}  // namespace weir::system::compute
