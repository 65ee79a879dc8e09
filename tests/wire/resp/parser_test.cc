#include "weir/wire/resp/parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/wire/resp/support.h"

namespace weir::wire::resp {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kThrottle =
    "*5\r\n$11\r\nCL.THROTTLE\r\n$7\r\nuser123\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n";

// One of everything that is not an error.
constexpr std::string_view kMixed =
    "*1\r\n$4\r\nPING\r\n"
    "\r\n"
    "*0\r\n*-1\r\n"
    "ECHO \"a b\\x41\"\r\n"
    "   \n"
    "*2\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n"
    "set 'k' v\n"
    "*1\r\n$10\r\n0123456789\r\n";

TEST(Parser, ReadsAnArrayOfBulkStrings) {
  EXPECT_THAT(hear(kThrottle).commands,
              ElementsAre(Spoken{"CL.THROTTLE", "user123", "15", "30", "60"}));
}

TEST(Parser, GivesViewsIntoTheBytes) {
  Parser parser;
  const Parsed parsed = parser.next(kThrottle);

  ASSERT_EQ(parsed.kind, ParsedKind::kCommand);
  EXPECT_EQ(parsed.consumed, kThrottle.size());
  EXPECT_EQ(parsed.words[0].data(), kThrottle.data() + 9);
}

TEST(Parser, ReadsAPipeline) {
  std::string bytes;
  for (int i = 0; i < 64; ++i) bytes += encoded({"GET", std::to_string(i)});
  const Heard heard = hear(bytes);

  ASSERT_EQ(heard.commands.size(), 64u);
  EXPECT_EQ(heard.commands[63], (Spoken{"GET", "63"}));
  EXPECT_EQ(heard.left, 0u);
}

TEST(Parser, ReadsInlineCommandsEndedByCrlfOrLf) {
  EXPECT_THAT(hear("PING\r\nECHO hi\n").commands,
              ElementsAre(Spoken{"PING"}, Spoken{"ECHO", "hi"}));
}

TEST(Parser, SkipsEmptyLinesAndEmptyArrays) {
  EXPECT_THAT(hear("\r\n\n  \t\r\n*0\r\n*-1\r\n*-7\r\nPING\r\n").commands,
              ElementsAre(Spoken{"PING"}));
}

TEST(Parser, ConsumesWhatItSkipsEvenIfNoCommandFollows) {
  Parser parser;
  const Parsed parsed = parser.next("\r\n*0\r\n*1\r\n");

  EXPECT_EQ(parsed.kind, ParsedKind::kNeedMore);
  EXPECT_EQ(parsed.consumed, 6u);
}

TEST(Parser, NeedsMoreOfNothing) {
  Parser parser;
  EXPECT_EQ(parser.next("").kind, ParsedKind::kNeedMore);
}

TEST(Parser, ReadsWordsThatHoldAnyBytes) {
  const Spoken command{"SET", std::string("\0\r\n*1\r\n$", 8), ""};
  EXPECT_THAT(hear(encoded(command)).commands, ElementsAre(command));
}

TEST(Parser, ReadsTheSameWhereverTheBytesAreCut) {
  const Heard whole = hear(kMixed);
  ASSERT_EQ(whole.commands.size(), 5u);
  for (std::size_t cut = 0; cut <= kMixed.size(); ++cut) {
    const std::string_view pieces[] = {kMixed.substr(0, cut), kMixed.substr(cut)};
    EXPECT_EQ(hear_in_pieces(pieces), whole) << "cut at " << cut;
  }
}

TEST(Parser, ReadsTheSameByteByByte) {
  Reader reader;
  for (std::size_t i = 0; i < kMixed.size(); ++i) reader.feed(kMixed.substr(i, 1));

  EXPECT_EQ(reader.heard(), hear(kMixed));
}

// The bytes already read are spoiled before each further call: whoever looks at
// them again finds an error.
TEST(Parser, DoesNotReadAgainWhatItHasReadOfACommandCutShort) {
  const std::string first(60'000, 'a');
  const std::string bytes = encoded({first, first, "end"});
  const std::size_t second_begin = bytes.find('$', first.size());
  std::string buffer = bytes.substr(0, second_begin + 100);
  Parser parser;
  ASSERT_EQ(parser.next(buffer).kind, ParsedKind::kNeedMore);

  buffer.replace(0, 12, 12, '?');
  buffer += bytes.substr(second_begin + 100);
  const Parsed parsed = parser.next(buffer);

  ASSERT_EQ(parsed.kind, ParsedKind::kCommand);
  EXPECT_EQ(parsed.words.size(), 3u);
  EXPECT_EQ(parsed.words[2], "end");
}

TEST(Parser, DoesNotReadAgainWhatItHasReadOfALineCutShort) {
  std::string buffer = "PING";
  Parser parser;
  ASSERT_EQ(parser.next(buffer).kind, ParsedKind::kNeedMore);

  buffer = "P\nNG x\r\n";  // seen again, the LF would end the command
  const Parsed parsed = parser.next(buffer);

  ASSERT_EQ(parsed.kind, ParsedKind::kCommand);
  EXPECT_EQ(parsed.consumed, buffer.size());
}

TEST(Parser, FindsItsWordsAgainWhenTheBytesHaveMoved) {
  // Two requests in turn are cut after some words, the second after more.
  Reader reader;
  reader.feed("*3\r\n$1\r\na\r\n$");
  reader.feed("1\r\nb\r\n$1\r\nc\r\n*4\r\n$3\r\nxyz\r\n$2\r\nuv\r\n$1\r\nw\r\n");
  reader.feed("$1\r\n!\r\n");

  EXPECT_THAT(reader.heard().commands,
              ElementsAre(Spoken{"a", "b", "c"}, Spoken{"xyz", "uv", "w", "!"}));
}

TEST(Parser, ForgetsACommandBegunWhenReset) {
  Parser parser;
  ASSERT_EQ(parser.next("*2\r\n$1\r\na\r\n").kind, ParsedKind::kNeedMore);
  parser.reset();

  const Parsed parsed = parser.next("PING\r\n");
  ASSERT_EQ(parsed.kind, ParsedKind::kCommand);
  EXPECT_EQ(parsed.words[0], "PING");
}

struct BadBytes {
  std::string_view bytes;
  std::string_view error;
};

constexpr std::string_view kBadCount = "Protocol error: invalid multibulk length";
constexpr std::string_view kBadLength = "Protocol error: invalid bulk length";
constexpr std::string_view kUnbalanced = "Protocol error: unbalanced quotes in request";

constexpr BadBytes kBadBytes[] = {
    {"*\r\n", kBadCount},
    {"*a\r\n", kBadCount},
    {"*+1\r\n", kBadCount},
    {"* 1\r\n", kBadCount},
    {"*1 \r\n", kBadCount},
    {"*01\r\n", kBadCount},
    {"*-\r\n", kBadCount},
    {"*-0\r\n", kBadCount},
    {"*1\n", kBadCount},
    {"*1\rx", kBadCount},
    {"*9223372036854775808\r\n", kBadCount},
    {"*18446744073709551617\r\n", kBadCount},
    {"*1\r\n$\r\n", kBadLength},
    {"*1\r\n$-1\r\n", kBadLength},
    {"*1\r\n$+1\r\n", kBadLength},
    {"*1\r\n$1x\r\n", kBadLength},
    {"*1\r\n$00\r\n", kBadLength},
    {"*1\r\n$18446744073709551617\r\n", kBadLength},
    {"*1\r\n$1\r\nab\r\n", kBadLength},
    {"*1\r\n$1\r\na\rb", kBadLength},
    {"*1\r\n:1\r\n", "Protocol error: expected '$', got ':'"},
    {"*2\r\n$1\r\na\r\nx", "Protocol error: expected '$', got 'x'"},
    {"*1\r\n\r\n", "Protocol error: expected '$', got '\r'"},
    {"ECHO \"a\r\n", kUnbalanced},
    {"ECHO 'a\r\n", kUnbalanced},
    {"ECHO \"a\"b\r\n", kUnbalanced},
};

TEST(Parser, RefusesWhatIsNotTheProtocol) {
  for (const BadBytes& bad : kBadBytes) EXPECT_EQ(error_of(bad.bytes), bad.error) << bad.bytes;
}

TEST(Parser, RefusesTheSameWhereverTheBytesAreCut) {
  for (const BadBytes& bad : kBadBytes) {
    for (std::size_t cut = 0; cut <= bad.bytes.size(); ++cut) {
      const std::string_view pieces[] = {bad.bytes.substr(0, cut), bad.bytes.substr(cut)};
      EXPECT_EQ(hear_in_pieces(pieces).error, bad.error) << bad.bytes << " cut at " << cut;
    }
  }
}

TEST(Parser, AnswersTheCommandsBeforeAnError) {
  const Heard heard = hear("PING\r\n*1\r\n$4\r\nPING\r\n*x\r\n");

  EXPECT_EQ(heard.commands.size(), 2u);
  EXPECT_EQ(heard.error, kBadCount);
}

TEST(Parser, GivesTheSameErrorForTheSameBytes) {
  Parser parser;
  for (int i = 0; i < 2; ++i) {
    const Parsed parsed = parser.next("*2\r\n$1\r\na\r\nx");
    EXPECT_EQ(parsed.kind, ParsedKind::kError);
    EXPECT_EQ(parsed.consumed, 0u);
    EXPECT_THAT(parsed.words, IsEmpty());
  }
}

}  // namespace
}  // namespace weir::wire::resp
