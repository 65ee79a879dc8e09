#include "weir/system/compute/ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/system/compute/support.h"

namespace weir::system::compute {
namespace {

TEST(EpochClock, KeepsTheRunningEpochWhenTheLengthChanges) {
  // The example in the header.
  EpochClock clock{.first = 5, .length = 5};
  EXPECT_EQ(epoch_number(clock, 4), 0);
  EXPECT_EQ(next_epoch(clock, 4), 5);
  EXPECT_EQ(next_epoch(clock, 5), 10);
  clock = with_length(clock, 12, 20);
  EXPECT_EQ(epoch_number(clock, 14), 2);
  EXPECT_EQ(epoch_start(clock, 14), 10);
  EXPECT_EQ(next_epoch(clock, 14), 15);
  EXPECT_EQ(epoch_number(clock, 15), 3);
  EXPECT_EQ(next_epoch(clock, 15), 35);
  EXPECT_EQ(start_of_epoch(clock, 4), 35);
}

TEST(EpochClock, HasNoEpochBeyondAllBlocks) {
  const EpochClock clock{.first = 5, .length = 99'999};
  EXPECT_GT(start_of_epoch(clock, kBlockMax / 2), kBlockMax);
}

struct LedgerTest : ::testing::Test {
  Ledger ledger = ledger_of();

  Fault apply(Block block, const Operation& operation) {
    const Applied applied = ledger.apply(block, operation);
    EXPECT_EQ(applied.ok(), applied.detail.empty());
    return applied.fault;
  }
  std::int64_t units(const std::string& wallet, Block block) const {
    return ledger.epoch_units(*ledger.find(wallet), block);
  }
};

TEST_F(LedgerTest, GivesUnitsFromTheNextEpochOnAndNoneFromTheEndOn) {
  const Applied applied = ledger.apply(150, lock_of("acme", 10'000, 300));
  ASSERT_TRUE(applied.ok());
  EXPECT_EQ(applied.receipt.start, 200);
  EXPECT_EQ(applied.receipt.end, 500);
  EXPECT_EQ(units("acme", 199), 0);
  EXPECT_EQ(units("acme", 200), 10'000);
  EXPECT_EQ(units("acme", 499), 10'000);
  EXPECT_EQ(units("acme", 500), 0);
}

TEST_F(LedgerTest, ServesTheOldTotalUntilAnAdditionStarts) {
  apply(0, lock_of("acme", 10'000, 300));
  ASSERT_EQ(apply(150, add_of("acme", 5'000)), Fault::kNone);
  EXPECT_EQ(units("acme", 199), 10'000);
  EXPECT_EQ(units("acme", 200), 15'000);
  EXPECT_EQ(apply(199, add_of("acme", 1)), Fault::kNotStarted);
}

TEST_F(LedgerTest, ChecksALockInThePublishedOrder) {
  EXPECT_EQ(apply(0, lock_of("acme", 9'999, 1)), Fault::kBelowMin);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, 99)), Fault::kLockTooShort);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, 0)), Fault::kLockTooShort);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, 7'776'001)), Fault::kLockTooLong);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, kNoEnd)), Fault::kLockTooLong);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, 7'776'000)), Fault::kNone);
  EXPECT_EQ(apply(0, lock_of("acme", 10'000, 100)), Fault::kAlreadyLocked);
}

TEST_F(LedgerTest, LocksNoMoreThanTheSupply) {
  EXPECT_EQ(apply(0, lock_of("acme", 1'337'000'001, 100)), Fault::kBeyondSupply);
  EXPECT_EQ(apply(0, lock_of("acme", 1'336'000'000, 100)), Fault::kNone);
  EXPECT_EQ(apply(0, lock_of("other", 1'000'001, 100)), Fault::kBeyondSupply);
  EXPECT_EQ(apply(100, add_of("acme", 1'000'001)), Fault::kBeyondSupply);
  EXPECT_EQ(apply(100, add_of("acme", 1'000'000)), Fault::kNone);
  EXPECT_EQ(ledger.locked(), 1'337'000'000 * kToken);
}

TEST_F(LedgerTest, GivesEverythingBackAtTheEnd) {
  apply(0, register_of("acme", {"p1", "p2"}));
  apply(0, lock_of("acme", 10'000, 100));
  EXPECT_EQ(ledger.active_portals(), 2u);
  EXPECT_EQ(apply(199, of_wallet(Op::kUnlock, "acme")), Fault::kLocked);
  const Applied unlocked = ledger.apply(200, of_wallet(Op::kUnlock, "acme"));
  EXPECT_EQ(unlocked.receipt.amount, 10'000 * kToken);
  EXPECT_EQ(ledger.locked(), 0u);
  EXPECT_EQ(ledger.active_portals(), 0u);
  EXPECT_EQ(apply(200, of_wallet(Op::kUnlock, "acme")), Fault::kNothing);
}

TEST_F(LedgerTest, OwesTheRunningPeriodWhenExtensionEnds) {
  apply(0, lock_of("acme", 10'000, 300, true));
  EXPECT_EQ(units("acme", 1'000'000), 10'000);
  const Applied off = ledger.apply(700, of_wallet(Op::kAutoOff, "acme"));
  EXPECT_EQ(off.receipt.end, 1'000);  // 100 + 3 periods of 300
  EXPECT_EQ(units("acme", 1'000), 0);
}

TEST_F(LedgerTest, RefusesToExtendNothingUnlessAsPublished) {
  EXPECT_EQ(apply(0, of_wallet(Op::kAutoOn, "acme")), Fault::kNoLock);
  EXPECT_EQ(ledger.find("acme"), nullptr);
  Ledger published = ledger_of({.published_faults = true});
  EXPECT_TRUE(published.apply(0, of_wallet(Op::kAutoOn, "acme")).ok());
  EXPECT_EQ(published.apply(0, of_wallet(Op::kAutoOff, "acme")).fault, Fault::kDivByZero);
}

TEST_F(LedgerTest, RegistersTenPortalsAndNotAnEleventh) {
  std::vector<std::string> ten;
  for (int i = 0; i < 10; ++i) ten.push_back("p" + std::to_string(i));
  EXPECT_EQ(apply(0, register_of("acme", ten)), Fault::kNone);
  EXPECT_EQ(apply(0, register_of("acme", {"p10"})), Fault::kClusterFull);
  EXPECT_EQ(apply(0, register_of("other", {"p3"})), Fault::kPeerTaken);
  EXPECT_EQ(apply(0, register_of("other", {""})), Fault::kEmptyPeer);
  EXPECT_EQ(apply(0, {.op = Op::kUnregister, .wallet = "other", .portals = {"p3"}}),
            Fault::kNotOperator);
  EXPECT_EQ(apply(0, {.op = Op::kUnregister, .wallet = "acme", .portals = {"p3"}}), Fault::kNone);
  EXPECT_EQ(apply(0, register_of("other", {"p3"})), Fault::kNone);
  EXPECT_EQ(ledger.cluster_of("p3")->wallet, "other");
  EXPECT_EQ(apply(0, register_of("acme", {"p11"})), Fault::kNone);
  EXPECT_EQ(
      ledger.portals(*ledger.find("acme")),
      (std::vector<std::string_view>{"p0", "p1", "p2", "p4", "p5", "p6", "p7", "p8", "p9", "p11"}));
}

TEST_F(LedgerTest, RegistersAllOfABatchOrNone) {
  EXPECT_EQ(apply(0, register_of("acme", {"a", "b", "a"})), Fault::kPeerTaken);
  EXPECT_EQ(ledger.cluster_of("a"), nullptr);
  EXPECT_EQ(ledger.find("acme"), nullptr);
}

TEST_F(LedgerTest, NeverGoesBackInBlocks) {
  EXPECT_EQ(apply(10, join_of("w")), Fault::kNone);
  EXPECT_EQ(apply(9, join_of("v")), Fault::kBlockWentBack);
  EXPECT_EQ(apply(kBlockMax + 1, join_of("v")), Fault::kBlockTooFar);
  EXPECT_EQ(ledger.block(), 10);
}

TEST_F(LedgerTest, RefusesNamesThatAreTooLong) {
  EXPECT_EQ(apply(0, register_of("acme", {std::string(kNameBytesMax, 'p')})), Fault::kNone);
  EXPECT_EQ(apply(0, register_of("acme", {std::string(kNameBytesMax + 1, 'p')})),
            Fault::kNameTooLong);
  EXPECT_EQ(apply(0, register_of("", {"p"})), Fault::kNoSuchWallet);
}

TEST_F(LedgerTest, RefusesNamesThatItsHistoryCouldNotKeep) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string name = {'p', static_cast<char>(byte)};
    for (const Operation& operation :
         {register_of("acme", {name}), lock_of(name, 10'000, 100), join_of(name)}) {
      const Fault fault = apply(0, operation);
      EXPECT_EQ(fault, byte < 0x80 ? Fault::kNone : Fault::kNameNotUtf8) << byte;
      if (fault != Fault::kNone) continue;
      EXPECT_EQ(*parse_operation("row", operation_text(operation)), operation) << byte;
    }
    if (byte < 0x80) apply(0, {.op = Op::kUnregister, .wallet = "acme", .portals = {name}});
  }
  EXPECT_EQ(apply(0, join_of("gr\xc3\xbcn")), Fault::kNone);
}

TEST_F(LedgerTest, LetsAClusterHaveAPortal) {
  EXPECT_EQ(apply(0, {.op = Op::kSetMaxPortals, .value = 0}), Fault::kOutOfRange);
  EXPECT_EQ(apply(0, {.op = Op::kSetMaxPortals, .value = 1}), Fault::kNone);
}

TEST_F(LedgerTest, LetsWorkersJoinAndLeaveAtBoundaries) {
  EXPECT_EQ(ledger.apply(150, join_of("w")).receipt.active, 200);
  EXPECT_EQ(apply(150, join_of("w")), Fault::kWorkerTaken);
  EXPECT_TRUE(ledger.active_workers(199).empty());
  EXPECT_EQ(apply(199, {.op = Op::kLeave, .name = "w"}), Fault::kNotActive);
  EXPECT_EQ(ledger.active_workers(200).size(), 1u);
  EXPECT_EQ(ledger.apply(250, {.op = Op::kLeave, .name = "w"}).receipt.active, 300);
  EXPECT_EQ(ledger.apply(260, {.op = Op::kLeave, .name = "w"}).receipt.active, 300);
  EXPECT_EQ(ledger.active_workers(299).size(), 1u);
  EXPECT_TRUE(ledger.active_workers(300).empty());
  EXPECT_EQ(ledger.apply(300, join_of("w")).receipt.worker, 2);
}

TEST_F(LedgerTest, SaysWhatWasFoundAndWhatToDo) {
  EXPECT_EQ(ledger.apply(0, lock_of("acme", 5, 100)).detail,
            "amount is 5 tokens, but at least 10000 must be locked; lock more");
}

// --- allocations

struct AllocationsTest : LedgerTest {
  void SetUp() override {
    for (const char* worker : {"w1", "w2", "w3"}) apply(0, join_of(worker));
    apply(0, register_of("acme", {"p1"}));
    apply(0, lock_of("acme", 10'000, 18'000));
  }
  std::int64_t at(WorkerId worker, Block block) const {
    const Allocations found = ledger.allocations(worker, block);
    return found.rows.empty() ? 0 : found.rows[0].units;
  }
};

TEST_F(AllocationsTest, LoseNothingOfAnEqualSplit) {
  for (const Block block : {100, 200, 300, 400}) {
    EXPECT_EQ(at(1, block) + at(2, block) + at(3, block), 10'000) << block;
  }
  // 10,000 is 3,333 each and one left over, which goes to another in each epoch.
  EXPECT_EQ(at(1, 200), 3'334);
  EXPECT_EQ(at(2, 200), 3'333);
  EXPECT_EQ(at(1, 300), 3'333);
  EXPECT_EQ(at(2, 300), 3'334);
}

// Of every worker in one epoch: what clusters `from` to before `to` come to, each with `units`.
std::vector<std::int64_t> sums_of(std::uint32_t from, std::uint32_t to, std::int64_t units,
                                  std::int64_t workers, std::int64_t epoch) {
  std::vector<WorkerId> active;
  for (WorkerId id = 1; id <= workers; ++id) active.push_back(id);
  std::vector<std::int64_t> sums(active.size());
  for (std::uint32_t cluster = from; cluster < to; ++cluster) {
    std::int64_t given = 0;
    for (std::size_t i = 0; i < active.size(); ++i) {
      const Share share =
          equal_share({units, active[i], active, epoch, Remainder::kRotate, cluster});
      given += share.units;
      sums[i] += share.units;
    }
    EXPECT_EQ(given, units) << cluster;
  }
  return sums;
}

TEST(Remainders, OfManyClustersLieEvenlyOverTheWorkers) {
  // 100 clusters of 10,000 units over 1,400 workers: 714.3 on average, with 200 units left over
  // each.
  for (const std::uint32_t from : {0u, 1u, 9'900u}) {
    for (const std::int64_t epoch : {0, 1, 2, 1'399, 1'400}) {
      const std::vector<std::int64_t> sums = sums_of(from, from + 100, 10'000, 1'400, epoch);
      EXPECT_GE(*std::min_element(sums.begin(), sums.end()), 711);
      EXPECT_LE(*std::max_element(sums.begin(), sums.end()), 717);
    }
  }
}

TEST(Remainders, ComeToOtherWorkersInTheNextEpoch) {
  const std::vector<std::int64_t> first = sums_of(7, 8, 10'000, 1'400, 1);
  const std::vector<std::int64_t> second = sums_of(7, 8, 10'000, 1'400, 2);
  int again = 0;
  for (std::size_t i = 0; i < first.size(); ++i) again += first[i] == 8 && second[i] == 8;
  EXPECT_EQ(again, 0);
}

TEST(Remainders, AreFairToEachWorkerAfterAsManyEpochsAsThereAreWorkers) {
  for (const std::int64_t workers : {1, 2, 3, 4, 6, 7, 12, 30, 101}) {
    std::vector<std::int64_t> in_all(static_cast<std::size_t>(workers));
    for (std::int64_t epoch = 5; epoch < 5 + workers; ++epoch) {
      const std::vector<std::int64_t> sums = sums_of(3, 4, 10'007, workers, epoch);
      for (std::size_t i = 0; i < sums.size(); ++i) in_all[i] += sums[i];
    }
    for (const std::int64_t sum : in_all) EXPECT_EQ(sum, 10'007) << workers;
  }
}

TEST_F(AllocationsTest, AreNothingForAWorkerThatIsNotActive) {
  EXPECT_EQ(ledger.allocations(1, 99).fault, Fault::kNoWorkers);
  EXPECT_EQ(ledger.allocations(4, 100).fault, Fault::kNotActive);
}

TEST_F(AllocationsTest, GoToTheMembersOfASubsetThatAreActive) {
  ASSERT_EQ(apply(100, {.op = Op::kSupport, .wallet = "acme", .workers = {1, 3, 3}}), Fault::kNone);
  EXPECT_EQ(at(1, 100), 5'000);
  EXPECT_EQ(at(2, 100), 0);
  EXPECT_EQ(at(3, 100), 5'000);
  apply(150, {.op = Op::kLeave, .name = "w3"});
  EXPECT_EQ(at(1, 200), 10'000);
  EXPECT_EQ(apply(150, {.op = Op::kSupport, .wallet = "acme", .workers = {4}}),
            Fault::kNoSuchWorker);
}

TEST_F(AllocationsTest, StayWhereTheyAreWhenNobodyIsTakenOut) {
  const auto take_out = [&](std::vector<WorkerId> workers) {
    return apply(100, {.op = Op::kUnsupport, .wallet = "acme", .workers = std::move(workers)});
  };
  EXPECT_EQ(take_out({3}), Fault::kUnderflow) << "they are split equally";
  EXPECT_EQ(at(1, 200), 3'334);
  ASSERT_EQ(apply(100, {.op = Op::kSupport, .wallet = "acme", .workers = {1, 2}}), Fault::kNone);
  EXPECT_EQ(take_out({1, 2, 3}), Fault::kUnderflow);
  EXPECT_EQ(at(1, 200), 5'000);
  EXPECT_EQ(take_out({2}), Fault::kNone);
  EXPECT_EQ(at(1, 200), 10'000);
}

TEST_F(AllocationsTest, AreNotSplitOverNobody) {
  for (const Op op : {Op::kSupport, Op::kUnsupport, Op::kShares}) {
    EXPECT_EQ(apply(100, of_wallet(op, "acme")), Fault::kNoSuchWorker);
  }
  EXPECT_EQ(at(1, 200), 3'334);
}

TEST_F(AllocationsTest, AreNotSplitForAWalletThatNobodyKnows) {
  const std::size_t before = ledger.clusters().size();
  for (const Op op : {Op::kEqual, Op::kStrategy}) {
    EXPECT_EQ(apply(100, of_wallet(op, "typo")), Fault::kNoSuchWallet);
  }
  EXPECT_EQ(apply(100, {.op = Op::kSupport, .wallet = "typo", .workers = {1}}),
            Fault::kNoSuchWallet);
  EXPECT_EQ(
      apply(100, {.op = Op::kShares, .wallet = "typo", .workers = {1}, .basis_points = {10'000}}),
      Fault::kNoSuchWallet);
  EXPECT_EQ(ledger.clusters().size(), before);
}

TEST_F(AllocationsTest, LeaveNothingOverForWorkersThatAreGone) {
  // Of 10,001 units the floors of 3,333, 3,333 and 3,334 leave one over.
  const Operation shares{.op = Op::kShares,
                         .wallet = "acme",
                         .workers = {1, 2, 3},
                         .basis_points = {3'333, 3'333, 3'334}};
  ASSERT_EQ(apply(100, add_of("acme", 1)), Fault::kNone);  // 10,001 units from block 200 on
  ASSERT_EQ(apply(100, shares), Fault::kNone);
  apply(150, {.op = Op::kLeave, .name = "w3"});
  for (const Block block : {200, 300, 400, 500}) {
    EXPECT_EQ(at(1, block) + at(2, block), 3'333 + 3'333 + 1) << block;
  }
}

TEST_F(AllocationsTest, SayWhatSharesCameToThatAreTooMany) {
  const Applied refused = ledger.apply(
      100,
      {.op = Op::kShares, .wallet = "acme", .workers = {1, 2}, .basis_points = {9'000, 1'001}});
  EXPECT_EQ(refused.fault, Fault::kOver100Percent);
  EXPECT_EQ(refused.detail,
            "shares of 2 workers come to 10001 basis points, but they may come to 10000, with none "
            "below 0; write less");
}

TEST_F(AllocationsTest, FollowSharesInBasisPoints) {
  const Operation shares{
      .op = Op::kShares, .wallet = "acme", .workers = {1, 2}, .basis_points = {3'333, 3'333}};
  ASSERT_EQ(apply(100, shares), Fault::kNone);
  EXPECT_EQ(at(1, 100) + at(2, 100), 6'666);
  EXPECT_EQ(at(3, 100), 0);
  ASSERT_EQ(apply(100, of_wallet(Op::kEqual, "acme")), Fault::kNone);
  EXPECT_EQ(at(2, 200), 3'333);
}

TEST_F(AllocationsTest, OfOthersGoOnWhenOneClusterIsBroken) {
  Parameters published;
  published.published_faults = true;
  published.remainder = Remainder::kDrop;
  ledger = ledger_of(published);
  SetUp();
  apply(0, lock_of("broken", 20'000, 18'000));
  apply(0, {.op = Op::kSupport, .wallet = "broken", .workers = {1, 2}});
  apply(0, {.op = Op::kUnsupport, .wallet = "broken", .workers = {3, 3}});  // counted to 0
  const Allocations found = ledger.allocations(1, 100);
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].units, 3'333);
  ASSERT_EQ(found.broken.size(), 1u);
  EXPECT_EQ(found.broken[0].fault, Fault::kDivByZero);
  EXPECT_EQ(ledger.clusters()[found.broken[0].cluster].wallet, "broken");
}

struct Moody final : Strategy {
  Result<std::int64_t> share(const ShareOf& of) const override {
    if (of.worker == 1) return of.units / 2;
    if (of.worker == 2) return of.units + 1;
    if (of.epoch == 3) throw std::runtime_error("not at all");
    return bad_argument("not today");
  }
};

TEST_F(AllocationsTest, FollowAStrategyOfTheEmbedder) {
  ledger = *Ledger::create({}, {{"moody", std::make_shared<Moody>()}});
  SetUp();
  ASSERT_EQ(apply(0, {.op = Op::kStrategy, .wallet = "acme", .name = "moody"}), Fault::kNone);
  EXPECT_EQ(apply(0, {.op = Op::kStrategy, .wallet = "acme", .name = "calm"}),
            Fault::kNoSuchStrategy);
  EXPECT_EQ(at(1, 100), 5'000);
  EXPECT_EQ(ledger.allocations(2, 100).broken[0].fault, Fault::kStrategyFailed);
  EXPECT_EQ(ledger.allocations(3, 100).broken[0].fault, Fault::kStrategyFailed);
  EXPECT_EQ(ledger.allocations(3, 200).broken[0].fault, Fault::kStrategyFailed) << "it throws";
}

TEST_F(AllocationsTest, AreReplayedWithoutTheStrategyThatWasChosen) {
  const Operation choice{.op = Op::kStrategy, .wallet = "acme", .name = "moody"};
  EXPECT_EQ(apply(0, choice), Fault::kNoSuchStrategy);
  ASSERT_TRUE(ledger.replay(0, choice).ok());
  EXPECT_EQ(ledger.allocations(1, 100).broken[0].fault, Fault::kNoSuchStrategy);
  ASSERT_EQ(apply(0, of_wallet(Op::kEqual, "acme")), Fault::kNone);
  EXPECT_TRUE(ledger.allocations(1, 100).broken.empty());
}

TEST(Operation, IsReadBackFromItsText) {
  const Operation operations[] = {
      lock_of("acme \"x\"", 10'000, 300, true),
      register_of("acme", {"p1", "p2"}),
      {.op = Op::kShares, .wallet = "a", .workers = {1, 2}, .basis_points = {1, 9'999}},
      {.op = Op::kSetMinLock, .amount = kAmountMax},
      join_of("w"),
      {.op = Op::kWithdraw, .wallet = "acme", .value = 7, .name = "lake"},
      {.op = Op::kSetExitRate, .amount = kToken},
      {.op = Op::kUnlock, .wallet = "acme", .event = "0x5f3a-2", .block = 0},
  };
  for (const Operation& operation : operations) {
    EXPECT_EQ(*parse_operation("row 1", operation_text(operation)), operation);
  }
  EXPECT_EQ(operation_text(join_of("w")), R"({"op":"join","name":"w"})");
}

TEST(Operation, IsRefusedWithTheReason) {
  EXPECT_EQ(parse_operation("row 7", R"({"op":"lick"})").error().message,
            "row 7: op is 'lick', which is no operation; write one such as 'lock'");
  for (const char* text : {"", "[]", "{}", R"({"op":1})", R"({"op":"add","amount":5})",
                           R"({"op":"add","amount":"-5"})", R"({"op":"add","extra":5})",
                           R"({"op":"support","workers":["1"]})"}) {
    EXPECT_FALSE(parse_operation("row", text).ok()) << text;
  }
}

}  // namespace
}  // namespace weir::system::compute
