// Parser: bytes of the Redis protocol to commands, one at a time.
//
// A command comes as an array of bulk strings, or inline as a line of words:
//
//     *2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n          ECHO "hi"\r\n
//
// The caller keeps the bytes it has read in one contiguous buffer and asks for
// the next command until more bytes are needed:
//
//     for (;;) {
//       const Parsed parsed = parser.next(unread);
//       unread.remove_prefix(parsed.consumed);
//       if (parsed.kind != ParsedKind::kCommand) break;
//       run(parsed.words);
//     }
//
// Words are views into those bytes, except quoted inline words, which are
// unescaped into a buffer of the parser. Empty lines and arrays of no words are
// skipped, as Redis does. Once the parser has met its longest command, it
// allocates nothing.
//
// Where Redis is lenient this is strict: a line of a length is digits and CRLF,
// and a bulk string ends in CRLF. What is an error does not depend on how the
// bytes were cut.
//
// Thread safety: none. One parser belongs to one connection.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::wire::resp {

// One beyond any of these is a protocol error.
struct ParserBounds {
  std::size_t words_max = 1024;             // words of one command
  std::size_t bulk_bytes_max = 1 << 16;     // one bulk string
  std::size_t request_bytes_max = 1 << 20;  // one array with all its bulk strings, as sent
  std::size_t inline_bytes_max = 1 << 16;   // one line, up to its LF
};

enum class ParsedKind : std::uint8_t {
  kCommand,   // `words` has at least one
  kNeedMore,  // the bytes end before the command does
  kError,     // close the connection: where the next command begins is not known
};

struct Parsed {
  ParsedKind kind = ParsedKind::kNeedMore;

  // How many bytes to drop before the next call: the command and what was skipped
  // before it. When more are needed, only what was skipped; after an error, none.
  std::size_t consumed = 0;

  // Valid until the next call, and no longer than the bytes.
  std::span<const std::string_view> words;

  // As Redis words it, without the leading `ERR`. Valid until the next call.
  std::string_view error;

  bool is_inline = false;  // a command that came as a line
};

class Parser {
 public:
  explicit Parser(const ParserBounds& bounds = {}) : bounds_(bounds) {}

  // The first command in `bytes`.
  //
  // After kNeedMore the next call must present what was not consumed, with more
  // bytes behind it; it may have moved in memory. The parser goes on where it
  // stopped, so a command that comes in many pieces is read once. After kCommand
  // any bytes may follow. After kError those bytes give that error again.
  Parsed next(std::string_view bytes);

  // Forgets a command begun: for another connection.
  void reset() noexcept;
  // From now on; a command begun before is held to them where it goes on.
  void set_bounds(const ParserBounds& bounds) noexcept { bounds_ = bounds; }

 private:
  enum class Step : std::uint8_t { kWhole, kEmpty, kCut, kBad };

  Step read_request(std::string_view request);
  Step read_array(std::string_view request);
  Step read_inline(std::string_view request);
  Step fail(std::string_view error);
  void remember_words(std::string_view request);
  void find_words(std::string_view request);

  ParserBounds bounds_;

  // Of the request being read. Positions count from its first byte.
  std::size_t at_ = 0;             // read up to here
  std::size_t missing_words_ = 0;  // of an array whose first line has been read
  std::vector<std::string_view> words_;

  // Where the words of a request cut short begin, as the bytes may move before
  // the rest of it comes.
  std::vector<std::size_t> begins_;
  const char* bytes_before_ = nullptr;

  std::string unquoted_;  // what quoted inline words stand for
  std::string error_;
};

}  // namespace weir::wire::resp
