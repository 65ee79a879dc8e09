// Properties of the buckets, against a plain model in wide integers.

#include <algorithm>

#include "tests/meter/property.h"
#include "tests/system/throttle/support.h"
#include "weir/system/throttle/published/operation_bucket.h"
#include "weir/system/throttle/published/scalar_bucket.h"

namespace weir::system::throttle {
namespace {

using meter::between;
using meter::for_all;

struct Ask {
  std::int64_t wait_ns;
  std::int32_t n;
};

std::vector<Ask> any_asks() {
  std::vector<Ask> asks(static_cast<std::size_t>(*between(1, 40)));
  for (Ask& ask : asks) {
    ask.wait_ns = *rc::gen::oneOf(between(0, 5), between(0, 2'000'000'000));
    ask.n = static_cast<std::int32_t>(*between(0, 20));
  }
  return asks;
}

TEST(OperationBucket, IsTheExactLeakyBucket) {
  for_all([] {
    const std::int64_t rate = *between(1, 5'000'000);
    const std::int64_t burst_ms = *between(1, 10'000);
    const auto made = OperationBucket::make(rate, burst_ms);
    const Exact capacity = Exact(rate) * 1'000'000 * burst_ms;
    RC_ASSERT(made.has_value() == (capacity >= kUnitsPerOperation));
    if (!made) return;
    OperationBucket bucket = *made;
    Exact level = 0;
    Instant now = kStart;
    for (const Ask& ask : any_asks()) {
      now = now + Duration{ask.wait_ns};
      level = std::max<Exact>(0, level - Exact(ask.wait_ns) * rate);
      const Exact units = Exact(ask.n) * kUnitsPerOperation;
      const bool fits = level + units <= capacity;
      const auto wait = bucket.fits_after_ns(ask.n, moment_of(now));
      const Answer said = bucket.claim(ask.n, moment_of(now));
      RC_ASSERT(said.ok());
      RC_ASSERT(*said == fits);
      RC_ASSERT(wait.has_value() == (units <= capacity));
      if (wait) {
        RC_ASSERT((*wait == 0) == fits);
        // At that instant it fits, and one nanosecond before it does not.
        RC_ASSERT(level + units - Exact(*wait) * rate <= capacity);
        RC_ASSERT(*wait == 0 || level + units - Exact(*wait - 1) * rate > capacity);
      }
      if (fits) level += units;
      RC_ASSERT(Exact(bucket.used()) == level);
    }
  });
}

TEST(OperationBucket, IsTheSameAfterARestoredUsage) {
  for_all([] {
    OperationBucket bucket = OperationBucket::make(*between(1'000, 1'000'000), 2'000).value();
    OperationBucket other = bucket;
    Instant now = kStart;
    for (const Ask& ask : any_asks()) {
      now = now + Duration{ask.wait_ns};
      RC_ASSERT(other.restore(bucket.usage()) == Anomaly::kNone);
      const Answer a = bucket.claim(ask.n, moment_of(now));
      const Answer b = other.claim(ask.n, moment_of(now));
      RC_ASSERT(*a == *b);
      RC_ASSERT(bucket.usage() == other.usage());
    }
  });
}

TEST(ScalarBucket, FitsExactlyWhenItSaysItWill) {
  for_all([] {
    ScalarBucket bucket = ScalarBucket::make(*between(1, 20'000'000)).value();
    RC_ASSERT(bucket.claim(*between(0, bucket.capacity()), moment_of(kStart)).ok());
    const std::int64_t units = *between(0, bucket.capacity());
    const Instant asked = kStart + Duration{*between(0, 2'000'000'000)};
    const auto wait = bucket.fits_after_ns(units, moment_of(asked));
    RC_ASSERT(wait.has_value());
    ScalarBucket then = bucket;
    RC_ASSERT(*then.claim(units, moment_of(asked + Duration{*wait})));
    if (*wait == 0) return;
    ScalarBucket before = bucket;
    RC_ASSERT(!*before.claim(units, moment_of(asked + Duration{*wait - 1})));
  });
}

TEST(OperationBucket, RefusesAnEarlierMomentAndKeepsItsState) {
  OperationBucket bucket = OperationBucket::make(1'000, 5'000).value();
  ASSERT_TRUE(*bucket.claim(2, after(1s)));
  const Usage before = bucket.usage();
  EXPECT_EQ(bucket.claim(1, after(0s)).anomaly(), Anomaly::kTimeWentBackwards);
  EXPECT_EQ(bucket.usage(), before);
}

TEST(OperationBucket, MovesItsClockThoughItRefuses) {
  OperationBucket bucket = OperationBucket::make(1'000, 1'000).value();
  ASSERT_TRUE(*bucket.claim(1, after(0s)));
  EXPECT_FALSE(*bucket.claim(1, after(100ms)));
  EXPECT_EQ(bucket.decided(), after(100ms));
}

TEST(ScalarBucket, LosesFractionsWhenItIsAskedOften) {
  ScalarBucket bucket = ScalarBucket::make(15'000'000).value();
  ASSERT_TRUE(*bucket.claim(15'000'000, after(0s)));
  for (int i = 1; i <= 1'000; ++i) ASSERT_FALSE(*bucket.claim(1, after(66ns * i)));
  EXPECT_EQ(bucket.used(), 15'000'000);
  EXPECT_TRUE(*bucket.claim(1, after(66'000ns + 67ns)));
}

TEST(DurationBucketProperty, SaysTheFirstInstantAtWhichAnythingIsFree) {
  for_all([] {
    DurationBucket bucket(*between(1, 1'000'000), *between(1, 1'000'000'000));
    Moment now = after(0s);
    for (std::int64_t i = *between(1, 5); i > 0; --i) {
      now = moment_of(instant_of(now) + Duration{*between(0, 1'000'000)});
      RC_ASSERT(bucket.use(*between(0, 1'000'000), now) == Anomaly::kNone);
    }
    const std::optional<std::int64_t> ns = bucket.free_after_ns(now);
    RC_ASSERT(ns.has_value());
    RC_ASSERT(bucket.free_at(moment_of(instant_of(now) + Duration{*ns})) > 0);
    RC_ASSERT(*ns == 0 || bucket.free_at(moment_of(instant_of(now) + Duration{*ns - 1})) == 0);
  });
}

TEST(DurationBucket, MayBeFilledBeyondItsCapacity) {
  DurationBucket bucket(100, 10);
  ASSERT_EQ(bucket.use(250, after(0s)), Anomaly::kNone);
  EXPECT_EQ(bucket.free_at(after(0s)), 0);
  EXPECT_EQ(bucket.free_at(after(15s)), 0);
  EXPECT_EQ(bucket.free_at(after(16s)), 10);
  EXPECT_EQ(bucket.percent_used_now(), 250.0);
}

}  // namespace
}  // namespace weir::system::throttle
