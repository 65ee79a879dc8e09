#include "weir/base/assert.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace weir {
namespace {

void shout(const AssertSite& site) { std::fprintf(stderr, "SHOUT %s\n", site.condition); }
void whisper(const AssertSite& site) { std::fprintf(stderr, "whisper %s\n", site.condition); }

void leave(const AssertSite& site) {
  std::fprintf(stderr, "leaving at %s:%d\n", site.file, site.line);
  std::_Exit(3);
}

class AssertDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  void TearDown() override { set_assert_handler(nullptr); }
};

TEST(Assert, PassesWhatHolds) {
  WEIR_ASSERT(1 + 1 == 2);
  SUCCEED();
}

TEST(Assert, EvaluatesItsConditionOnce) {
  int evaluations = 0;
  WEIR_ASSERT(++evaluations > 0);
  EXPECT_EQ(evaluations, 1);
}

TEST(Assert, HoldsInConstantExpressions) {
  constexpr int half = [](int even) {
    WEIR_ASSERT(even % 2 == 0);
    return even / 2;
  }(6);
  static_assert(half == 3);
}

TEST_F(AssertDeathTest, ReportsPlaceAndConditionAndAborts) {
  EXPECT_EXIT(WEIR_ASSERT(1 + 1 == 3), ::testing::KilledBySignal(SIGABRT),
              "assert_test\\.cc:[0-9]+: assertion failed: 1 \\+ 1 == 3");
}

TEST_F(AssertDeathTest, GoesToAReplacedHandler) {
  set_assert_handler(&leave);
  EXPECT_EXIT(WEIR_ASSERT(false), ::testing::ExitedWithCode(3),
              "leaving at .*assert_test\\.cc:[0-9]+");
}

TEST_F(AssertDeathTest, AbortsEvenIfAReplacedHandlerReturns) {
  set_assert_handler(&shout);
  EXPECT_EXIT(WEIR_ASSERT(false), ::testing::KilledBySignal(SIGABRT), "SHOUT false");
}

TEST_F(AssertDeathTest, GoesToTheDefaultAgainAfterNullptr) {
  set_assert_handler(&shout);
  set_assert_handler(nullptr);
  EXPECT_DEATH(WEIR_ASSERT(false), "assertion failed: false");
}

TEST(SetAssertHandler, ReturnsTheFormerOne) {
  const AssertHandler original = set_assert_handler(&shout);
  EXPECT_EQ(set_assert_handler(&whisper), &shout);
  EXPECT_EQ(set_assert_handler(nullptr), &whisper);
  EXPECT_EQ(set_assert_handler(original), original);
}

}  // namespace
}  // namespace weir
