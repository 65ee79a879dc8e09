#include "weir/store/redis/shared/lease.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr Instant kLeaseStart{1'800'000'000'000'000'000};

// A draw that was sent then is answered. Returns what does not fit.
std::int64_t heard(Lease& lease, Instant sent_at, Instant until, std::int64_t units) {
  lease.renew(sent_at, until);
  return lease.add(units);
}
constexpr engine::LeaseSpec kTerms{.most = 100, .length = 1s};

// A lease in use: `units` were drawn at the start.
Lease lease_of(std::int64_t units) {
  Lease lease(kTerms);
  heard(lease, kLeaseStart, kForever, units);
  return lease;
}

TEST(Lease, HoldsNothingAtFirst) {
  Lease lease(kTerms);
  EXPECT_EQ(lease.held(kLeaseStart), 0);
  EXPECT_FALSE(lease.take(kLeaseStart, 1));
  EXPECT_EQ(lease.target(), 0);
}

TEST(Lease, GivesOutWhatWasDrawnAndNoMore) {
  Lease lease = lease_of(5);
  EXPECT_TRUE(lease.take(kLeaseStart, 3));
  EXPECT_FALSE(lease.take(kLeaseStart, 3));
  EXPECT_TRUE(lease.take(kLeaseStart, 2));
  EXPECT_FALSE(lease.take(kLeaseStart, 1));
}

TEST(Lease, GivesOutUntilItsEndAndNotAtIt) {
  Lease lease = lease_of(5);
  EXPECT_TRUE(lease.take(kLeaseStart + 1s - 1ns, 1));
  EXPECT_FALSE(lease.take(kLeaseStart + 1s, 1));
  EXPECT_EQ(lease.expire(kLeaseStart + 1s - 1ns), 0);
  EXPECT_EQ(lease.expire(kLeaseStart + 1s), 4);
}

TEST(Lease, EndsEarlierIfItsWindowDoes) {
  Lease lease(kTerms);
  heard(lease, kLeaseStart, kLeaseStart + 10ms, 5);
  EXPECT_TRUE(lease.take(kLeaseStart + 10ms - 1ns, 1));
  EXPECT_FALSE(lease.take(kLeaseStart + 10ms, 1));
}

TEST(Lease, IsProlongedByADrawFromWhenThatWasSent) {
  Lease lease = lease_of(5);
  EXPECT_EQ(heard(lease, kLeaseStart + 600ms, kForever, 1), 0);
  EXPECT_EQ(lease.held(kLeaseStart + 1600ms - 1ns), 6);
  EXPECT_EQ(lease.held(kLeaseStart + 1600ms), 0);
}

TEST(Lease, NeverHoldsMoreThanItsMost) {
  Lease lease = lease_of(100);
  EXPECT_EQ(heard(lease, kLeaseStart, kForever, 1), 1);
  EXPECT_TRUE(lease.take(kLeaseStart, 10));
  EXPECT_EQ(heard(lease, kLeaseStart, kForever, 7), 0);
  EXPECT_EQ(lease.put_back(kLeaseStart, 10, 2), 9);  // two more may come
  EXPECT_EQ(lease.held(kLeaseStart), 98);
}

TEST(Lease, TakesNothingBackAfterItsEnd) {
  Lease lease = lease_of(5);
  ASSERT_TRUE(lease.take(kLeaseStart, 2));
  EXPECT_EQ(lease.put_back(kLeaseStart + 1s, 2, 0), 2);
}

TEST(Lease, WantsTwiceWhatIsUsedUpToItsMost) {
  Lease lease = lease_of(100);
  ASSERT_TRUE(lease.take(kLeaseStart, 3));
  EXPECT_EQ(lease.target(), 6);
  ASSERT_TRUE(lease.take(kLeaseStart, 47));
  EXPECT_EQ(lease.target(), 100);
  ASSERT_TRUE(lease.take(kLeaseStart, 50));
  EXPECT_EQ(lease.target(), 100);
}

TEST(Lease, IsLowBelowHalfOfWhatItWants) {
  Lease lease = lease_of(10);
  ASSERT_TRUE(lease.take(kLeaseStart, 4));
  EXPECT_FALSE(lease.is_low(kLeaseStart));  // 6 of 8
  ASSERT_TRUE(lease.take(kLeaseStart, 1));
  EXPECT_FALSE(lease.is_low(kLeaseStart));  // 5 of 10
  ASSERT_TRUE(lease.take(kLeaseStart, 1));
  EXPECT_TRUE(lease.is_low(kLeaseStart));  // 4 of 12
}

TEST(Lease, ThatNobodyUsedForALengthGoesBack) {
  Lease lease = lease_of(10);
  EXPECT_EQ(lease.tidy(kLeaseStart).surplus, 10);  // no request ever came

  heard(lease, kLeaseStart, kForever, 10);
  ASSERT_TRUE(lease.take(kLeaseStart, 4));
  heard(lease, kLeaseStart + 499ms, kForever, 0);
  EXPECT_EQ(lease.tidy(kLeaseStart + 499ms).surplus, 0);
  heard(lease, kLeaseStart + 999ms, kForever, 0);
  EXPECT_EQ(lease.tidy(kLeaseStart + 999ms).surplus, 0);
  heard(lease, kLeaseStart + 1500ms, kForever, 0);
  const Lease::Tidied tidied = lease.tidy(kLeaseStart + 1500ms);
  EXPECT_EQ(tidied.surplus, 6);
  EXPECT_TRUE(tidied.is_idle);
}

TEST(Lease, GivesBackWhatIsMoreThanTwiceWhatItWants) {
  Lease lease = lease_of(20);
  ASSERT_TRUE(lease.take(kLeaseStart, 2));
  const Lease::Tidied tidied = lease.tidy(kLeaseStart);
  EXPECT_EQ(tidied.surplus, 14);
  EXPECT_EQ(lease.held(kLeaseStart), 4);
  EXPECT_FALSE(tidied.is_idle);
}

TEST(Lease, IsOldAfterHalfItsLength) {
  Lease lease = lease_of(4);
  ASSERT_TRUE(lease.take(kLeaseStart, 2));
  EXPECT_FALSE(lease.tidy(kLeaseStart + 499ms).is_old);
  EXPECT_TRUE(lease.tidy(kLeaseStart + 500ms).is_old);
}

}  // namespace
}  // namespace weir::store::redis
