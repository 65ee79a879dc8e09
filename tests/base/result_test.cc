#include "weir/base/result.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>

namespace weir {
namespace {

Result<int> parse_digit(char digit) {
  if (digit < '0' || digit > '9') {
    return bad_argument(std::string("found '") + digit + "', expected a digit; write 0 to 9");
  }
  return digit - '0';
}

TEST(Result, HoldsAValue) {
  const Result<int> result = parse_digit('7');
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result);
  EXPECT_EQ(result.value(), 7);
  EXPECT_EQ(*result, 7);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = parse_digit('x');
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kBadArgument);
  EXPECT_EQ(result.error().message, "found 'x', expected a digit; write 0 to 9");
}

TEST(Result, ReachesIntoItsValue) {
  Result<std::string> result{std::string("weir")};
  result->push_back('s');
  *result += '!';
  EXPECT_EQ(result->size(), 6U);
  EXPECT_EQ(std::as_const(result)->back(), '!');
}

TEST(Result, GivesAwayAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result{std::make_unique<int>(3)};
  const std::unique_ptr<int> taken = *std::move(result);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(*taken, 3);
}

TEST(Result, GivesAwayItsError) {
  Result<int> result{Error{ErrorCode::kUnavailable, "redis does not answer"}};
  const Error taken = std::move(result).error();
  EXPECT_EQ(taken.code, ErrorCode::kUnavailable);
  EXPECT_EQ(taken.message, "redis does not answer");
}

TEST(Result, BuildsALargeValueInPlace) {
  Result<std::array<int, 1000>> result{std::in_place};
  ASSERT_TRUE(result.ok());
  result->fill(1);
  EXPECT_EQ(result->back(), 1);
}

// An error is the absence of an answer; it never passes for the answer "error".
TEST(Result, TellsAValueOfTextFromAnError) {
  const Result<std::string> value{std::string("denied")};
  const Result<std::string> error{Error{ErrorCode::kNotFound, "denied"}};
  EXPECT_TRUE(value.ok());
  EXPECT_FALSE(error.ok());
}

TEST(Status, IsDoneOrAnError) {
  const Status done{Done{}};
  const Status failed{Error{ErrorCode::kExhausted, "16 limits already"}};
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(failed.error().code, ErrorCode::kExhausted);
}

TEST(ResultDeathTest, IsNotReadForTheValueOfAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> result = parse_digit('x');
  EXPECT_DEATH(static_cast<void>(result.value()), "assertion failed: ok\\(\\)");
}

TEST(ResultDeathTest, IsNotReadForTheErrorOfAValue) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Result<int> result = parse_digit('7');
  EXPECT_DEATH(static_cast<void>(result.error()), "assertion failed: !ok\\(\\)");
}

}  // namespace
}  // namespace weir
