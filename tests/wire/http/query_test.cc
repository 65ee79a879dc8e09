#include "weir/wire/http/query.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weir::wire::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array<std::string_view, 2> kKnown = {"limit", "key"};

std::string query_error(std::string_view text) {
  const Result<Query> query = Query::read(text, kKnown);
  return query ? "none" : query.error().message;
}

TEST(Query, HasTheValuesOfANameInOrder) {
  const Result<Query> query = Query::read("key=b&limit=per-client&key=a&key=", kKnown);
  ASSERT_TRUE(query);
  EXPECT_THAT(query->all("key"), ElementsAre("b", "a", ""));
  EXPECT_EQ(*query->one("limit"), "per-client");
  EXPECT_TRUE(query->has("key"));
}

TEST(Query, MayBeEmpty) {
  const Result<Query> query = Query::read("", kKnown);
  ASSERT_TRUE(query);
  EXPECT_FALSE(query->has("key"));
  EXPECT_THAT(query->all("key"), IsEmpty());
}

TEST(Query, DecodesEscapesAndPlus) {
  const Result<Query> query = Query::read("key=a%2Bb+c%26%3d%ff", kKnown);
  ASSERT_TRUE(query);
  EXPECT_EQ(*query->one("key"), "a+b c&=\xff");
}

TEST(Query, WantsOneValueExactlyOnce) {
  EXPECT_FALSE(Query::read("key=a", kKnown)->one("limit"));
  EXPECT_FALSE(Query::read("limit=a&limit=b", kKnown)->one("limit"));
}

TEST(Query, NamesAnUnknownParameterAndTheKnownOnes) {
  EXPECT_EQ(query_error("limt=a"),
            "query: parameter 'limt' is unknown; known are limit, key; correct the name, or leave "
            "it out");
}

TEST(Query, RefusesBrokenEscapes) {
  for (const std::string_view text :
       {"key=%", "key=%4", "key=%4g", "key=%g4", "key=a%2", "%zz=1"}) {
    EXPECT_THAT(query_error(text), HasSubstr("hexadecimal")) << text;
  }
}

TEST(Query, RefusesRawBytesThatMayNotStandThere) {
  EXPECT_THAT(query_error("key=a b"), HasSubstr("write it as %20"));
  EXPECT_THAT(query_error("key=\xc3\xbc"), HasSubstr("write it as %C3"));
  EXPECT_THAT(query_error("key=\x7f"), HasSubstr("write it as %7F"));
}

TEST(Query, RefusesAParameterWithoutAValue) {
  EXPECT_THAT(query_error("key"), HasSubstr("no '='"));
}

TEST(Query, HoldsSixteenParametersAndNoMore) {
  std::string text;
  for (std::size_t i = 0; i < kQueryPairsMax; ++i) text += "key=a&";
  EXPECT_EQ(query_error(text), "none");
  EXPECT_THAT(query_error(text + "key=a"), HasSubstr("more than 16"));
}

TEST(Target, IsSplitAtTheFirstQuestionMark) {
  EXPECT_EQ(split_target("/v1/meters?a=?").path, "/v1/meters");
  EXPECT_EQ(split_target("/v1/meters?a=?").query, "a=?");
  EXPECT_EQ(split_target("/v1/meters").query, "");
}

TEST(PercentDecoding, LeavesAPlusInAPathAlone) {
  EXPECT_EQ(*percent_decoded("path", "a+b%2fc", Plus::kIsPlus), "a+b/c");
}

}  // namespace
}  // namespace weir::wire::http
