#include "weir/system/contract/published.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

TEST(Published, DebitsEveryPolicyAndWaitsForTheSlowest) {
  Published published({requests_per(2, 2s), units_per(10, 10s)}, kStart);
  EXPECT_EQ(published.ask(units(10), kStart)->delay_ns, 0);
  const Delay asked = *published.ask(units(0.5), kStart);
  EXPECT_EQ(asked.delay_ns, 500'000'000);
  EXPECT_EQ(asked.binding, 1u);
  EXPECT_EQ(left_micro(published.policies()[0], published.levels_fs()[0]), 0);
  EXPECT_EQ(left_micro(published.policies()[1], published.levels_fs()[1]), -500'000);
}

TEST(Published, StacksDeficits) {
  Published published({requests_per(1, 1s)}, kStart);
  for (int k = 0; k < 5; ++k) {
    EXPECT_EQ(published.ask({}, kStart)->delay_ns, Wide{k} * 1'000'000'000);
  }
}

TEST(Published, GivesAFixedQuotaADelayBeyond63Bits) {
  Published published({requests_per(1, 0s)}, kStart);
  ASSERT_TRUE(published.ask({}, kStart));
  ASSERT_TRUE(published.ask({}, kStart));
  EXPECT_EQ(published.ask({}, kStart)->delay_ns, Wide{kNeverRefills} * 2);
}

TEST(Published, TakesNothingForCostsThatCannotBeMeant) {
  Published published({units_per(10, 10s)}, kStart);
  EXPECT_FALSE(published.ask({kMicro, -5 * kMicro}, kStart));
  EXPECT_FALSE(published.ask({kMicro, kCostMicroMax + 1}, kStart));
  EXPECT_EQ(published.levels_fs()[0], full_fs(published.policies()[0]));
}

TEST(Published, RefusesADebtThatCannotBeCounted) {
  Published published({*make_policy(Resource::kProcessingUnits, 1, 0s)}, kStart);
  ASSERT_TRUE(published.ask({0, kCostMicroMax}, kStart));
  ASSERT_TRUE(published.ask({0, kCostMicroMax}, kStart));
  const Wide owed = published.levels_fs()[0];
  EXPECT_EQ(published.ask({0, kCostMicroMax}, kStart).error().code, ErrorCode::kExhausted);
  EXPECT_EQ(published.levels_fs()[0], owed);
}

TEST(Published, CountsTimeRunningBackwardsAsNone) {
  Published published({requests_per(1, 1s)}, kStart);
  ASSERT_TRUE(published.ask({}, kStart + 1s));
  EXPECT_EQ(published.ask({}, kStart)->delay_ns, 1'000'000'000);
}

}  // namespace
}  // namespace weir::system::contract
