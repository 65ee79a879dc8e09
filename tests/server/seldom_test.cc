#include "weir/server/seldom.h"

#include <gtest/gtest.h>

#include <chrono>

namespace weir::server {
namespace {

TEST(Seldom, TellsTheFirstAndThenHowManyCameMeanwhile) {
  using namespace std::chrono_literals;
  constexpr Instant kBegin{1'800'000'000'000'000'000};
  Seldom seldom(10s);
  EXPECT_EQ(seldom.count(kBegin), 1u);
  EXPECT_EQ(seldom.count(kBegin), 0u);
  EXPECT_EQ(seldom.count(kBegin + 10s - 1ns), 0u);
  EXPECT_EQ(seldom.count(kBegin + 10s), 3u);
  EXPECT_EQ(seldom.count(kBegin + 11s), 0u);
  EXPECT_EQ(seldom.count(kBegin + 1h), 2u);
}

}  // namespace
}  // namespace weir::server
