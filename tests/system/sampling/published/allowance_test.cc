#include "weir/system/sampling/published/allowance.h"

#include "tests/meter/property.h"
#include "tests/system/sampling/support.h"

namespace weir::system::sampling {
namespace {

using meter::between;
using meter::for_all;

std::optional<std::int64_t> allowed(std::int64_t count, std::int64_t interval_s,
                                    std::int64_t sampling_count, const Formula& formula = {}) {
  const auto result =
      allowance(formula, {count * kMicro, interval_s * kMicro, sampling_count * kMicro});
  EXPECT_TRUE(result.ok()) << (result ? "" : result.error().message);
  return result ? *result : std::nullopt;
}

constexpr Formula kDoubles{.arithmetic = Arithmetic::kDouble};

// The six cases of the published document, with the interval of 3600 written out.
TEST(Allowance, Case1NormalRotationIsSixAnHour) {
  EXPECT_EQ(allowed(5, 3600, 200), 6);
  EXPECT_EQ(allowed(5, 3600, 200, kDoubles), 6);
}

TEST(Allowance, Case2SlowRotationHasTheFloorOfFiveAnHour) {
  EXPECT_EQ(allowed(1, 3600, 200), 5);
  EXPECT_EQ(allowed(1, 3600, 200, kDoubles), 5);
}

TEST(Allowance, Case3APausedRotationIsLimitedAllTheSame) {
  // Whether it is paused is not even asked.
  EXPECT_EQ(allowed(5, 3600, 200), 6);
}

TEST(Allowance, Case4WithoutRotationThereIsTheFloor) {
  EXPECT_EQ(allowed(0, 3600, 200), 5);
  EXPECT_EQ(allowed(0, 0, 200), 5);
}

TEST(Allowance, Case5WithoutBothThereIsNoLimit) {
  EXPECT_EQ(allowed(0, 3600, 0), std::nullopt);
  EXPECT_EQ(allowed(0, 3600, 0, kDoubles), std::nullopt);
}

TEST(Allowance, Case6SystemModelsAreNeverLimited) {
  const auto sampling = sampling_of(spec_of({six_an_hour()}));
  for (const std::int64_t id : {0, 1001}) {
    Who who = miner();
    who.id = id;
    const Grant grant = granted(*sampling, who, 100, kStart);
    EXPECT_EQ(grant.granted, 100);
    EXPECT_EQ(grant.reason, Reason::kExempt);
  }
  Who last = miner();
  last.id = 1000;
  last.hotkey = "other";
  EXPECT_EQ(granted(*sampling, last, 100, kStart).granted, 6);
}

TEST(Allowance, TakesTheFloorOnlyWhenItIsLarger) {
  EXPECT_EQ(allowed(5, 3600, 288), 6);
  EXPECT_EQ(allowed(5, 3600, 289), 7);
  EXPECT_EQ(allowed(0, 0, 48), 1);
  EXPECT_EQ(allowed(0, 0, 49), 2);
}

TEST(Allowance, DiffersFromThePublishedDoublesWhereTheyRoundUp) {
  EXPECT_EQ(allowed(7, 1080, 0), 28);
  EXPECT_EQ(allowed(7, 1080, 0, kDoubles), 29);
  EXPECT_EQ(allowed(25, 4320, 0), 25);
  EXPECT_EQ(allowed(25, 4320, 0, kDoubles), 26);
}

TEST(Allowance, CountsInTheWindowThatItIsGiven) {
  EXPECT_EQ(allowed(5, 3600, 0, {.window_s = 1800}), 3);
  EXPECT_EQ(allowed(5, 3600, 0, {.margin_micro = kMicro}), 5);
  EXPECT_EQ(allowed(0, 0, 200, {.horizon_s = 24 * 3600}), 9);
}

TEST(Allowance, ReadsFractions) {
  const auto result = allowance({}, {2'500'000, 777'600'000, 0});
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 14);  // 2.5 * 3600 / 777.6 * 1.2 = 13.88
}

TEST(Allowance, RefusesWhatItsProductsCouldNotHold) {
  EXPECT_TRUE(allowance({}, {kParameterMicroMax, kParameterMicroMax, kParameterMicroMax}));
  EXPECT_FALSE(allowance({}, {kParameterMicroMax + 1, kMicro, 0}));
  EXPECT_FALSE(allowance({.margin_micro = kMarginMicroMax + 1}, {}));
  EXPECT_FALSE(allowance({.margin_micro = kMarginMicroMin - 1}, {}));
  EXPECT_FALSE(allowance({.window_s = 0}, {}));
  EXPECT_FALSE(allowance({.window_s = kSpanSecondsMax + 1}, {}));
  EXPECT_FALSE(allowance({.horizon_s = 0}, {}));
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kDouble}) {
    const Formula largest{
        .margin_micro = kMarginMicroMax, .window_s = kSpanSecondsMax, .arithmetic = arithmetic};
    EXPECT_FALSE(allowance(largest, {kParameterMicroMax, 1, 0})) << "beyond 2^62";
  }
}

TEST(Allowance, IsAtMostWhatOneStampCanCount) {
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kDouble}) {
    const Formula each_second{.horizon_s = 1, .window_s = 5, .arithmetic = arithmetic};
    const std::int64_t fifth = kAllowanceMax / 5;  // without a remainder
    EXPECT_EQ(*allowance(each_second, {0, 0, fifth * kMicro}), kAllowanceMax);
    const auto more = allowance(each_second, {0, 0, (fifth + 1) * kMicro});
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().message,
              "the allowance is more than 4294967295, which is as many as are counted; write a "
              "longer rotation_interval or smaller counts");
  }
}

// With a margin of 0 a list that rotates would be unlimited.
TEST(Allowance, HasALimitWithTheLeastMargin) {
  for (const Arithmetic arithmetic : {Arithmetic::kExact, Arithmetic::kDouble}) {
    const Formula least{.margin_micro = kMarginMicroMin, .arithmetic = arithmetic};
    EXPECT_EQ(*allowance(least, {1, kParameterMicroMax, 0}), 1);
  }
}

TEST(Allowance, SaysWhatIsWrongInTheUnitsItIsWrittenIn) {
  const auto message = [](const Formula& formula, const Rotation& rotation) {
    const auto said = allowance(formula, rotation);
    return said ? "none" : said.error().message;
  };
  EXPECT_EQ(message({.margin_micro = -1'500'000}, {}),
            "margin is -1.5, but it must be between 0.000001 and 1000; write one within it");
  EXPECT_EQ(message({}, {0, 0, kParameterMicroMax + 1}),
            "sampling_count is 1000000000.000001, but it must be at most 10^9; write one within "
            "it");
  EXPECT_EQ(message({.window_s = 0}, {}),
            "window is 0s, but it must be between 1s and 366 days; write one within it");
}

TEST(AllowanceProperty, IsTheLeastWholeNumberThatIsNotBelowBothTerms) {
  for_all([] {
    const Formula formula{.margin_micro = *between(kMarginMicroMin, kMarginMicroMax),
                          .horizon_s = *between(1, kSpanSecondsMax),
                          .window_s = *between(1, kSpanSecondsMax)};
    const Rotation rotation{*between(0, 1'000 * kMicro), *between(1, 1'000'000 * kMicro),
                            *between(0, 1'000 * kMicro)};
    const auto result = allowance(formula, rotation);
    RC_PRE(result.ok());
    const Exact rotated = exact_ceil_div(
        Exact{rotation.rotation_count_micro} * formula.window_s * formula.margin_micro,
        Exact{rotation.rotation_interval_micro} * kMicro);
    const Exact floor = exact_ceil_div(Exact{rotation.sampling_count_micro} * formula.window_s,
                                       Exact{formula.horizon_s} * kMicro);
    const Exact most = rotated > floor ? rotated : floor;
    RC_ASSERT(Exact{result->value_or(0)} == most);
  });
}

}  // namespace
}  // namespace weir::system::sampling
