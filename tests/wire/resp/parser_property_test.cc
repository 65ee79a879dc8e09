// Any commands, encoded as clients do and cut anywhere, are read back.

#include <gtest/gtest.h>

#include "tests/meter/property.h"
#include "tests/wire/resp/support.h"

namespace weir::wire::resp {
namespace {

using meter::between;
using meter::for_all;
using meter::list_of;

// Words made of what the protocol is made of, and of anything.
rc::Gen<std::string> any_word() {
  return rc::gen::oneOf(rc::gen::container<std::string>(rc::gen::arbitrary<char>()),
                        rc::gen::container<std::string>(rc::gen::element(
                            '\r', '\n', '$', '*', '1', '0', ' ', '"', '\'', '\\')));
}

rc::Gen<std::vector<Spoken>> any_commands() {
  return rc::gen::scale(0.2, list_of(rc::gen::nonEmpty(list_of(any_word()))));
}

// Bytes that are nearly commands.
rc::Gen<std::string> any_bytes() {
  const auto token =
      rc::gen::element<std::string>("*1\r\n", "*2\r\n$1\r\na\r\n", "*0\r\n", "*4\r\n", "$0\r\n\r\n",
                                    "$1\r\n", "$2\r\nab\r\n", "$5\r\n", "a\r\n", "a b\n", "\r\n",
                                    "\r", "\n", "*", "$", "-", "0", "a", " ", "\"", "'", "\\");
  return rc::gen::map(rc::gen::scale(0.2, list_of(token)),
                      [](const std::vector<std::string>& tokens) {
                        std::string bytes;
                        for (const std::string& each : tokens) bytes += each;
                        return bytes;
                      });
}

std::vector<std::string_view> any_pieces(std::string_view bytes) {
  std::vector<std::string_view> pieces;
  const auto most = *between(1, 40);
  while (!bytes.empty()) {
    const auto size = static_cast<std::size_t>(*between(1, most));
    pieces.push_back(bytes.substr(0, size));
    bytes.remove_prefix(std::min(size, bytes.size()));
  }
  return pieces;
}

// As redis-cli would write it for a human to paste.
std::string in_quotes(const Spoken& command) {
  std::string line;
  for (const std::string& word : command) {
    line += line.empty() ? "\"" : " \"";
    for (const char c : word) {
      constexpr std::string_view kHex = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      line += {'\\', 'x', kHex[byte / 16], kHex[byte % 16]};
    }
    line += '"';
  }
  return line + "\r\n";
}

TEST(ParserProperty, ReadsBackEncodedCommandsInAnyPieces) {
  for_all([] {
    const std::vector<Spoken> commands = *any_commands();
    std::string bytes;
    for (const Spoken& command : commands) {
      bytes += *rc::gen::arbitrary<bool>() ? encoded(command) : in_quotes(command);
    }
    RC_ASSERT(hear_in_pieces(any_pieces(bytes)) == (Heard{commands, "", 0}));
  });
}

TEST(ParserProperty, HearsTheSameInAnyPiecesWhateverTheBytes) {
  for_all([] {
    const std::string bytes = *any_bytes();
    const ParserBounds bounds{.words_max = 3,
                              .bulk_bytes_max = 4,
                              .request_bytes_max = static_cast<std::size_t>(*between(8, 30)),
                              .inline_bytes_max = static_cast<std::size_t>(*between(1, 30))};
    RC_ASSERT(hear_in_pieces(any_pieces(bytes), bounds) == hear(bytes, bounds));
  });
}

// What is left unread is no longer than one request may be and the line of a length.
TEST(ParserProperty, LeavesNoMoreThanItsBoundsUnread) {
  for_all([] {
    constexpr std::size_t kLengthLineBytesMax = 22;
    const std::string bytes = *any_bytes();
    const ParserBounds bounds{
        .words_max = 3, .bulk_bytes_max = 4, .request_bytes_max = 20, .inline_bytes_max = 20};
    RC_ASSERT(hear(bytes, bounds).left <= 20 + kLengthLineBytesMax);
  });
}

}  // namespace
}  // namespace weir::wire::resp
