#include "weir/system/sampling/published/slots.h"

#include <gtest/gtest.h>

namespace weir::system::sampling {
namespace {

constexpr std::int64_t kNow = 1'700'000'000;

std::int64_t after(std::int64_t slots, std::int64_t success, std::int64_t rate_limited) {
  const Adjustment made = adjust({}, {.slots = slots}, {success, rate_limited}, kNow);
  return made.slots.value_or(-1);
}

TEST(Slots, GrowSlowlyAndAreCutFast) {
  EXPECT_EQ(after(40, 90, 10), 42);
  EXPECT_EQ(after(40, 89, 11), 40);
  EXPECT_EQ(after(40, 70, 30), 40);
  EXPECT_EQ(after(40, 69, 31), 37);
  EXPECT_EQ(after(40, 49, 51), 28);
  EXPECT_EQ(after(45, 29, 71), 22);
}

TEST(Slots, StayWithinTheirRange) {
  EXPECT_EQ(after(49, 100, 0), 50);
  EXPECT_EQ(after(21, 0, 100), 20);
  EXPECT_EQ(after(0, 100, 0), 27) << "none stored: the usual 25";
}

TEST(Slots, WaitForTheirTimeAndForEnoughSamples) {
  EXPECT_EQ(after(40, 29, 0), -1);
  EXPECT_EQ(after(40, 30, 0), 42);
  const Samples good{100, 0};
  EXPECT_FALSE(adjust({}, {40, kNow - 7199}, good, kNow).slots);
  EXPECT_TRUE(adjust({}, {40, kNow - 7200}, good, kNow).slots);
}

TEST(Slots, AreRaisedToTheMinimumAtOnce) {
  const Adjustment made = adjust({}, {6, kNow - 1}, {}, kNow);
  EXPECT_TRUE(made.changed);
  EXPECT_EQ(made.slots, 20);
  EXPECT_EQ(adjust({}, {-5, kNow - 1}, {}, kNow).slots, 20) << "below the minimum, not unset";
}

TEST(Slots, SayWhetherTheNumberIsAnother) {
  EXPECT_FALSE(adjust({}, {.slots = 50}, {100, 0}, kNow).changed);
  EXPECT_TRUE(adjust({}, {.slots = 48}, {100, 0}, kNow).changed);
}

}  // namespace
}  // namespace weir::system::sampling
