#include "weir/system/contract/processing_units.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

Work image(std::int64_t width, std::int64_t height, std::size_t bands) {
  return {.tiles = {{width, height}}, .bands = std::vector<std::string>(bands, "B")};
}

std::int64_t micro(const Work& work) { return *micro_of("cost", *processing_units(work)); }

TEST(ProcessingUnits, AreThoseOfThePublishedExamples) {
  EXPECT_EQ(*processing_units(image(512, 512, 3)), (Fraction{1, 1}));
  Work large = image(1024, 1024, 4);
  large.output = Output::kFloat32;
  large.samples = 2;
  large.orthorectify = true;
  EXPECT_EQ(*processing_units(large), (Fraction{128, 3}));
  EXPECT_EQ(micro(large), 42'666'667);
  EXPECT_EQ(*processing_units(image(20, 20, 2)), (Fraction{1, 150}));
}

TEST(ProcessingUnits, CountAtLeastAHundredthOfTheArea) {
  EXPECT_EQ(*processing_units(image(51, 51, 3)), (Fraction{1, 100}));
  EXPECT_EQ(*processing_units(image(52, 51, 3)), (Fraction{663, 65536}));
}

TEST(ProcessingUnits, DoNotCountTheMaskUnlessItIsAlone) {
  Work work = image(512, 512, 0);
  work.bands = {"B02", "dataMask"};
  EXPECT_EQ(*processing_units(work), (Fraction{1, 3}));
  work.bands = {"dataMask"};
  EXPECT_EQ(*processing_units(work), (Fraction{1, 3}));
}

TEST(ProcessingUnits, TakeTerrainCorrectionInsteadOfOrthorectification) {
  Work work = image(512, 512, 3);
  work.orthorectify = true;
  work.terrain_correct = true;
  EXPECT_EQ(*processing_units(work), (Fraction{5, 2}));
  work.speckle_filter = true;
  EXPECT_EQ(*processing_units(work), (Fraction{5, 1}));
}

TEST(ProcessingUnits, CountFusionFromTwoCollectionsOn) {
  Work work = image(512, 512, 3);
  work.remote_collections = 1;
  EXPECT_EQ(*processing_units(work), (Fraction{1, 1}));
  work.local_collections = 1;
  EXPECT_EQ(*processing_units(work), (Fraction{3, 1}));
}

TEST(ProcessingUnits, HaveAMinimum) {
  Work work = image(1, 1, 1);
  EXPECT_EQ(micro(work), 5'000);
  work.api = Api::kStatistical;
  EXPECT_EQ(micro(work), 10'000);
  work.api = Api::kAsync;
  EXPECT_EQ(micro(work), 10 * kMicro);
  work.api = Api::kBatch;
  EXPECT_EQ(micro(work), 100 * kMicro);
  EXPECT_EQ(micro({.api = Api::kByocWrite}), kMicro);
}

TEST(ProcessingUnits, AreCheaperInLargeBatches) {
  Work work = image(5120, 5120, 3);
  EXPECT_EQ(micro(work), 100 * kMicro);
  work.api = Api::kAsync;
  EXPECT_EQ(*processing_units(work), (Fraction{200, 3}));
  work.api = Api::kBatch;
  work.tiles = {{5120, 5120}, {5120, 5120}, {5120, 5120}, {5120, 5120}, {90, 90}};
  EXPECT_EQ(*processing_units(work), (Fraction{Wide{400} * 65536 + 3 * 2025, 3 * 65536}));
}

TEST(ProcessingUnits, OfACatalogueAreBetweenAHundredthAndOne) {
  const auto of = [](std::string_view area, std::string_view months) {
    return micro({.api = Api::kCatalog,
                  .area_km2 = *parse_decimal("area", area),
                  .months = *parse_decimal("months", months)});
  };
  EXPECT_EQ(of("1", "1"), 10'000);
  EXPECT_EQ(of("100000", "1.1"), 200'000);
  EXPECT_EQ(of("100000", "2"), 200'000);
  EXPECT_EQ(of("5e6", "1"), kMicro);
}

TEST(ProcessingUnits, CountWhatIsAnnouncedOnlyWhereItIsGiven) {
  Work work = image(512, 512, 3);
  work.announced.evalscript_ms = 200;
  EXPECT_EQ(micro(work), kMicro);
  work.announced.evalscript_ms = 301;
  EXPECT_EQ(micro(work), 2 * kMicro);
  work.announced.delivered_mb = {100, 1};
  EXPECT_EQ(micro(work), 5 * kMicro);
}

TEST(ProcessingUnits, OfEqualTilesAreThoseOfOneTimesTheirCount) {
  Work many = image(512, 512, 3);
  many.api = Api::kBatch;
  many.tiles.assign(20'000, {512, 512});
  Work counted = many;
  counted.tiles.assign(1, {512, 512, 20'000});
  EXPECT_EQ(micro(counted), micro(many));
  counted.tiles.assign(2, {512, 512, 10'000});
  EXPECT_EQ(micro(counted), micro(many));
}

TEST(ProcessingUnits, OfAbsurdWorkAreRefused) {
  EXPECT_FALSE(processing_units(image(-1, 5, 3)));
  EXPECT_FALSE(processing_units(image(5, kSideMax + 1, 3)));
  EXPECT_FALSE(processing_units(image(5, 5, 0)));
  EXPECT_FALSE(processing_units(image(5, 5, kBandsMax + 1)));
  EXPECT_FALSE(processing_units({.bands = {"B"}}));
  Work work = image(5, 5, 3);
  work.samples = 0;
  EXPECT_FALSE(processing_units(work));
  work.samples = 1;
  work.tiles.assign(kTilesMax + 1, {1, 1});
  EXPECT_FALSE(processing_units(work));
  work.tiles.assign(1, {1, 1, 0});
  EXPECT_FALSE(processing_units(work));
  work.tiles.assign(1, {1, 1, kTileCountMax + 1});
  EXPECT_FALSE(processing_units(work));
  work.tiles.assign(1, {1, 1});
  work.local_collections = -1;
  EXPECT_FALSE(processing_units(work));
  EXPECT_FALSE(processing_units({.api = Api::kCatalog, .area_km2 = {-1, 1}, .months = {1, 1}}));
}

TEST(ProcessingUnits, OfTheLargestWorkAreCountedOrRefusedWhenDebited) {
  Work work = image(kSideMax, kSideMax, kBandsMax);
  work.samples = kFactorMax;
  const auto cost = processing_units(work);
  ASSERT_TRUE(cost);
  EXPECT_FALSE(micro_of("cost", *cost));
}

}  // namespace
}  // namespace weir::system::contract
