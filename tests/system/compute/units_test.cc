#include "weir/system/compute/units.h"

#include <gtest/gtest.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <random>

#include "tests/support/seed.h"
#include "tests/system/compute/support.h"
#include "weir/system/compute/parameters.h"

namespace weir::system::compute {
namespace {

using boost::multiprecision::cpp_int;

TEST(Units, GivesATokenAUnitPerEpochBeforeBoost) {
  const Amount total = total_units(10'000 * kToken, 18'000, 10, kBasisPoints);
  EXPECT_EQ(parts_text(total), "1800000");
  EXPECT_EQ(parts_text(epoch_units(total, 18'000, 100)), "10000");
}

TEST(Units, AreBoostedByTheLengthOfTheLock) {
  // The example in the header.
  const std::int64_t blocks = 60 * kDayBlocks;
  const std::int64_t boost = boost_bp(kPublishedBoost, blocks * 12);
  EXPECT_EQ(boost, 12'000);
  const Amount total = total_units(10'000 * kToken, blocks, 10, boost);
  EXPECT_EQ(parts_text(total), "51840000");
  EXPECT_EQ(parts_text(epoch_units(total, blocks, 100)), "12000");
}

TEST(Units, AreTheWholeTotalWhenTheEpochIsLonger) {
  EXPECT_EQ(parts_text(epoch_units(500, 5, 150)), "500");
  EXPECT_EQ(parts_text(epoch_units(500, 150, 150)), "500");
  EXPECT_EQ(parts_text(epoch_units(500, 151, 150)), "496");
}

TEST(Units, AreExactAtEverySize) {
  const std::uint64_t seed = seed_of_test();
  SCOPED_TRACE(testing::Message() << "reproduce with WEIR_SEED=" << seed);
  std::mt19937_64 random(seed);
  const auto below = [&](int bits) {
    return static_cast<std::int64_t>(random() >> (64 - 1 - random() % static_cast<unsigned>(bits)));
  };
  for (int round = 0; round < 20'000; ++round) {
    const Amount amount =
        static_cast<Amount>(below(50)) * static_cast<Amount>(below(49)) % (kAmountMax + 1);
    const std::int64_t duration = below(40) + 1;
    const std::int64_t mana = below(40);
    const std::int64_t boost = below(19);
    const Amount total = total_units(amount, duration, mana, boost);
    const cpp_int exact = cpp_int(parts_text(amount)) * duration * mana * boost /
                          (cpp_int(10'000'000) * cpp_int("1000000000000000000"));
    ASSERT_EQ(parts_text(total), exact.str());
    const std::int64_t length = below(16) + 2;
    const cpp_int per_epoch = duration <= length ? exact : exact * length / duration;
    ASSERT_EQ(parts_text(epoch_units(total, duration, length)), per_epoch.str());
  }
}

TEST(Units, AreExactForTheLargestLock) {
  const Amount total = total_units(kAmountMax, kDurationMax, kManaMax, kBoostMax);
  EXPECT_EQ(parts_text(total), "120892581961462917470617600000000000");
  EXPECT_EQ(parts_text(epoch_units(total, kDurationMax, 99'999)),
            (cpp_int("120892581961462917470617600000000000") * 99'999 / kDurationMax).str());
}

TEST(Amounts, AreReadAndWrittenAsTokens) {
  EXPECT_EQ(*parse_tokens("amount", "10000"), 10'000 * kToken);
  EXPECT_EQ(*parse_tokens("amount", "0.5"), kToken / 2);
  EXPECT_EQ(*parse_tokens("amount", "0.000000000000000001"), 1u);
  EXPECT_EQ(tokens_text(10'000 * kToken + kToken / 4), "10000.25");
  EXPECT_EQ(tokens_text(1), "0.000000000000000001");
  EXPECT_EQ(*parse_tokens("amount", "1000000000000"), kAmountMax);
}

TEST(Amounts, AreRefusedUnlessTheyAreDecimalsWithinTheBound) {
  for (const char* text : {"", ".5", "5.", "-1", "1e3", "1.0000000000000000001", "1000000000000.1",
                           "9999999999999999999999999999999999999999999999"}) {
    EXPECT_FALSE(parse_tokens("amount", text).ok()) << text;
  }
  EXPECT_EQ(parse_parts("amount", "1.5").error().message,
            "amount is '1.5', but it must be a whole number of 10^-18 tokens, at most 10^30; write "
            "such as '10000000000000000000000'");
  EXPECT_TRUE(parse_parts("amount", "1000000000000000000000000000000").ok());
  EXPECT_FALSE(parse_parts("amount", "1000000000000000000000000000001").ok());
}

TEST(Parameters, AreRefusedWhereUnitsCouldLeave63Bits) {
  Parameters parameters;
  EXPECT_TRUE(validate(parameters).ok());
  parameters.mana = 11'000'000;
  EXPECT_TRUE(validate(parameters).ok());
  parameters.mana = 12'000'000;
  EXPECT_FALSE(validate(parameters).ok());
}

TEST(Parameters, AreRefusedOutOfTheirBounds) {
  const auto refuses = [](auto change) {
    Parameters parameters;
    change(parameters);
    return !validate(parameters).ok();
  };
  EXPECT_TRUE(refuses([](Parameters& p) { p.clock.length = 1; }));
  EXPECT_FALSE(refuses([](Parameters& p) { p.clock.length = 2; }));
  EXPECT_FALSE(refuses([](Parameters& p) { p.clock.length = 99'999; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.clock.length = 100'000; }));
  EXPECT_FALSE(refuses([](Parameters& p) { p.max_portals = 0; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.max_portals = kPortalsMax + 1; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.block_time_s = 0; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.min_lock = p.supply + 1; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.boost.clear(); }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.boost = {{10, 10'000}}; }));
  EXPECT_TRUE(refuses([](Parameters& p) { p.boost = {{0, 10'000}, {0, 20'000}}; }));
}

}  // namespace
}  // namespace weir::system::compute
