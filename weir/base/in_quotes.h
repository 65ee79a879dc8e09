// In quotes: text from outside, inside a message.
//
// Cut at a bound, between characters, and without control characters, so that a
// message stays one line whatever a client sent.
//
//   in_quotes("per-client")     'per-client'
//   in_quotes("two\nlines")     'two?lines'
//
// Thread safety: pure.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weir {

constexpr std::size_t kQuotedBytesMax = 80;

// Text that is longer ends with `...` inside the quotes.
inline std::string in_quotes(std::string_view text) {
  std::size_t end = text.size();
  if (end > kQuotedBytesMax) {
    end = kQuotedBytesMax;
    // Not in the middle of a UTF-8 character.
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  }
  std::string result = "'";
  for (const char c : text.substr(0, end)) {
    result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  result += end < text.size() ? "...'" : "'";
  return result;
}

}  // namespace weir
