#include "weir/system/contract/period.h"

#include "tests/system/contract/support.h"

namespace weir::system::contract {
namespace {

TEST(Period, ReadsDaysHoursMinutesAndSeconds) {
  EXPECT_EQ(*parse_period("PT1M"), 1min);
  EXPECT_EQ(*parse_period("PT744H"), 744h);
  EXPECT_EQ(*parse_period("P31D"), 744h);
  EXPECT_EQ(*parse_period("P1DT2H3M4.5S"), 26h + 3min + 4500ms);
  EXPECT_EQ(*parse_period("pt1h"), 1h);
}

TEST(Period, ReadsAFractionOfUpToNineDigits) {
  EXPECT_EQ(*parse_period("PT0.000000001S"), 1ns);
  EXPECT_EQ(*parse_period("PT0,5S"), 500ms);
  EXPECT_FALSE(parse_period("PT0.0000000001S"));
  EXPECT_FALSE(parse_period("PT1.S"));
}

TEST(Period, ReadsSigns) {
  EXPECT_EQ(*parse_period("-PT1M"), -1min);
  EXPECT_EQ(*parse_period("PT-1M"), -1min);
  EXPECT_EQ(*parse_period("-PT-1M"), 1min);
  EXPECT_EQ(*parse_period("+PT+1M"), 1min);
  EXPECT_EQ(*parse_period("PT-0.5S"), -500ms);
}

TEST(Period, RefusesWhatIsNotOneByName) {
  for (const char* text : {"", "P", "PT", "1M", "P1M", "P1Y", "P1W", "PT1.5M", "PT1M1H", "PT1H ",
                           "P1DT", "PT1M1M", "PTS", "P1H", "PT1", "PTT1M", "P--1D"}) {
    const auto period = parse_period(text);
    ASSERT_FALSE(period) << text;
    EXPECT_NE(period.error().message.find(text), std::string::npos) << text;
  }
}

TEST(Period, RefusesMoreThan63BitsOfNanoseconds) {
  EXPECT_EQ(parse_period("PT9223372036.854775806S")->count(), 9'223'372'036'854'775'806);
  EXPECT_FALSE(parse_period("PT9223372036.854775807S"));
  EXPECT_FALSE(parse_period("P99999999999999999999999999999D"));
  EXPECT_FALSE(parse_period("PT" + std::string(70, '1') + "S"));
}

TEST(Period, IsWrittenInHoursMinutesAndSeconds) {
  EXPECT_EQ(period_text(744h), "PT744H");
  EXPECT_EQ(period_text(0s), "PT0S");
  EXPECT_EQ(period_text(90min), "PT1H30M");
  EXPECT_EQ(period_text(1h + 37900ms), "PT1H37.9S");
  EXPECT_EQ(period_text(1ns), "PT0.000000001S");
}

TEST(Period, GivesTheRefillIntervalRoundedDown) {
  EXPECT_EQ(refill_interval(1min, 7), 8'571'428'571);
  EXPECT_EQ(refill_interval(744h, 400'000), 6'696'000'000);
  EXPECT_EQ(refill_interval(0s, 7), kNeverRefills);
  EXPECT_EQ(refill_interval(1min, 0), kNeverRefills);
  EXPECT_EQ(refill_interval(1ns, 2), 0);
}

}  // namespace
}  // namespace weir::system::contract
