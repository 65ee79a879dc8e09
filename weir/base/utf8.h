// UTF-8: whether bytes are it, where they stop being it, and how it is written.
//
// Overlong forms, surrogates and code points above U+10FFFF are not UTF-8.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir {

struct Utf8Sequence {
  std::size_t size;  // bytes looked at; at least 1
  bool valid;
};

// The sequence that starts `text`, or how much of it could have started one.
// Requires that text is not empty.
Utf8Sequence utf8_at(std::string_view text) noexcept;

// Where `text` first stops being UTF-8, or npos.
std::size_t find_not_utf8(std::string_view text) noexcept;

// Requires a code point of at most U+10FFFF that is no surrogate.
void append_utf8(std::string& out, std::uint32_t code);

}  // namespace weir
