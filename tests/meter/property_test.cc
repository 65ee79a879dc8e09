#include "tests/meter/property.h"

#include <gtest/gtest-spi.h>

namespace weir::meter {
namespace property_test {

TEST(Property, SaysHowToRepeatAFailure) {
  const std::string expected = "reproduce with WEIR_SEED=" + std::to_string(property_seed());

  EXPECT_NONFATAL_FAILURE(for_all([] { RC_ASSERT(*between(0, 99) < 0); }), expected);
}

TEST(Property, DrawsTheSameCasesFromTheSameSeed) {
  const auto draw = [] {
    std::vector<std::int64_t> drawn;
    for_all([&drawn] { drawn.push_back(*extreme_term()); });
    return drawn;
  };

  EXPECT_EQ(draw(), draw());
}

TEST(Property, DrawsBothEndsOfARange) {
  rc::Random random(property_seed());
  std::int64_t least = kTermMax;
  std::int64_t most = 1;
  for (int i = 0; i < 5'000; ++i) {
    const std::int64_t term = extreme_term()(random.split()).value();
    least = std::min(least, term);
    most = std::max(most, term);
  }

  EXPECT_EQ(least, 1);
  EXPECT_EQ(most, kTermMax);
}

}  // namespace property_test
}  // namespace weir::meter
