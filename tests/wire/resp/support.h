// What the protocol tests share: commands as clients send them, and a reader
// that feeds a parser piece by piece.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/wire/resp/charge.h"
#include "weir/wire/resp/parser.h"
#include "weir/wire/resp/throttle.h"

namespace weir::wire::resp {

// A command as it was sent, word by word.
using Spoken = std::vector<std::string>;

// What came out of a stream of bytes.
struct Heard {
  std::vector<Spoken> commands;
  std::string error;     // empty: none
  std::size_t left = 0;  // bytes not consumed

  friend bool operator==(const Heard&, const Heard&) = default;
};

inline std::ostream& operator<<(std::ostream& out, const Heard& heard) {
  for (const Spoken& command : heard.commands) {
    out << "[";
    for (const std::string& word : command) out << "<" << word << ">";
    out << "] ";
  }
  return out << "error '" << heard.error << "', " << heard.left << " left";
}

// The words of a text, a single space between any two.
inline std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

inline std::string encoded(const Spoken& command) {
  std::string bytes = "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& word : command) {
    bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  }
  return bytes;
}

// Reads as a connection does. Unread bytes lie in a block of exactly their size
// that is new for every piece, so the sanitizers see a read past their end or
// through a view that should have moved.
class Reader {
 public:
  explicit Reader(const ParserBounds& bounds = {}) : parser_(bounds) {}

  void feed(std::string_view piece) {
    if (!heard_.error.empty()) return;
    const std::string all = unread_ + std::string(piece);
    const std::unique_ptr<char[]> block(new char[all.size()]);
    all.copy(block.get(), all.size());
    std::string_view bytes(block.get(), all.size());
    for (;;) {
      const Parsed parsed = parser_.next(bytes);
      bytes.remove_prefix(parsed.consumed);
      if (parsed.kind == ParsedKind::kError) heard_.error = parsed.error;
      if (parsed.kind != ParsedKind::kCommand) break;
      heard_.commands.emplace_back(parsed.words.begin(), parsed.words.end());
    }
    unread_ = bytes;
  }

  // After an error what is left depends on the pieces and means nothing.
  Heard heard() const {
    Heard result = heard_;
    result.left = heard_.error.empty() ? unread_.size() : 0;
    return result;
  }

 private:
  Parser parser_;
  std::string unread_;
  Heard heard_;
};

inline Heard hear(std::string_view bytes, const ParserBounds& bounds = {}) {
  Reader reader(bounds);
  reader.feed(bytes);
  return reader.heard();
}

inline Heard hear_in_pieces(std::span<const std::string_view> pieces,
                            const ParserBounds& bounds = {}) {
  Reader reader(bounds);
  for (const std::string_view piece : pieces) reader.feed(piece);
  return reader.heard();
}

inline std::string error_of(std::string_view bytes, const ParserBounds& bounds = {}) {
  return hear(bytes, bounds).error;
}

}  // namespace weir::wire::resp
