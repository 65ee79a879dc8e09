#include "weir/system/throttle/published/congestion.h"

#include "tests/system/throttle/support.h"
#include "weir/system/throttle/published/entity_scale.h"
#include "weir/system/throttle/published/high_volume_price.h"

namespace weir::system::throttle {
namespace {

constexpr std::string_view kTransfers = R"({"buckets": [{"name": "T", "burstPeriod": 1,
  "throttleGroups": [{"opsPerSec": 100, "operations": ["CryptoTransfer"]}]}]})";

TEST(Congestion, RaisesTheFeeOnceATierHasLastedItsPeriod) {
  ThrottleSet set = consensus_of(kTransfers);
  Congestion congestion(*parse_tiers("50,2x,90,10x"), 2);
  for (int half_seconds = 0; half_seconds < 4; ++half_seconds) {
    admitted(set, "CryptoTransfer", after(500ms * half_seconds), 100);
    congestion.refresh(set, after(500ms * half_seconds));
    EXPECT_EQ(congestion.generic().multiplier(), 1) << half_seconds;
  }
  admitted(set, "CryptoTransfer", after(2s), 100);
  congestion.refresh(set, after(2s));
  EXPECT_EQ(congestion.generic().multiplier(), 10);
  EXPECT_EQ(congestion.gas().multiplier(), 1);
}

TEST(Congestion, UsesTheStoredLevelNotTheLeakedOne) {
  ThrottleSet set = consensus_of(kTransfers);
  Congestion congestion(*parse_tiers("50,2x"), 0);
  admitted(set, "CryptoTransfer", after(0s), 100);
  congestion.refresh(set, after(1h));
  EXPECT_EQ(congestion.generic().multiplier(), 2);
}

TEST(Congestion, TakesOtherTiersForANewStart) {
  ThrottleSet set = consensus_of(kTransfers);
  Congestion congestion(*parse_tiers("50,2x"), 1);
  admitted(set, "CryptoTransfer", after(0s), 100);
  congestion.refresh(set, after(0s));
  congestion.configure(*parse_tiers("50,3x"), 1);
  congestion.refresh(set, after(1s));
  EXPECT_EQ(congestion.generic().multiplier(), 1);
  congestion.refresh(set, after(2s));
  EXPECT_EQ(congestion.generic().multiplier(), 3);
}

TEST(Congestion, ExplainsTiersItCannotRead) {
  const auto tiers = parse_tiers("90, 10x");
  ASSERT_FALSE(tiers.ok());
  EXPECT_EQ(tiers.error().message,
            "congestion multipliers are '90, 10x', but they must be percentages from 0 to 100 and "
            "multipliers in turn, both rising, without spaces; write such as '90,10x,95,25x'");
}

TEST(EntityScales, RaiseTheMultiplierOfWhatCreatesEntities) {
  const auto scales = EntityScales::parse("DEFAULT(50,3:2),NFT(0,1:1,95,7:2)");
  ASSERT_TRUE(scales.ok());
  EXPECT_EQ(scales->factor(EntityKind::kAccount, 49), (ScaleFactor{1, 1}));
  EXPECT_EQ(scales->factor(EntityKind::kAccount, 50), (ScaleFactor{3, 2}));
  EXPECT_EQ(scales->factor(EntityKind::kNft, 95), (ScaleFactor{7, 2}));
  EXPECT_EQ(scales->factor(created_by(operation::kTokenMint, 0), 99), (ScaleFactor{1, 1}));
  EXPECT_EQ(percent_of(1, 3), 33);
  EXPECT_EQ(percent_of(1, 0), 100);
  EXPECT_FALSE(EntityScales::parse("ACCOUNTS(90,2:1)").ok());
}

TEST(HighVolumePrice, IsALineBetweenItsPoints) {
  const HighVolumePrice price{10'000, {{0, 1'000}, {5'000, 2'000}, {10'000, 8'000}}};
  EXPECT_EQ(multiplier_at(price, 2'500), 1'500);
  EXPECT_EQ(multiplier_at(price, 5'000), 2'000);
  EXPECT_EQ(multiplier_at(price, 7'500), 5'000);
  EXPECT_EQ(multiplier_at({3'000, {}}, 5'000), 2'000);
}

}  // namespace
}  // namespace weir::system::throttle
