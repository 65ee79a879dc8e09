#include "weir/system/throttle/throttle_set.h"

#include "tests/system/throttle/support.h"

namespace weir::system::throttle {
namespace {

constexpr std::string_view kNetwork = R"({"buckets": [
  {"name": "T", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 10, "operations": ["CryptoTransfer", "ContractCall", "TokenMint"]}]},
  {"name": "C", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 2, "operations": ["CryptoCreate"]}]}]})";

TEST(ThrottleSet, RefusesAnOperationThatNoBucketLists) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  const auto said = set.decide(named(set, "nobody"), after(0s));
  EXPECT_FALSE(said->allowed);
  EXPECT_EQ(said->refuser, Refuser::kUnlisted);
  EXPECT_TRUE(said->never);
}

TEST(ThrottleSet, LeaksAllBucketsOfARefusedOperationAndTakesNothing) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  ASSERT_TRUE(decide(set, "b", after(0s)));
  ASSERT_FALSE(decide(set, "b", after(100ms)));
  EXPECT_EQ(set.buckets()[0].bucket.decided(), after(100ms));
  EXPECT_EQ(set.buckets()[1].bucket.decided(), after(100ms));
  EXPECT_EQ(set.buckets()[0].bucket.used(), 4 * kUnitsPerOperation);  // 5, less one in 100 ms
}

TEST(ThrottleSet, SaysWhichBucketRefusedAndWhenItWouldFit) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  ASSERT_TRUE(decide(set, "b", after(0s)));
  const auto said = set.decide(named(set, "b"), after(100ms));
  EXPECT_EQ(said->refuser, Refuser::kBucket);
  EXPECT_EQ(set.buckets()[said->bucket].name, "second");
  EXPECT_EQ(said->fits_at, kStart + 1s);
  EXPECT_FALSE(decide(set, "b", moment_of(said->fits_at - 1ns)));
  EXPECT_TRUE(decide(set, "b", moment_of(said->fits_at)));
}

TEST(ThrottleSet, SaysNeverToMoreThanABucketHolds) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  const auto said = set.decide(set.operations().find("a"), 11, after(0s));
  EXPECT_FALSE(said->allowed);
  EXPECT_TRUE(said->never);
  EXPECT_TRUE(set.decide(set.operations().find("a"), 10, after(0s))->allowed);
}

TEST(ThrottleSet, ChangesNothingWhenItIsPeekedAt) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  ASSERT_TRUE(decide(set, "b", after(0s)));
  const Usage before = set.buckets()[0].bucket.usage();
  EXPECT_FALSE(set.peek(named(set, "b"), after(500ms))->allowed);
  EXPECT_TRUE(set.peek(named(set, "b"), after(1s))->allowed);
  EXPECT_EQ(set.buckets()[0].bucket.usage(), before);
}

TEST(ThrottleSet, LeavesExemptPayersUntouched) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  Transaction transaction = named(set, "b");
  transaction.payer = 100;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(set.decide(transaction, after(0s))->allowed);
  EXPECT_FALSE(set.buckets()[0].bucket.decided().has_value());
  transaction.payer = 101;
  EXPECT_TRUE(set.decide(transaction, after(0s))->allowed);
  EXPECT_FALSE(set.decide(transaction, after(0s))->allowed);
}

TEST(ThrottleSet, SplitsTheFrontEndsRatesByTheNodes) {
  ThrottleSet set(definitions_of(kTwoBuckets), {.role = SetRole::kFrontEnd, .nodes = 5});
  EXPECT_EQ(admitted(set, "a", after(0s), 10), 5);  // 2 a second, and the burst lengthened for `b`
  EXPECT_EQ(set.buckets()[0].burst_ms, 2'500);
}

TEST(ThrottleSet, TakesAnEarlierInstantForNoTimePassedAtTheFrontEnd) {
  ThrottleSet set(definitions_of(kTwoBuckets), {.role = SetRole::kFrontEnd});
  EXPECT_EQ(admitted(set, "a", after(1s), 10), 10);
  EXPECT_FALSE(decide(set, "a", after(0s)));
  EXPECT_EQ(set.buckets()[0].bucket.decided(), after(1s));
}

TEST(ThrottleSet, IsToldThatConsensusTimeWentBack) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  ASSERT_TRUE(decide(set, "a", after(1s)));
  EXPECT_EQ(set.decide(named(set, "a"), after(0s)).anomaly(), Anomaly::kTimeWentBackwards);
}

TEST(ThrottleSet, AlwaysAllowsInThatRole) {
  ThrottleSet set(definitions_of(kTwoBuckets), {.role = SetRole::kAlwaysAllow});
  EXPECT_EQ(admitted(set, "nobody", after(0s), 100), 100);
  EXPECT_EQ(set.free_duration(after(0s)), kMax);
}

TEST(ThrottleSet, ChargesTransfersThatCreateAccountsAsCreationsOnly) {
  ThrottleSet set = consensus_of(kNetwork);
  Transaction transfer = named(set, "CryptoTransfer");
  transfer.creations = 2;
  ASSERT_TRUE(set.decide(transfer, after(0s))->allowed);
  EXPECT_EQ(set.buckets()[0].bucket.used(), 0);
  EXPECT_EQ(set.buckets()[1].bucket.free(), 0);
}

TEST(ThrottleSet, ScalesMintsByTheNumberOfTokens) {
  ThrottleSet set = consensus_of(kNetwork);
  Transaction mint = named(set, "TokenMint");
  mint.nfts = 3;
  ASSERT_TRUE(set.decide(mint, after(0s))->allowed);
  EXPECT_EQ(set.buckets()[0].bucket.used(), 7 * kUnitsPerOperation);  // 3 x 5 / 2, rounded down
}

TEST(ThrottleSet, RefusesByGasBeforeAnyBucketIsAsked) {
  ThrottleSet set =
      consensus_of(kNetwork, {.throttle_by_gas = true, .consensus_gas_per_second = 1'000});
  Transaction call = named(set, "ContractCall");
  call.gas = 600;
  ASSERT_TRUE(set.decide(call, after(0s))->allowed);
  const auto said = set.decide(call, after(0s));
  EXPECT_TRUE(said->by_gas());
  EXPECT_EQ(status_of(SetRole::kConsensus, *said), "CONSENSUS_GAS_EXHAUSTED");
  EXPECT_EQ(status_of(SetRole::kFrontEnd, *said), "BUSY");
  EXPECT_EQ(said->fits_at, kStart + 200ms);
  EXPECT_EQ(set.buckets()[0].bucket.used(), kUnitsPerOperation);
  EXPECT_EQ(set.return_gas(200, std::nullopt), Anomaly::kNone);
  EXPECT_TRUE(set.decide(call, after(0s))->allowed);
}

// --- bytes

constexpr std::string_view kEthereum = R"({"buckets": [
  {"name": "E", "burstPeriod": 1, "throttleGroups": [
    {"opsPerSec": 2, "operations": ["EthereumTransaction"]}]}]})";

ThrottleSet front_end_of(NetworkSettings settings) {
  return ThrottleSet(definitions_of(kEthereum), {.settings = std::move(settings)});
}

Transaction ethereum(const ThrottleSet& set, std::int64_t bytes) {
  Transaction transaction = named(set, "EthereumTransaction");
  transaction.bytes = bytes;
  return transaction;
}

TEST(ThrottleSet, CountsTheBytesThatALargeTransactionHasBeyondTheUsual) {
  ThrottleSet set = front_end_of({.jumbo_bytes_per_second = 1'000});
  ASSERT_TRUE(set.decide(ethereum(set, 6'144), after(0s))->allowed);
  EXPECT_EQ(set.bytes()->used(), 0);
  ASSERT_TRUE(set.decide(ethereum(set, 6'744), after(0s))->allowed);
  EXPECT_EQ(set.bytes()->used(), 600);
  const auto said = set.decide(ethereum(set, 7'045), after(500ms));
  EXPECT_FALSE(said->allowed);  // 901 beside the 100 that have not leaked
  EXPECT_EQ(set.bytes()->used(), 100);
  const auto never = set.decide(ethereum(set, 7'145), after(500ms));
  EXPECT_EQ(never->refuser, Refuser::kBytes);
  EXPECT_TRUE(never->never);
}

TEST(ThrottleSet, SaysWhenTheBytesOfATransactionWouldFit) {
  ThrottleSet set = front_end_of({.jumbo_bytes_per_second = 1'000});
  Claims claims;
  ASSERT_TRUE(set.decide(ethereum(set, 7'044), after(0s), &claims)->allowed);  // 900
  const auto said = set.decide(ethereum(set, 6'644), after(0s));               // 500
  EXPECT_EQ(said->refuser, Refuser::kBytes);
  EXPECT_EQ(said->missing, 400);
  EXPECT_EQ(said->fits_at, kStart + 400ms);
  EXPECT_EQ(set.other_refusals().bytes, 1u);
  set.refund(claims);
  EXPECT_EQ(set.bytes()->used(), 0);
}

TEST(ThrottleSet, KeepsTheBytesOfATransactionThatABucketRefusesAsPublished) {
  ThrottleSet set = front_end_of({.jumbo_bytes_per_second = 10'000});
  EXPECT_EQ(admitted(set, "EthereumTransaction", after(0s), 3), 2);
  EXPECT_EQ(set.decide(ethereum(set, 6'244), after(0s))->refuser, Refuser::kBucket);
  EXPECT_EQ(set.bytes()->used(), 100);
}

TEST(ThrottleSet, AsksForBytesOfJumboOperationsAtTheFrontEndOnly) {
  ThrottleSet off = front_end_of({.jumbo = false, .jumbo_bytes_per_second = 1});
  EXPECT_TRUE(off.decide(ethereum(off, 100'000), after(0s))->allowed);
  ThrottleSet others = front_end_of({.jumbo_operations = {}, .jumbo_bytes_per_second = 1});
  EXPECT_TRUE(others.decide(ethereum(others, 100'000), after(0s))->allowed);
  ThrottleSet consensus = consensus_of(kEthereum, {.jumbo_bytes_per_second = 1});
  EXPECT_FALSE(consensus.bytes().has_value());
  EXPECT_TRUE(consensus.decide(ethereum(consensus, 100'000), after(0s))->allowed);
}

// --- giving back

TEST(ThrottleSet, UndoesSoManyOfAnOperationInAllItsBuckets) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  const OperationId b = set.operations().find("b");
  ASSERT_TRUE(decide(set, "b", after(0s)));
  ASSERT_TRUE(decide(set, "a", after(0s)));
  EXPECT_EQ(set.buckets()[0].bucket.used(), 6 * kUnitsPerOperation);
  EXPECT_EQ(set.undo(b, 1), Anomaly::kNone);
  EXPECT_EQ(set.buckets()[0].bucket.used(), kUnitsPerOperation);
  EXPECT_EQ(set.buckets()[1].bucket.used(), 0);
  EXPECT_EQ(set.undo(b, 5), Anomaly::kNone);
  EXPECT_EQ(set.buckets()[0].bucket.used(), 0) << "never below nothing";
  EXPECT_EQ(set.undo(set.operations().find("nobody"), 1), Anomaly::kUnknownOperation);
  EXPECT_EQ(set.undo(b, -1), Anomaly::kIllegalArgument);
}

TEST(ThrottleSet, RefundsEverythingOneDecisionHasClaimed) {
  ThrottleSet set =
      consensus_of(kNetwork, {.throttle_by_gas = true, .consensus_gas_per_second = 1'000});
  Transaction call = named(set, "ContractCall");
  call.gas = 600;
  Claims claims;
  ASSERT_TRUE(set.decide(call, after(0s), &claims)->allowed);
  ASSERT_FALSE(set.decide(call, after(0s), &claims)->allowed);  // notes nothing
  set.refund(claims);
  EXPECT_EQ(set.gas().used(), 0);
  EXPECT_EQ(set.buckets()[0].bucket.used(), 0);
}

TEST(ThrottleSet, RefundsNothingToBucketsThatAreNew) {
  ThrottleSet set = consensus_of(kNetwork);
  Claims claims;
  ASSERT_TRUE(set.decide(named(set, "ContractCall"), after(0s), &claims)->allowed);
  set.rebuild(definitions_of(kNetwork));
  ASSERT_TRUE(decide(set, "ContractCall", after(0s)));
  set.refund(claims);
  EXPECT_EQ(set.buckets()[0].bucket.used(), kUnitsPerOperation);
}

TEST(ThrottleSet, NeverWrapsACountOfOurOwn) {
  ThrottleSet set = consensus_of(kTwoBuckets);
  Transaction many = named(set, "b");
  many.count = 858'993'460;  // times 5 wraps to a small number
  EXPECT_FALSE(set.decide(many, after(0s))->allowed);
  EXPECT_EQ(set.buckets()[0].bucket.used(), 0);
}

}  // namespace
}  // namespace weir::system::throttle
