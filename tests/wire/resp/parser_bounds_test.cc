// Every bound of the parser, at it and one beyond.

#include <gtest/gtest.h>

#include "tests/wire/resp/support.h"

namespace weir::wire::resp {
namespace {

constexpr std::string_view kTooBigLine = "Protocol error: too big inline request";

// A command of `count` words that are all "a".
Spoken words(std::size_t count) { return Spoken(count, "a"); }

std::string line(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "a ";
  return text + "\r\n";
}

TEST(ParserBounds, HoldTheWordsOfAnArray) {
  EXPECT_EQ(hear(encoded(words(1024))).commands.size(), 1u);
  EXPECT_EQ(error_of(encoded(words(1025))), "Protocol error: invalid multibulk length");
}

TEST(ParserBounds, HoldTheWordsOfALine) {
  EXPECT_EQ(hear(line(1024)).commands.at(0).size(), 1024u);
  EXPECT_EQ(error_of(line(1025)), kTooBigLine);
}

TEST(ParserBounds, HoldABulkString) {
  EXPECT_EQ(hear(encoded({std::string(65536, 'a')})).commands.size(), 1u);
  EXPECT_EQ(error_of("*1\r\n$65537\r\n"), "Protocol error: invalid bulk length");
}

// Twenty words of the same length and a last one that fills up to `bytes`.
std::string request_of(std::size_t bytes) {
  Spoken command(20, std::string(50'000, 'a'));
  command.emplace_back(10'000, 'b');
  command.back().resize(10'000 + bytes - encoded(command).size(), 'b');
  return encoded(command);
}

TEST(ParserBounds, HoldAWholeRequest) {
  const std::string fits = request_of(1 << 20);
  const std::string beyond = request_of((1 << 20) + 1);
  ASSERT_EQ(fits.size(), std::size_t{1} << 20);
  ASSERT_EQ(beyond.size(), (std::size_t{1} << 20) + 1);

  EXPECT_EQ(hear(fits).commands.size(), 1u);
  EXPECT_EQ(error_of(beyond), "Protocol error: too big multibulk request");
}

TEST(ParserBounds, RefuseARequestBeforeItsBytesHaveCome) {
  const std::string beyond = request_of((1 << 20) + 1);

  EXPECT_EQ(error_of(beyond.substr(0, beyond.find('b'))),
            "Protocol error: too big multibulk request");
}

TEST(ParserBounds, HoldALineWhetherItsEndHasComeOrNot) {
  const std::string fits(65536, 'a');
  const std::string beyond(65537, 'a');

  EXPECT_EQ(hear(fits + "\n").commands.size(), 1u);
  EXPECT_EQ(hear(fits).left, fits.size());
  EXPECT_EQ(error_of(beyond + "\n"), kTooBigLine);
  EXPECT_EQ(error_of(beyond), kTooBigLine);
}

TEST(ParserBounds, HoldALineThatComesInPieces) {
  const std::string fits(65536, 'a');
  const std::string_view pieces[] = {fits, "\n"};
  const std::string_view beyond[] = {fits, "a", "\n"};

  EXPECT_EQ(hear_in_pieces(pieces).commands.size(), 1u);
  EXPECT_EQ(hear_in_pieces(beyond).error, kTooBigLine);
}

TEST(ParserBounds, AreThoseItWasMadeWith) {
  const ParserBounds small{
      .words_max = 2, .bulk_bytes_max = 3, .request_bytes_max = 22, .inline_bytes_max = 8};

  EXPECT_EQ(hear(encoded({"abc", "def"}), small).commands.size(), 1u);
  EXPECT_EQ(error_of(encoded({"abc", "def", ""}), small),
            "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of(encoded({"abcd"}), small), "Protocol error: invalid bulk length");
  EXPECT_EQ(hear("abcd ef\r\n", small).commands.size(), 1u);
  EXPECT_EQ(error_of("abcd efg\r\n", small), kTooBigLine);

  ParserBounds smaller = small;
  smaller.request_bytes_max = 21;
  EXPECT_EQ(error_of(encoded({"abc", "def"}), smaller),
            "Protocol error: too big multibulk request");
}

}  // namespace
}  // namespace weir::wire::resp
