#include "weir/server/attempts.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace weir::server {
namespace {

using namespace std::chrono_literals;

constexpr Instant kFirstFailure{1'800'000'000'000'000'000};

TEST(Attempts, LetsAFewFailAndThenWaitLongerEachTime) {
  Attempts attempts;
  for (const Duration delay : {0ms, 0ms, 0ms, 250ms, 500ms, 1000ms, 2000ms, 2000ms}) {
    EXPECT_EQ(attempts.fail("203.0.113.7", kFirstFailure), delay);
  }
  for (int i = 0; i < 100; ++i) attempts.fail("203.0.113.7", kFirstFailure);
  EXPECT_EQ(attempts.fail("203.0.113.7", kFirstFailure), Attempts::kDelayMax);
  EXPECT_EQ(attempts.fail("203.0.113.8", kFirstFailure), 0ms);
}

TEST(Attempts, AreForgivenAMinuteAfterTheLast) {
  Attempts attempts;
  for (int i = 0; i < 4; ++i) attempts.fail("a", kFirstFailure);
  EXPECT_EQ(attempts.fail("a", kFirstFailure + 1min), 500ms);
  EXPECT_EQ(attempts.fail("a", kFirstFailure + 2min + 1ns), 0ms);
  // A clock that goes back forgives nothing.
  for (int i = 0; i < 3; ++i) attempts.fail("a", kFirstFailure + 2min);
  EXPECT_EQ(attempts.fail("a", kFirstFailure), 500ms);
}

TEST(Attempts, CountANetworkOfIpv6AsOne) {
  Attempts attempts;
  for (const char* address : {"2001:db8:1:2::1", "2001:db8:1:2:3::", "2001:db8:1:2:3:4:5:6"}) {
    EXPECT_EQ(attempts.fail(address, kFirstFailure), 0ms) << address;
  }
  EXPECT_EQ(attempts.addresses(), 1u);
  EXPECT_EQ(attempts.fail("2001:db8:1:2:ffff::1", kFirstFailure), 250ms);
  EXPECT_EQ(attempts.fail("2001:db8:1:3::1", kFirstFailure), 0ms);
  EXPECT_EQ(attempts.fail("::1", kFirstFailure), 0ms);
  EXPECT_EQ(attempts.addresses(), 3u);
  attempts.fail("::ffff:203.0.113.7", kFirstFailure);
  attempts.fail("203.0.113.7", kFirstFailure);
  EXPECT_EQ(attempts.addresses(), 4u);
}

TEST(Attempts, KeepNoMoreAddressesThanTheirBound) {
  Attempts attempts;
  for (int i = 0; i < 4; ++i) attempts.fail("first", kFirstFailure);
  for (std::size_t i = 1; i < Attempts::kAddressesMax; ++i) {
    attempts.fail(std::to_string(i), kFirstFailure);
  }
  EXPECT_EQ(attempts.addresses(), Attempts::kAddressesMax);
  EXPECT_EQ(attempts.fail("first", kFirstFailure), 500ms);
  attempts.fail("one more", kFirstFailure);
  EXPECT_EQ(attempts.addresses(), Attempts::kAddressesMax);
  EXPECT_EQ(attempts.fail("first", kFirstFailure), 1s);
  EXPECT_EQ(attempts.fail("1", kFirstFailure), 0ms);  // it has gone
}

}  // namespace
}  // namespace weir::server
