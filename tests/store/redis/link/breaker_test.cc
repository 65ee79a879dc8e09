#include "weir/store/redis/link/breaker.h"

#include <gtest/gtest.h>

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr Instant kStart{1'000'000'000};
constexpr BreakerShape kShape{.failures = 3, .probe_first = 100ms, .probe_last = 400ms};

Breaker opened() { return Breaker(kShape, 7); }

TEST(Breaker, OpensAtTheLastOfSoManyFailuresInARow) {
  Breaker breaker = opened();
  EXPECT_FALSE(breaker.failed(kStart));
  EXPECT_FALSE(breaker.failed(kStart));
  EXPECT_TRUE(breaker.may_ask(kStart));
  EXPECT_TRUE(breaker.failed(kStart));
  EXPECT_FALSE(breaker.may_ask(kStart));
  EXPECT_TRUE(breaker.is_open());
}

TEST(Breaker, CountsOnlyFailuresInARow) {
  Breaker breaker = opened();
  breaker.failed(kStart);
  breaker.failed(kStart);
  EXPECT_FALSE(breaker.succeeded());
  EXPECT_FALSE(breaker.failed(kStart));
  EXPECT_FALSE(breaker.failed(kStart));
  EXPECT_FALSE(breaker.is_open());
}

TEST(Breaker, LetsOneProbeThroughAtATime) {
  Breaker breaker = opened();
  for (int i = 0; i < 3; ++i) breaker.failed(kStart);
  EXPECT_FALSE(breaker.may_ask(kStart + 49ms));
  EXPECT_TRUE(breaker.may_ask(kStart + 100ms));
  EXPECT_FALSE(breaker.may_ask(kStart + 100ms));
  EXPECT_FALSE(breaker.failed(kStart + 120ms));
  // The second wait is 100 to 200 ms.
  EXPECT_FALSE(breaker.may_ask(kStart + 199ms));
  EXPECT_TRUE(breaker.may_ask(kStart + 300ms));
}

TEST(Breaker, ProbesAtOnceWhenTheStoreWasHeardOf) {
  Breaker breaker = opened();
  for (int i = 0; i < 3; ++i) breaker.failed(kStart);
  for (int i = 0; i < 5; ++i) breaker.may_ask(kStart + 400ms * i);  // now 200 to 400 ms apart
  const Instant heard = kStart + 1610ms;
  EXPECT_FALSE(breaker.may_ask(heard));
  breaker.heard_of(heard);
  EXPECT_TRUE(breaker.is_open());
  EXPECT_TRUE(breaker.may_ask(heard));
  EXPECT_FALSE(breaker.may_ask(heard + 49ms));
  EXPECT_TRUE(breaker.may_ask(heard + 100ms));
}

TEST(Breaker, ClosesWithASuccessAndSaysSoOnce) {
  Breaker breaker = opened();
  for (int i = 0; i < 3; ++i) breaker.failed(kStart);
  EXPECT_TRUE(breaker.succeeded());
  EXPECT_FALSE(breaker.succeeded());
  EXPECT_TRUE(breaker.may_ask(kStart));
}

TEST(Breaker, BeginsItsProbesAnewAfterASuccess) {
  Breaker breaker = opened();
  for (int i = 0; i < 3; ++i) breaker.failed(kStart);
  Instant now = kStart;
  for (int i = 0; i < 5; ++i) {
    now = now + 400ms;
    EXPECT_TRUE(breaker.may_ask(now));
  }
  breaker.succeeded();
  for (int i = 0; i < 3; ++i) breaker.failed(now);
  EXPECT_TRUE(breaker.may_ask(now + 100ms));
}

}  // namespace
}  // namespace weir::store::redis
