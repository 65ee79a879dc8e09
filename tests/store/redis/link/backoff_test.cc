#include "weir/store/redis/link/backoff.h"

#include <gtest/gtest.h>

#include "tests/support/seed.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, DoublesWithinItsBoundsAndBeginsAgain) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(::testing::Message() << "reproduce with WEIR_SEED=" << seed);
  Backoff backoff(20ms, 100ms, seed);
  for (int round = 0; round < 100; ++round) {
    for (const Duration most : {20ms, 40ms, 80ms, 100ms, 100ms}) {
      const Duration wait = backoff.next();
      EXPECT_GE(wait, most / 2);
      EXPECT_LE(wait, most);
    }
    backoff.reset();
  }
}

TEST(Backoff, IsNotInStepWithAnother) {
  Backoff a(1s, 1s, 1);
  Backoff b(1s, 1s, 2);
  EXPECT_NE(a.next(), b.next());
}

}  // namespace
}  // namespace weir::store::redis
