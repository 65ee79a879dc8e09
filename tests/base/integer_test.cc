#include "weir/base/integer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace weir {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// gtest cannot print 128 bits.
std::int64_t narrow(Wide value) { return static_cast<std::int64_t>(value); }

TEST(FloorDiv, RoundsTowardsMinusInfinity) {
  static_assert(floor_div(7, 2) == 3);
  static_assert(floor_div(-7, 2) == -4);
  static_assert(floor_div(7, -2) == -4);
  static_assert(floor_div(-7, -2) == 3);
}

TEST(CeilDiv, RoundsTowardsPlusInfinity) {
  static_assert(ceil_div(7, 2) == 4);
  static_assert(ceil_div(-7, 2) == -3);
  static_assert(ceil_div(7, -2) == -3);
  static_assert(ceil_div(-7, -2) == 4);
}

TEST(FloorDiv, AndCeilDivAreExactWhereNothingIsLeftOver) {
  static_assert(floor_div(6, 2) == 3 && ceil_div(6, 2) == 3);
  static_assert(floor_div(-6, 2) == -3 && ceil_div(-6, 2) == -3);
  static_assert(floor_div(0, -5) == 0 && ceil_div(0, -5) == 0);
}

TEST(FloorDiv, AndCeilDivEncloseTheQuotientForAllSmallNumbers) {
  for (int dividend = -50; dividend <= 50; ++dividend) {
    for (int divisor = -12; divisor <= 12; ++divisor) {
      if (divisor == 0) continue;
      const std::int64_t below = narrow(floor_div(dividend, divisor));
      const std::int64_t above = narrow(ceil_div(dividend, divisor));
      const int left_over = divisor > 0 ? dividend : -dividend;
      const int magnitude = divisor > 0 ? divisor : -divisor;
      ASSERT_LE(below * magnitude, left_over) << dividend << " / " << divisor;
      ASSERT_GT((below + 1) * magnitude, left_over) << dividend << " / " << divisor;
      ASSERT_GE(above * magnitude, left_over) << dividend << " / " << divisor;
      ASSERT_LT((above - 1) * magnitude, left_over) << dividend << " / " << divisor;
    }
  }
}

TEST(FloorDiv, DividesAProductOfTwoLargestTerms) {
  constexpr Wide product = Wide{kTermMax} * kTermMax;
  static_assert(floor_div(product, kTermMax) == kTermMax);
  static_assert(floor_div(product + product - 1, kTermMax) == 2 * Wide{kTermMax} - 1);
  static_assert(ceil_div(product + product - 1, kTermMax) == 2 * Wide{kTermMax});
}

TEST(Saturate, KeepsWhatFits) {
  static_assert(saturate(0) == 0);
  static_assert(saturate(kMost) == kMost);
  static_assert(saturate(kLeast) == kLeast);
}

TEST(Saturate, TakesTheNearestBoundOneBeyond) {
  static_assert(saturate(Wide{kMost} + 1) == kMost);
  static_assert(saturate(Wide{kLeast} - 1) == kLeast);
  static_assert(saturate(Wide{kTermMax} * kTermMax) == kMost);
}

TEST(Saturating, IsTheNearestToTheWideResult) {
  constexpr std::int64_t values[] = {kLeast, kLeast + 1, -2, -1, 0, 1, 2, kMost - 1, kMost};
  for (const std::int64_t a : values) {
    for (const std::int64_t b : values) {
      EXPECT_EQ(saturating_add(a, b), saturate(Wide{a} + b)) << a << " + " << b;
      EXPECT_EQ(saturating_sub(a, b), saturate(Wide{a} - b)) << a << " - " << b;
    }
  }
}

TEST(Divide, TellsQuotientAndRemainder) {
  constexpr Division division = divide(17, 5);
  static_assert(division.quotient == 3);
  static_assert(division.remainder == 2);
}

TEST(Divide, LeavesNothingOverWhenDividingByOne) {
  constexpr Division division = divide(kMost, 1);
  static_assert(division.quotient == kMost);
  static_assert(division.remainder == 0);
}

// The largest dividend that takes the short way, and the smallest that does not.
TEST(Divide, AgreesWithItselfOnBothSidesOf64Bits) {
  constexpr Division narrow_way = divide(kMost, 10);
  static_assert(narrow_way.quotient == 922'337'203'685'477'580);
  static_assert(narrow_way.remainder == 7);
  constexpr Division wide_way = divide(Wide{kMost} + 1, 10);
  static_assert(wide_way.quotient == 922'337'203'685'477'580);
  static_assert(wide_way.remainder == 8);
}

TEST(Divide, GivesBackTheDividend) {
  const Wide dividend = Wide{kTermMax} * 999'999'937 + 123'456'789;
  const Division division = divide(dividend, kTermMax - 1);
  EXPECT_TRUE(Wide{division.quotient} * (kTermMax - 1) + division.remainder == dividend);
  EXPECT_GE(division.remainder, 0);
  EXPECT_LT(division.remainder, kTermMax - 1);
}

}  // namespace
}  // namespace weir
