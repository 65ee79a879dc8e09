// The arithmetic of the source document's text, on its own four buckets.

#include "tests/system/throttle/support.h"
#include "weir/system/throttle/validate.h"

namespace weir::system::throttle {
namespace {

struct FourBuckets : ::testing::Test {
  ThrottleSet set = consensus_of(example());

  // What is free in a bucket now, as so many parts of `whole`.
  std::int64_t free_parts(std::size_t bucket, std::int64_t whole) const {
    const OperationBucket& found = set.buckets()[bucket].bucket;
    return found.free() / (found.capacity() / whole);
  }
};

TEST_F(FourBuckets, AreAccepted) {
  EXPECT_TRUE(load_definitions(example(), "throttles.json", 31).ok());
  ASSERT_EQ(set.buckets().size(), 4u);
  EXPECT_TRUE(set.dropped().empty());
  EXPECT_EQ(set.buckets()[0].bucket.capacity(), 390'000'000'000'000'000);
}

TEST_F(FourBuckets, AreFilledByTenContractCallsWhichLeaveThreeThirteenthsOfTheFirst) {
  EXPECT_EQ(admitted(set, "ContractCall", after(0s), 11), 10);
  EXPECT_EQ(free_parts(1, 10), 0);
  EXPECT_EQ(free_parts(0, 13), 3);
  EXPECT_TRUE(decide(set, "CryptoTransfer", after(0s)));  // the first has room, the second is full
}

TEST_F(FourBuckets, HaveRoomForThreeThirteenthsOfTenThousandTransfersBesideTenContractCalls) {
  EXPECT_EQ(admitted(set, "ContractCall", after(0s), 10), 10);
  EXPECT_EQ(admitted(set, "CryptoTransfer", after(0s), 10'000), 3 * 10'000 / 13);
}

TEST_F(FourBuckets, AdmitTenThousandTransfersAtOnce) {
  EXPECT_EQ(admitted(set, "CryptoTransfer", after(0s), 10'001), 10'000);
}

TEST_F(FourBuckets, AdmitHalfOfEach) {
  EXPECT_EQ(admitted(set, "CryptoTransfer", after(0s), 5'000), 5'000);
  EXPECT_EQ(admitted(set, "ContractCall", after(0s), 13), 6);  // half of thirteen
}

// The first bucket alone.
TEST(FirstBucket, AdmitsThirteenAtOnceThenSixAfterHalfASecond) {
  Definitions definitions = definitions_of(example());
  definitions.buckets.resize(1);
  ThrottleSet set(definitions, {.role = SetRole::kConsensus, .clamp_clock = false});
  EXPECT_EQ(admitted(set, "ContractCreate", after(0s), 14), 13);
  EXPECT_EQ(admitted(set, "ContractCreate", after(500ms), 14), 6);
}

TEST(FirstBucket, AdmitsTheNextAfterAThirteenthOfASecond) {
  Definitions definitions = definitions_of(example());
  definitions.buckets.resize(1);
  ThrottleSet set(definitions, {.role = SetRole::kConsensus, .clamp_clock = false});
  EXPECT_EQ(admitted(set, "ContractCall", after(0s), 13), 13);
  EXPECT_FALSE(decide(set, "ContractCall", after(76'923'076ns)));
  EXPECT_TRUE(decide(set, "ContractCall", after(76'923'077ns)));
}

TEST(FirstBucket, IsEmptyAfterASecond) {
  Definitions definitions = definitions_of(example());
  definitions.buckets.resize(1);
  ThrottleSet set(definitions, {.role = SetRole::kConsensus, .clamp_clock = false});
  EXPECT_EQ(admitted(set, "ContractCall", after(0s), 13), 13);
  EXPECT_EQ(admitted(set, "ContractCall", after(1s), 14), 13);
}

}  // namespace
}  // namespace weir::system::throttle
