#include "weir/system/contract/costs.h"

#include <cmath>
#include <limits>

#include "tests/system/contract/support.h"
#include "weir/system/contract/fraction.h"

namespace weir::system::contract {
namespace {

TEST(Costs, AreReadExactly) {
  EXPECT_EQ(*parse_costs("", ""), (Costs{kMicro, 0}));
  EXPECT_EQ(*parse_costs("2", "0.64"), (Costs{2 * kMicro, 640'000}));
  EXPECT_EQ(*parse_costs("1", "1e-3"), (Costs{kMicro, 1'000}));
  EXPECT_EQ(*parse_costs("1", "1.5E+2"), (Costs{kMicro, 150 * kMicro}));
}

TEST(Costs, AreRoundedUpOnceToWholeMicroUnits) {
  EXPECT_EQ(parse_costs("1", "0.0000001")->processing_units_micro, 1);
  EXPECT_EQ(parse_costs("1", "42.6666666666666666666667")->processing_units_micro, 42'666'667);
  EXPECT_EQ(parse_costs("1", "0.000001")->processing_units_micro, 1);
  EXPECT_EQ(parse_costs("1", "0.0000010000000000000000000001")->processing_units_micro, 2);
  EXPECT_EQ(parse_costs("1", "1e-300")->processing_units_micro, 1);
}

TEST(Costs, OfANumberAreThoseOfTheDecimalItStandsFor) {
  // The double nearest to 0.1 is a little more; nobody means that.
  EXPECT_EQ(costs_of(1, 0.1)->processing_units_micro, 100'000);
  EXPECT_EQ(costs_of(1, 128.0 / 3)->processing_units_micro, 42'666'667);
  EXPECT_EQ(costs_of(1, -0.0)->processing_units_micro, 0);
}

TEST(Costs, ThatCannotBeMeantAreRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {-5.0, -1e-9, std::nan(""), kInfinity, -kInfinity, 1e300, 5e12}) {
    EXPECT_FALSE(costs_of(1, value)) << value;
    EXPECT_FALSE(costs_of(value, 1)) << value;
  }
  for (const char* text : {"-1", "NaN", "inf", "1,5", "0x10", "1e", "1e99999999999", ".5", "5.",
                           "1 ", "4611686018427.387905", "1e19"}) {
    EXPECT_FALSE(parse_costs("1", text)) << text;
  }
  EXPECT_FALSE(parse_costs("1", std::string(65, '1')));
}

TEST(Costs, MayBeAsLargeAs2To62MicroUnits) {
  EXPECT_EQ(parse_costs("1", "4611686018427.387904")->processing_units_micro, kCostMicroMax);
}

TEST(Costs, ThatWereMadeOtherwiseAreChecked) {
  EXPECT_FALSE(check_costs({kMicro, kCostMicroMax}));
  EXPECT_TRUE(check_costs({kMicro, kCostMicroMax + 1}));
  EXPECT_TRUE(check_costs({-1, 0}));
}

TEST(Fraction, IsRoundedDownForWhatIsLeft) {
  EXPECT_EQ(*micro_of("left", *parse_decimal("left", "0.0000019"), Rounding::kDown), 1);
  EXPECT_EQ(*micro_of("left", *parse_decimal("left", "0.0000019")), 2);
  EXPECT_EQ(*micro_of("left", {1, 3}, Rounding::kDown), 333'333);
}

}  // namespace
}  // namespace weir::system::contract
