#include "weir/wire/resp/split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::wire::resp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Line {
  Split split;
  std::vector<std::string> words;
};

Line split(std::string_view line, std::size_t words_max = 16) {
  std::vector<std::string_view> words = {"left over"};
  std::string unquoted = "left over";
  const Split how = split_line(line, words_max, words, unquoted);
  return {how, {words.begin(), words.end()}};
}

TEST(Split, SeparatesWordsByWhiteSpace) {
  EXPECT_THAT(split("  a \t bc\vd \r").words, ElementsAre("a", "bc\vd"));
  EXPECT_THAT(split(" \t\v\f\r").words, IsEmpty());
  EXPECT_THAT(split("").words, IsEmpty());
}

TEST(Split, GivesViewsOfTheLineForPlainWords) {
  constexpr std::string_view line = "GET key";
  std::vector<std::string_view> words;
  std::string unquoted;
  ASSERT_EQ(split_line(line, 2, words, unquoted), Split::kWhole);

  EXPECT_EQ(words[1].data(), line.data() + 4);
}

TEST(Split, UnescapesWithinDoubleQuotes) {
  EXPECT_THAT(split(R"("a b" "\n\r\t\b\a" "\"\\\q")").words,
              ElementsAre("a b", "\n\r\t\b\a", "\"\\q"));
  EXPECT_THAT(split(R"("\x41\xfF\x0a" 'it')").words, ElementsAre("A\xff\n", "it"));
  EXPECT_THAT(split(R"("\x4" "\xg0" "\x4g")").words, ElementsAre("x4", "xg0", "x4g"));
}

TEST(Split, KeepsZeroBytes) {
  EXPECT_THAT(split(R"("\x00")").words, ElementsAre(std::string(1, '\0')));
}

TEST(Split, UnescapesOnlyTheQuoteWithinSingleQuotes) {
  EXPECT_THAT(split(R"('a b' 'it\'s' '\n\\n' '"')").words,
              ElementsAre("a b", "it's", R"(\n\\n)", "\""));
}

TEST(Split, ReadsEmptyQuotes) { EXPECT_THAT(split(R"("" '')").words, ElementsAre("", "")); }

TEST(Split, LetsAQuoteOpenWithinAWord) {
  EXPECT_THAT(split(R"(a"b c" d'e')").words, ElementsAre("ab c", "de"));
}

TEST(Split, DoesNotEscapeOutsideQuotes) {
  EXPECT_THAT(split(R"(a\nb \x41)").words, ElementsAre(R"(a\nb)", R"(\x41)"));
}

TEST(Split, RefusesQuotesThatAreNotClosed) {
  for (const std::string_view line : {R"(")", R"(')", R"("a)", R"('a)", R"("a\")", R"('a\')",
                                      R"("a\)", R"('a\)", R"(a b "c d)"}) {
    EXPECT_EQ(split(line).split, Split::kUnbalanced) << line;
  }
}

TEST(Split, RefusesWhatFollowsAQuoteDirectly) {
  for (const std::string_view line : {R"("a"b)", R"('a'b)", R"("a""b")", R"('a''b')"}) {
    EXPECT_EQ(split(line).split, Split::kUnbalanced) << line;
  }
}

TEST(Split, HoldsItsBoundOfWords) {
  EXPECT_EQ(split("a 'b' c ", 3).split, Split::kWhole);
  EXPECT_EQ(split("a 'b' c d", 3).split, Split::kTooMany);
}

}  // namespace
}  // namespace weir::wire::resp
