#include "weir/system/contract/policy.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

TEST(Policy, Accepts70000UnitsPer744Hours) {
  const auto policy = make_policy(Resource::kProcessingUnits, 70'000, 744h);
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->refill_ns, 38'262'857'142);
  // More than 63 bits, and exact all the same.
  EXPECT_EQ(left_micro(*policy, full_fs(*policy)), 70'000 * kMicro);
  EXPECT_GT(full_fs(*policy), Wide{1} << 63);
  EXPECT_EQ(wait_ns(full_fs(*policy)), Wide{70'000} * 38'262'857'142);
}

TEST(Policy, KeepsTheIntervalItIsGiven) {
  EXPECT_EQ(make_policy(Resource::kRequests, 1000, 1min, 61'000'000)->refill_ns, 61'000'000);
  EXPECT_EQ(make_policy(Resource::kRequests, 1000, 1min)->refill_ns, 60'000'000);
}

TEST(Policy, IsRefusedByName) {
  const auto name = [](std::int64_t capacity, Duration period,
                       std::optional<std::int64_t> refill_ns = std::nullopt) {
    return std::string(
        name_of(make_policy(Resource::kRequests, capacity, period, refill_ns).error()));
  };
  EXPECT_EQ(name(1, -1s), "bad_period");
  EXPECT_EQ(name(-1, 1s), "bad_capacity");
  EXPECT_EQ(name(kCapacityMax + 1, 1s), "bad_capacity");
  EXPECT_EQ(name(1000, 1ns), "bad_refill");
  EXPECT_EQ(name(1, 1s, 0), "bad_refill");
  EXPECT_EQ(name(1, 1s, -5), "bad_refill");
  EXPECT_EQ(name(1, 0s, 1000), "bad_refill");
  EXPECT_TRUE(make_policy(Resource::kRequests, kCapacityMax, 744h, kNeverRefills));
}

TEST(Policy, HasAnId) {
  EXPECT_EQ(policy_id(units_per(400'000, 744h)), "PU_400000_PT744H");
  EXPECT_EQ(policy_id(requests_per(5, 0s)), "RQ_5_PT0S");
}

TEST(Policy, RefillsExactlyAndNotBeyondItsCapacity) {
  const Policy policy = units_per(7, 1min);  // a unit every 8,571,428,571 ns
  EXPECT_EQ(left_micro(policy, refilled_fs(policy, 0, 8'571'428'570ns)), 999'999);
  EXPECT_EQ(left_micro(policy, refilled_fs(policy, 0, 8'571'428'571ns)), kMicro);
  EXPECT_EQ(refilled_fs(policy, full_fs(policy) - 1, 1h), full_fs(policy));
}

TEST(Policy, DoesNotRefillAFixedQuota) {
  const Policy policy = units_per(7, 0s);
  EXPECT_EQ(refilled_fs(policy, 0, 1000000h), 0);
}

TEST(Policy, HoldsLevelsAtTheirEnds) {
  EXPECT_EQ(debited_fs(kLevelMin + 5, 6), kLevelMin);
  EXPECT_EQ(debited_fs(kLevelMin + 6, 6), kLevelMin);
  EXPECT_EQ(debited_fs(kLevelMin + 7, 6), kLevelMin + 1);
  EXPECT_EQ(credited_fs(kLevelMax - 5, 6), kLevelMax);
  EXPECT_EQ(credited_fs(kLevelMax - 7, 6), kLevelMax - 1);
}

}  // namespace
}  // namespace weir::system::contract
