#include "weir/wire/http/text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <chrono>
#include <limits>
#include <string>

#include "weir/base/hold_text.h"
#include "weir/base/integer.h"
#include "weir/engine/quantity.h"

namespace weir::wire::http {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;

std::string in_quotes(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string duration_text(Duration span) {
  std::string out;
  append_duration(out, span);
  return out;
}

std::string instant_text(Instant at) {
  std::string out;
  append_instant(out, at);
  return out;
}

TEST(QuotedText, LeavesOrdinaryTextAlone) {
  EXPECT_EQ(in_quotes(""), R"("")");
  EXPECT_EQ(in_quotes("per-client"), R"("per-client")");
  EXPECT_EQ(in_quotes("grün 例 😀"), "\"grün 例 😀\"");
}

TEST(QuotedText, EscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(in_quotes("a\"b\\c\nd"), R"("a\"b\\c\nd")");
  EXPECT_EQ(in_quotes("\0\x1f\x7f"sv), R"("\u0000\u001f\u007f")");
}

TEST(QuotedText, ReplacesWhatIsNotUtf8) {
  EXPECT_EQ(in_quotes("a\xff"), "\"a\xef\xbf\xbd\"");
  EXPECT_EQ(in_quotes("\xc3"), "\"\xef\xbf\xbd\"");                  // cut off
  EXPECT_EQ(in_quotes("\xe2\x82|"), "\"\xef\xbf\xbd|\"");            // one for what began well
  EXPECT_EQ(in_quotes("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");  // overlong
  EXPECT_EQ(in_quotes("\xed\xa0\x80").size(), 2u + 9u);              // a surrogate
  EXPECT_EQ(in_quotes("\xf4\x90\x80\x80").size(), 2u + 12u);         // above U+10FFFF
}

TEST(QuotedText, IsReadBackByAnotherReaderWhateverTheByte) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = {'a', static_cast<char>(byte), 'z'};
    boost::json::error_code error;
    const boost::json::value value = boost::json::parse(in_quotes(text), error);
    ASSERT_FALSE(error) << byte;
    if (byte < 0x80) {
      EXPECT_EQ(std::string(value.as_string()), text);
    } else {
      EXPECT_EQ(std::string(value.as_string()), "a\xef\xbf\xbdz");
    }
  }
}

TEST(InstantText, HasNineDigitsOfASecond) {
  EXPECT_EQ(instant_text(Instant{1'800'000'000'333'333'334}),
            R"("2027-01-15T08:00:00.333333334Z")");
  EXPECT_EQ(instant_text(Instant{0}), R"("1970-01-01T00:00:00.000000000Z")");
  EXPECT_EQ(instant_text(Instant{kForever.ns - 1}), R"("2262-04-11T23:47:16.854775806Z")");
}

TEST(InstantText, IsNullForever) { EXPECT_EQ(instant_text(kForever), "null"); }

TEST(DurationText, IsASumOfUnits) {
  EXPECT_EQ(duration_text(0s), R"("0s")");
  EXPECT_EQ(duration_text(90s), R"("1m30s")");
  EXPECT_EQ(duration_text(25h + 1ns), R"("1d1h1ns")");
}

TEST(DurationText, ReadsBackAsItWasWritten) {
  for (const Duration span : {Duration{0}, Duration{1}, Duration{999'999'999}, Duration{90s},
                              Duration{36h + 5ms}, Duration{kTermMax}}) {
    const std::string text = duration_text(span);
    const auto read = engine::parse_span("it", std::string_view(text).substr(1, text.size() - 2));
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(*read, span) << text;
  }
}

// --- hold ids

TEST(HoldText, IsSixteenDigitsAndANumber) {
  EXPECT_EQ(hold_text({0x4d2, 17}), "00000000000004d2-17");
  EXPECT_EQ(hold_text({0x4d2, 17, true}), "00000000000004d2-17s");
}

TEST(HoldText, ReadsBackAsItWasWritten) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  for (const HoldId hold :
       {HoldId{0, 1}, HoldId{0x4d2, 17}, HoldId{kMost, kMost}, HoldId{kMost, kMost, true}}) {
    EXPECT_EQ(read_hold(hold_text(hold)), hold);
  }
}

TEST(HoldText, RefusesEveryOtherForm) {
  for (const std::string_view text :
       {"", "17", "00000000000004d2", "00000000000004d2-", "00000000000004d2-0",
        "00000000000004d2-017", "00000000000004D2-17", "00000000000004d2-17 ",
        "00000000000004d2-+17", "00000000000004d2-18446744073709551616", "000000000004d2-17",
        "00000000000004dg-17", "00000000000004d2_17"}) {
    EXPECT_FALSE(read_hold(text)) << text;
  }
}

}  // namespace
}  // namespace weir::wire::http
