#include "weir/engine/rule_set.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace weir::engine {
namespace {

TEST(Pattern, HasAWildcardIfAStarOrAQuestionMarkIsInIt) {
  EXPECT_TRUE(has_wildcard("*"));
  EXPECT_TRUE(has_wildcard("a?c"));
  EXPECT_FALSE(has_wildcard(""));
  EXPECT_FALSE(has_wildcard("a.c+[x]"));
}

TEST(Pattern, IsEqualityWithoutWildcards) {
  EXPECT_TRUE(matches("put", "put"));
  EXPECT_FALSE(matches("put", "puts"));
  EXPECT_FALSE(matches("put", "pu"));
  EXPECT_FALSE(matches("put", "Put"));
}

TEST(Pattern, OfNothingMatchesNothingOnly) {
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(Pattern, TakesAQuestionMarkForExactlyOneCharacter) {
  EXPECT_TRUE(matches("p?t", "put"));
  EXPECT_FALSE(matches("p?t", "pt"));
  EXPECT_FALSE(matches("p?t", "poot"));
  EXPECT_FALSE(matches("?", ""));
}

TEST(Pattern, TakesAStarForAnyCharactersOrNone) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "anything"));
  EXPECT_TRUE(matches("a*", "a"));
  EXPECT_TRUE(matches("*a", "banana"));
  EXPECT_FALSE(matches("*a", "bananas"));
}

TEST(Pattern, GoesBackToAStarThatTookTooLittle) {
  EXPECT_TRUE(matches("*ab", "aab"));
  EXPECT_TRUE(matches("a*bc*d", "abbcxbcd"));
  EXPECT_FALSE(matches("a*bc*d", "abbxd"));
}

TEST(Pattern, TakesStarsInARowAsOne) {
  EXPECT_TRUE(matches("a**b", "ab"));
  EXPECT_TRUE(matches("***", ""));
}

TEST(Pattern, KnowsNoOtherSpecialCharacters) {
  EXPECT_TRUE(matches("[a-z]\\*", "[a-z]\\x"));
  EXPECT_FALSE(matches("[a-z]", "m"));
}

TEST(Pattern, MatchesBytesOfEveryValue) {
  EXPECT_TRUE(matches(std::string("a\0?", 3), std::string("a\0\xff", 3)));
}

// A hundred stars against a text that almost matches: quadratic at worst.
TEST(Pattern, StaysFastWithManyStars) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(512, 'a')));
}

bool matches_plainly(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] == '*') {
    return matches_plainly(pattern.substr(1), text) ||
           (!text.empty() && matches_plainly(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern[0] == '?' || pattern[0] == text[0]) &&
         matches_plainly(pattern.substr(1), text.substr(1));
}

TEST(Pattern, MatchesWhatItsDefinitionSays) {
  std::mt19937_64 random(8127);
  const auto draw = [&](std::string_view from, std::size_t length) {
    std::string drawn;
    for (std::size_t i = 0; i < length; ++i) drawn += from[random() % from.size()];
    return drawn;
  };
  for (int i = 0; i < 50'000; ++i) {
    const std::string pattern = draw("ab*?", random() % 8);
    const std::string value = draw("ab", random() % 10);
    ASSERT_EQ(matches(pattern, value), matches_plainly(pattern, value))
        << "'" << pattern << "' and '" << value << "'";
  }
}

}  // namespace
}  // namespace weir::engine
