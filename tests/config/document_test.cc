// Texts that are not a configuration at all.

#include "weir/config/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/support.h"

namespace weir::config {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kNoAliases =
    "file: anchors ('&') and aliases ('*') are not read; write the value out, or quote it if it "
    "begins with such a sign";

TEST(Document, KeepsThePlaceOfEveryKeyAndValue) {
  Mistakes mistakes;
  const auto root = parse_document("a: 1\nb:\n  - x\n  - { c: y }\n", mistakes);
  ASSERT_TRUE(root.has_value());
  ASSERT_EQ(root->entries.size(), 2u);
  EXPECT_EQ(root->entries[0].value.place, (Place{1, 4}));
  EXPECT_EQ(root->entries[1].place, (Place{2, 1}));
  const TreeNode& list = root->entries[1].value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[0].place, (Place{3, 5}));
  EXPECT_EQ(list.items[1].place, (Place{4, 5}));
  EXPECT_EQ(list.items[1].entries[0].value.place, (Place{4, 10}));
  EXPECT_EQ(list.items[1].find("c")->value.text, "y");
  EXPECT_EQ(list.items[1].find("d"), nullptr);
}

TEST(Document, CountsColumnsInBytes) {
  EXPECT_THAT(mistakes_of("{ threads: 1, \"größe\": 1, x: 2 }"), HasSubstr("\nf:1:29: "));
}

TEST(Document, MustNotBeEmpty) {
  for (const std::string text : {"", "\n\n", "# only a comment\n", "---\n", "~", "null"}) {
    EXPECT_THAT(mistakes_of(text), HasSubstr("top level: it is empty, but it must be a map; write "
                                             "'limits:' and a list of limits"))
        << text;
  }
}

TEST(Document, MustBeAMap) {
  EXPECT_EQ(mistakes_of("[a]"),
            "f:1:1: top level: it is a list, but it must be a map; write 'limits:' and a list of "
            "limits");
  EXPECT_THAT(mistakes_of("word"), StartsWith("f:1:1: top level: it is 'word', but it must be a"));
}

TEST(Document, MustBeText) {
  EXPECT_EQ(mistakes_of(std::string_view("a: 1\nb: \0", 9)),
            "f:2:4: file: byte 0x00 is not text; write the file as UTF-8");
  EXPECT_EQ(mistakes_of("\x7f"
                        "ELF\x02\x01\x01"),
            "f:1:1: file: byte 0x7f is not text; write the file as UTF-8");
  EXPECT_EQ(mistakes_of("a: \xff\xfe"),
            "f:1:4: file: byte 0xff is not text; write the file as UTF-8");
  EXPECT_EQ(mistakes_of("a: \xc3"), "f:1:4: file: byte 0xc3 is not text; write the file as UTF-8");
  EXPECT_EQ(mistakes_of("ö: \xe2\x82x"),
            "f:1:5: file: byte 0xe2 is not text; write the file as UTF-8");
}

TEST(Document, MayEndItsLinesAsWindowsDoes) {
  EXPECT_EQ(config_of("threads: 2\r\nrecord: x\r\n").record, "x");
}

TEST(Document, MayBeginWithAByteOrderMark) {
  EXPECT_EQ(config_of("\xef\xbb\xbfthreads: 2\n").threads, 2u);
}

TEST(Document, SaysWhereItIsNotYaml) {
  EXPECT_EQ(mistakes_of("threads: 2\nlimits: [a, b\n"),
            "f:3:1: file: it is not YAML here (end of sequence flow not found); write 'key: value' "
            "lines, indented by spaces");
  EXPECT_EQ(mistakes_of("a: b: c\n"),
            "f:1:5: file: it is not YAML here (illegal map value); write 'key: value' lines, "
            "indented by spaces");
  EXPECT_THAT(mistakes_of("limits:\n\t- a\n"), StartsWith("f:2:"));
}

TEST(Document, IsOne) {
  EXPECT_EQ(mistakes_of("threads: 1\n---\nthreads: 2\n"),
            "f:2:1: file: the document has ended before this; write one map, and nothing after it");
}

TEST(Document, HasNoAliases) {
  EXPECT_EQ(mistakes_of("threads: &a 2\n"), "f:1:10: " + std::string(kNoAliases));
  EXPECT_THAT(mistakes_of("a: &x [1]\nb: *x\n"), HasSubstr(kNoAliases));
  EXPECT_EQ(mistakes_of("a: 1\nb: *x\n"), "f:2:4: " + std::string(kNoAliases));
  EXPECT_THAT(mistakes_of("limits: [ { name: a, when: { c: *-b } } ]\n"), HasSubstr(kNoAliases));
}

TEST(Document, IsNotBlownUpByAliases) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + below + ", " + below +
            ", " + below + ", " + below + "]\n";
  }
  EXPECT_THAT(mistakes_of(bomb), HasSubstr(kNoAliases));
}

TEST(Document, HasNoTags) {
  EXPECT_THAT(mistakes_of("threads: !!int 2\n"), HasSubstr("file: tag 'tag:yaml.org,2002:int' is "
                                                           "not read; leave it out"));
}

TEST(Document, HasWordsForKeys) {
  EXPECT_EQ(mistakes_of("{ [a]: 1 }"),
            "f:1:3: file: a key is a list, but it must be a word; write 'key: value'");
  EXPECT_THAT(mistakes_of("? { a: 1 }\n: 2\n"),
              HasSubstr("file: a key is a map, but it must be a word; write 'key: value'"));
}

// Each of these would nest half a million levels deep.
TEST(Document, SurvivesDeepNesting) {
  for (const std::string_view open : {"[", "{", "- ", "{a: ", "? ", "[{", "[a: "}) {
    const std::string text = repeated(open, kFileBytesMax / open.size());
    EXPECT_THAT(mistakes_of(text), HasSubstr("nested deeper than 16 levels")) << open;
  }
  std::string stairs;
  for (std::size_t i = 0; i < 1'400; ++i) stairs += std::string(i, ' ') + "a:\n";
  EXPECT_EQ(mistakes_of(stairs),
            "f:17:17: file: lists and maps are nested deeper than 16 levels; write the file "
            "flatter");
}

}  // namespace
}  // namespace weir::config
