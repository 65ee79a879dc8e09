// Hold ids as text: sixteen hex digits of the owner, a dash, the number.
//
//   00c0ffee00c0ffee-42

#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/decision.h"

namespace weir {

constexpr std::size_t kHoldTextBytesMax = 16 + 1 + 20;

// Appends the text of `hold` to `out`.
inline void append_hold(HoldId hold, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, kHoldTextBytesMax> text;
  for (unsigned i = 0; i < 16; ++i) text[i] = kDigits[(hold.owner >> (60 - 4 * i)) & 15];
  text[16] = '-';
  const auto end = std::to_chars(text.data() + 17, text.data() + text.size(), hold.number).ptr;
  out.append(text.data(), end);
}

inline std::string hold_text(HoldId hold) {
  std::string text;
  append_hold(hold, text);
  return text;
}

// The hold that `text` names, or nothing if it names none.
inline std::optional<HoldId> parse_hold(std::string_view text) noexcept {
  if (text.size() < 18 || text.size() > kHoldTextBytesMax || text[16] != '-') return std::nullopt;
  HoldId hold;
  const char* end = text.data() + text.size();
  const auto owner = std::from_chars(text.data(), text.data() + 16, hold.owner, 16);
  const auto number = std::from_chars(text.data() + 17, end, hold.number);
  if (owner.ptr != text.data() + 16 || number.ec != std::errc{} || number.ptr != end) {
    return std::nullopt;
  }
  return hold;
}

}  // namespace weir
