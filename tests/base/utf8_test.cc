#include "weir/base/utf8.h"

#include <gtest/gtest.h>

#include <string_view>

namespace weir {
namespace {

TEST(Utf8, IsFoundToEndWhereItDoes) {
  EXPECT_EQ(find_not_utf8(""), std::string_view::npos);
  EXPECT_EQ(find_not_utf8("twelve bytes of ASCII, grün 例 😀"), std::string_view::npos);
  EXPECT_EQ(find_not_utf8("\xf4\x8f\xbf\xbf"), std::string_view::npos);  // U+10FFFF
  EXPECT_EQ(find_not_utf8("\xed\x9f\xbf"), std::string_view::npos);      // before the surrogates
  EXPECT_EQ(find_not_utf8("12345678\x80"), 8u);
  EXPECT_EQ(find_not_utf8("abc\xe2\x82"), 3u);
  EXPECT_EQ(find_not_utf8("\xf0\x80\x80\x80"), 0u);
}

}  // namespace
}  // namespace weir
