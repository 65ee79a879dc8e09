#include "weir/store/redis/pool/releases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weir/base/clock.h"

namespace weir::store::redis {
namespace {

using system::pool::Released;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

PoolRelease of_tokens(std::int64_t tokens) { return {.used = {tokens, 1}}; }

TEST(PoolReleases, AreNumberedInTheOrderInWhichTheyCame) {
  PoolReleases releases;
  EXPECT_EQ(releases.add(of_tokens(10)), 1u);
  EXPECT_EQ(releases.add(of_tokens(20)), 2u);
  EXPECT_EQ(releases.last_number(), 2u);
  EXPECT_EQ(releases.find(2)->used.tokens, 20);
  EXPECT_EQ(releases.find(3), nullptr);
}

// "release 7, 8, 9 sent; connection lost; registers: last was 8; sends 9 again" (model.h)
TEST(PoolReleases, AreSettledUpToTheNumberThatTheBooksHave) {
  PoolReleases releases;
  for (int i = 0; i < 3; ++i) releases.find(releases.add(of_tokens(i)))->is_sent = true;
  EXPECT_EQ(releases.take_until(2).size(), 2u);
  EXPECT_THAT(releases.unsent(), IsEmpty());
  releases.forget_sent();
  EXPECT_THAT(releases.unsent(), ElementsAre(3));
}

TEST(PoolReleases, GetANewNumberIfTheBooksCannotHaveThem) {
  PoolReleases releases;
  releases.find(releases.add(of_tokens(10)))->is_sent = true;
  releases.add(of_tokens(20));
  releases.renumber(1);
  EXPECT_EQ(releases.find(1), nullptr);
  EXPECT_EQ(releases.find(3)->used.tokens, 10);
  EXPECT_THAT(releases.unsent(), ElementsAre(2, 3));
  releases.renumber(1);  // settled since
  EXPECT_EQ(releases.last_number(), 3u);
}

TEST(PoolReleases, OfARegistrationThatHasEndedAreFencedAndCountNoSlot) {
  PoolReleases releases;
  releases.add(of_tokens(10));
  PoolRelease without_grant = of_tokens(20);
  without_grant.is_granted = false;
  releases.add(without_grant);
  EXPECT_EQ(releases.live_count(), 1);
  releases.fence();
  EXPECT_EQ(releases.live_count(), 0);
  EXPECT_TRUE(releases.find(3)->is_fenced);
  EXPECT_FALSE(releases.find(4)->is_fenced);
}

TEST(PoolReleases, GiveTheirCallbacksOnce) {
  PoolReleases releases;
  int called = 0;
  PoolRelease told = of_tokens(10);
  told.released = [&](Instant, Released) { ++called; };
  releases.add(told);
  releases.add(of_tokens(20));
  for (const auto& released : releases.take_callbacks()) released(Instant{}, Released::kStopped);
  EXPECT_EQ(called, 1);
  EXPECT_THAT(releases.take_callbacks(), IsEmpty());
  EXPECT_EQ(releases.take_until(2).size(), 2u);
}

TEST(PoolReleases, AreFullAtTheirBound) {
  PoolReleases releases;
  for (std::size_t i = 1; i < kReleasesKeptMax; ++i) releases.add({});
  EXPECT_FALSE(releases.is_full());
  releases.add({});
  EXPECT_TRUE(releases.is_full());
}

}  // namespace
}  // namespace weir::store::redis
