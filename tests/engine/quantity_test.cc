#include "weir/engine/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "weir/base/integer.h"

namespace weir::engine {
namespace {

struct Case {
  std::string text;
  std::int64_t expected;
};

// --- durations

TEST(Span, MayBeNothingWhereADurationMayNot) {
  for (const std::string_view text : {"0s", "0ns", "0h0m"}) {
    ASSERT_TRUE(parse_span("wait", text)) << text;
    EXPECT_EQ(parse_span("wait", text)->count(), 0) << text;
    EXPECT_FALSE(parse_duration("wait", text)) << text;
  }
  EXPECT_EQ(*parse_span("wait", "1m30s"), *parse_duration("wait", "90s"));
  EXPECT_FALSE(parse_span("wait", "0"));
}

TEST(ParseDuration, ReadsEveryUnitAndAddsParts) {
  const std::vector<Case> cases = {
      {"1ns", 1},
      {"1us", 1'000},
      {"1ms", 1'000'000},
      {"1s", 1'000'000'000},
      {"1m", 60'000'000'000},
      {"1h", 3'600'000'000'000},
      {"1d", 86'400'000'000'000},
      {"1w", 604'800'000'000'000},
      {"1h30m", 5'400'000'000'000},
      {"1m30s", 90'000'000'000},
      {"30s1m", 90'000'000'000},
      {"744h", 2'678'400'000'000'000},
      {"1_000ms", 1'000'000'000},
      {"0s1ns", 1},
  };
  for (const Case& c : cases) {
    const Result<Duration> duration = parse_duration("wait", c.text);
    ASSERT_TRUE(duration.ok()) << c.text << ": " << duration.error().message;
    EXPECT_EQ(duration->count(), c.expected) << c.text;
  }
}

TEST(ParseDuration, ReadsFractionsThatAreWholeNanoseconds) {
  const std::vector<Case> cases = {
      {"1.5h", 5'400'000'000'000},  {"0.1us", 100},
      {"0.000000001s", 1},          {"1.50000000000000000000000s", 1'500'000'000},
      {"0.0000000000003125w", 189},  // 16 places, the most that can be exact
  };
  for (const Case& c : cases) {
    const Result<Duration> duration = parse_duration("wait", c.text);
    ASSERT_TRUE(duration.ok()) << c.text << ": " << duration.error().message;
    EXPECT_EQ(duration->count(), c.expected) << c.text;
  }
}

TEST(ParseDuration, RefusesFractionsThatAreNot) {
  for (const std::string text :
       {"0.5ns", "0.0000000001s", "1.0001us", "0.00000000000000001w", "0.3333333333333333d"}) {
    const Result<Duration> duration = parse_duration("wait", text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().message, "wait is '" + text +
                                            "', but it must be a whole number of nanoseconds; "
                                            "write fewer decimal places");
  }
}

TEST(ParseDuration, RefusesWhatIsNotADuration) {
  for (const std::string text :
       {"",    "15",  "s",     "-1s", "+1s", " 1s",   "1s ", "1 s",  "1y",   "1S",      "1e3s",
        "1.s", ".5s", "1..5s", "_1s", "1_s", "1__0s", "1s2", "1,5s", "0x1s", "forever", "1µs"}) {
    const Result<Duration> duration = parse_duration("wait", text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().message,
              "wait is '" + text +
                  "', but it must be numbers with units (ns us ms s m h d "
                  "w); write a duration such as '15m' or '1h30m'");
  }
}

TEST(ParseDuration, RefusesZero) {
  for (const std::string text : {"0s", "0ns", "0h0m", "0.0s"}) {
    const Result<Duration> duration = parse_duration("period", text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().message, "period is '" + text +
                                            "', but it must be longer than 0; write a duration "
                                            "such as '1s' or '15m'");
  }
}

TEST(ParseDuration, AcceptsUpTo2To62Nanoseconds) {
  for (const std::string text : {"4611686018427387904ns", "4611686018s427387904ns"}) {
    const Result<Duration> duration = parse_duration("wait", text);
    ASSERT_TRUE(duration.ok()) << duration.error().message;
    EXPECT_EQ(duration->count(), kTermMax);
  }
  for (const std::string text :
       {"4611686018427387905ns", "4611686018s427387905ns", "147w99999999d", "7626w",
        "99999999999999999999999999999999999999999999ns",
        "4611686018427387904ns4611686018427387904ns4611686018427387904ns"}) {
    const Result<Duration> duration = parse_duration("wait", text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(duration.error().message,
                ::testing::HasSubstr("must be at most 2^62 ns (146 years); write a shorter"));
  }
}

// --- amounts

TEST(ParseAmount, ReadsWholeNumbers) {
  const std::vector<Case> cases = {
      {"0", 0}, {"1", 1}, {"007", 7}, {"400_000", 400'000}, {"4611686018427387904", kTermMax}};
  for (const Case& c : cases) {
    const auto amount = parse_amount("burst", c.text, UnitScale::kWhole);
    ASSERT_TRUE(amount.ok()) << amount.error().message;
    EXPECT_EQ(*amount, c.expected);
  }
}

TEST(ParseAmount, ScalesMillionthsExactly) {
  const std::vector<Case> cases = {{"1", 1'000'000},
                                   {"0.64", 640'000},
                                   {"0.000001", 1},
                                   {"0.1000000", 100'000},
                                   {"4611686018427.387904", kTermMax}};
  for (const Case& c : cases) {
    const auto amount = parse_amount("burst", c.text, UnitScale::kMicro);
    ASSERT_TRUE(amount.ok()) << amount.error().message;
    EXPECT_EQ(*amount, c.expected) << c.text;
  }
}

TEST(ParseAmount, RefusesFractionsOfWholeUnits) {
  for (const std::string text : {"1e3", "", "1 0", "1_", "ten", "0x10", "1.5."}) {
    const auto amount = parse_amount("burst", text, UnitScale::kWhole);
    ASSERT_FALSE(amount.ok()) << text;
    EXPECT_EQ(amount.error().message, "burst is '" + text +
                                          "', but it must be a whole number; write one such as "
                                          "'100'");
  }
  EXPECT_EQ(parse_amount("burst", "1.5", UnitScale::kWhole).error().message,
            "burst is '1.5', but it must be a whole number, since its unit is counted in whole "
            "numbers; write one such as '100'");
}

TEST(ParseAmount, SaysOfNegativesOnlyThatThereAreNone) {
  EXPECT_EQ(parse_amount("cost", "-1", UnitScale::kWhole).error().message,
            "cost is '-1', but it must be 0 or more; write one such as '100'");
  EXPECT_EQ(parse_amount("cost", "-0.5", UnitScale::kMicro).error().message,
            "cost is '-0.5', but it must be 0 or more; write one such as '100'");
}

TEST(ParseAmount, RefusesASeventhPlace) {
  for (const std::string text : {"0.0000001", "1.0000005", "1.", ".5", "a"}) {
    const auto amount = parse_amount("burst", text, UnitScale::kMicro);
    ASSERT_FALSE(amount.ok()) << text;
    EXPECT_EQ(amount.error().message, "burst is '" + text +
                                          "', but it must be a number with at most six decimal "
                                          "places; write one such as '0.64'");
  }
}

TEST(ParseAmount, RefusesMoreThan2To62) {
  const auto whole = parse_amount("burst", "4611686018427387905", UnitScale::kWhole);
  ASSERT_FALSE(whole.ok());
  EXPECT_EQ(whole.error().message,
            "burst is '4611686018427387905', but it must be at most 2^62; write less");
  const auto micro = parse_amount("burst", "4611686018427.387905", UnitScale::kMicro);
  ASSERT_FALSE(micro.ok());
  EXPECT_EQ(micro.error().message,
            "burst is '4611686018427.387905', but it must be at most 2^62 millionths; write less");
}

TEST(ParseCount, AcceptsItsBoundsAndNothingBeyond) {
  EXPECT_EQ(*parse_count("batch", "5", 5, 1'000), 5);
  EXPECT_EQ(*parse_count("batch", "1_000", 5, 1'000), 1'000);
  for (const std::string text : {"4", "1001", "", "x", "5.0", "-5", "99999999999999999999999"}) {
    const auto count = parse_count("batch", text, 5, 1'000);
    ASSERT_FALSE(count.ok()) << text;
    EXPECT_EQ(count.error().message, "batch is '" + text +
                                         "', but it must be a whole number from 5 to 1000; write "
                                         "one of them");
  }
}

// --- rates

struct RateCase {
  std::string text;
  UnitScale scale;
  std::int64_t amount;
  std::int64_t period_ns;
};

TEST(ParseRate, ReadsAnAmountPerPeriod) {
  const std::vector<RateCase> cases = {
      {"100/s", UnitScale::kWhole, 100, 1'000'000'000},
      {"1/ns", UnitScale::kWhole, 1, 1},
      {"400_000/744h", UnitScale::kWhole, 400'000, 2'678'400'000'000'000},
      {"5/1m30s", UnitScale::kWhole, 5, 90'000'000'000},
      {"0.5/1.5s", UnitScale::kMicro, 500'000, 1'500'000'000},
      {"2/w", UnitScale::kMicro, 2'000'000, 604'800'000'000'000},
  };
  for (const RateCase& c : cases) {
    const Result<Rate> rate = parse_rate("rate", c.text, c.scale);
    ASSERT_TRUE(rate.ok()) << c.text << ": " << rate.error().message;
    EXPECT_EQ(rate->amount, c.amount) << c.text;
    EXPECT_EQ(rate->period.count(), c.period_ns) << c.text;
  }
}

TEST(ParseRate, SaysWhichPartIsWrong) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"100", "rate is '100', but it must be an amount per period; write a rate such as '100/s'"},
      {"0/s",
       "rate is '0/s', but it must be more than 0; write a rate such as '100/s', or a "
       "window of limit 0"},
      {"1.5/s",
       "rate is '1.5/s', but it must be a whole number per period, since its unit is counted in "
       "whole numbers; write '3/2s', which is the same"},
      {"0.5/s",
       "rate is '0.5/s', but it must be a whole number per period, since its unit is counted in "
       "whole numbers; write '1/2s', which is the same"},
      {"2.5/1h30m",
       "rate is '2.5/1h30m', but it must be a whole number per period, since its unit is counted "
       "in whole numbers; write '5/3h', which is the same"},
      // Nothing that could be written.
      {"0.0000000000001/52w",
       "rate amount is '0.0000000000001', but it must be a whole number, since its unit is counted "
       "in whole numbers; write one such as '100'"},
      {"-1/s", "rate amount is '-1', but it must be 0 or more; write one such as '100'"},
      {"/s", "rate amount is '', but it must be a whole number; write one such as '100'"},
      {"1/0s",
       "rate period is '0s', but it must be longer than 0; write a duration such as '1s' "
       "or '15m'"},
      {"1/",
       "rate period is '', but it must be numbers with units (ns us ms s m h d w); write a "
       "duration such as '15m' or '1h30m'"},
      {"1/s/s",
       "rate period is 's/s', but it must be numbers with units (ns us ms s m h d w); "
       "write a duration such as '15m' or '1h30m'"},
  };
  for (const auto& [text, message] : cases) {
    const Result<Rate> rate = parse_rate("rate", text, UnitScale::kWhole);
    ASSERT_FALSE(rate.ok()) << text;
    EXPECT_EQ(rate.error().message, message);
  }
}

// --- back to text

TEST(DurationText, IsShortAndReadsBack) {
  const std::vector<std::pair<std::int64_t, std::string>> cases = {
      {1, "1ns"},
      {1'000'000'000, "1s"},
      {90'000'000'000, "1m30s"},
      {2'678'400'000'000'000, "31d"},
      {86'400'000'000'001, "1d1ns"},
      {kTermMax, "53375d23h53m38s427ms387us904ns"},
  };
  for (const auto& [ns, text] : cases) {
    EXPECT_EQ(duration_text(Duration{ns}), text);
    EXPECT_EQ(parse_duration("", text)->count(), ns);
  }
  EXPECT_EQ(duration_text(Duration{0}), "0s");
}

TEST(AmountText, IsShortAndReadsBack) {
  const std::vector<std::pair<std::int64_t, std::string>> cases = {
      {0, "0"},         {1, "0.000001"},    {640'000, "0.64"},
      {1'000'000, "1"}, {10'000'000, "10"}, {kTermMax, "4611686018427.387904"}};
  for (const auto& [amount, text] : cases) {
    EXPECT_EQ(amount_text(amount, UnitScale::kMicro), text);
    EXPECT_EQ(*parse_amount("", text, UnitScale::kMicro), amount);
  }
  EXPECT_EQ(amount_text(kTermMax, UnitScale::kWhole), "4611686018427387904");
}

}  // namespace
}  // namespace weir::engine
