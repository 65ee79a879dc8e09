// Reading the words of CL.THROTTLE: what is accepted, and what an error says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/wire/resp/support.h"
#include "weir/wire/resp/throttle.h"

namespace weir::wire::resp {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Result<ThrottleCall> read(std::string_view text) { return read_throttle(words_of(text)); }

std::string throttle_error(std::string_view text) {
  const Result<ThrottleCall> call = read(text);
  return call ? "none" : call.error().message;
}

TEST(ThrottleWords, ReadsTheShapeOfACall) {
  const ThrottleCall call = *read("user123 15 30 60");

  EXPECT_EQ(call.key, "user123");
  EXPECT_EQ(call.quantity, 1);
  EXPECT_EQ(call.shape, *meter::make_bucket(1, 2s, 16));
  EXPECT_EQ(call.shape.fill.ns, 32'000'000'000);
  EXPECT_EQ(call.shape.unit.ns, 2'000'000'000);
}

TEST(ThrottleWords, RoundsTheIntervalDown) {
  EXPECT_EQ(read("a 0 3 1")->shape.den, 333'333'333);
  // In doubles, as redis-cell divides, this one ends in 4.
  EXPECT_EQ(read("a 0 13 30459015")->shape.den, 2'343'001'153'846'153);
}

TEST(ThrottleWords, RefusesTheWrongNumberOfWords) {
  const std::string usage =
      "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> "
      "[<quantity>]";
  EXPECT_EQ(throttle_error(""), usage);
  EXPECT_EQ(throttle_error("a 1 1"), usage);
  EXPECT_EQ(throttle_error("a 1 1 1"), "none");
  EXPECT_EQ(throttle_error("a 1 1 1 1"), "none");
  EXPECT_EQ(throttle_error("a 1 1 1 1 1"), usage);
}

TEST(ThrottleWords, RefusesWhatIsNotAnInteger) {
  const std::string start = "Cell error: Store error: Couldn't parse as integer: ";
  EXPECT_EQ(throttle_error("a abc 1 1"), start + "abc");
  EXPECT_EQ(throttle_error("a 1 1.5 1"), start + "1.5");
  EXPECT_EQ(throttle_error("a 1 1 1s"), start + "1s");
  EXPECT_EQ(throttle_error("a 1 1 1 9223372036854775808"), start + "9223372036854775808");
  EXPECT_EQ(throttle_error("a 1 1 1 0x1"), start + "0x1");
  EXPECT_EQ(throttle_error("a  1 1"), start);
}

TEST(ThrottleWords, CutsTheWordItComplainsAbout) {
  const std::string start = "Cell error: Store error: Couldn't parse as integer: ";
  EXPECT_EQ(throttle_error("a 1 1 " + std::string(64, 'x')), start + std::string(64, 'x'));
  EXPECT_EQ(throttle_error("a 1 1 " + std::string(65, 'x')), start + std::string(64, 'x') + "...");
}

TEST(ThrottleWords, RefusesZeroRates) {
  const std::string zero = "Cell error: Store error: Zero rates are not supported";
  EXPECT_EQ(throttle_error("a 1 0 1"), zero);
  EXPECT_EQ(throttle_error("a 1 1 0"), zero);
}

TEST(ThrottleWords, RefusesNegativeParameters) {
  EXPECT_EQ(throttle_error("a -1 1 1"),
            "BADARG max_burst is -1, but it must be 0 or more; write how many calls may pass at "
            "once beyond the first");
  EXPECT_EQ(throttle_error("a 1 -2 1"),
            "BADARG count is -2, but it must be 1 or more; write how many calls may pass per "
            "period");
  EXPECT_EQ(throttle_error("a 1 1 -3"),
            "BADARG period is -3, but it must be 1 or more; write a number of seconds");
}

TEST(ThrottleWords, RefusesMoreThanOnePerNanosecond) {
  EXPECT_EQ(throttle_error("a 1 1000000000 1"), "none");
  EXPECT_EQ(throttle_error("a 1 1000000001 1"),
            "BADARG count is 1000000001 in 1 s, but at most one call may pass per nanosecond; "
            "write a count of at most 1000000000 or a longer period");
}

TEST(ThrottleWords, RefusesABucketThatTakesTooLongToRefill) {
  EXPECT_EQ(throttle_error("a 0 1 4611686018"), "none");
  EXPECT_THAT(throttle_error("a 0 1 4611686019"),
              HasSubstr("BADARG refilling a max_burst of 0 at 1 per"));
  EXPECT_EQ(throttle_error("a 4611686017 1 1"), "none");
  EXPECT_THAT(throttle_error("a 4611686018 1 1"), HasSubstr("takes 2^62 ns (146 years) or more"));
  EXPECT_EQ(throttle_error("a 4611686018427387902 1000000000 1"), "none");
  EXPECT_THAT(throttle_error("a 4611686018427387903 1000000000 1"), HasSubstr("BADARG refilling"));
  EXPECT_THAT(throttle_error("a 9223372036854775807 1 9223372036854775807"),
              HasSubstr("BADARG refilling"));
}

}  // namespace
}  // namespace weir::wire::resp
