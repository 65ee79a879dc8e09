// Hold ids as text: sixteen hex digits of the owner, a dash, the number, and an `s` if the
// hold is shared.
//
//   00c0ffee00c0ffee-42
//   00c0ffee00c0ffee-43s
//
// There is one way to write an id, and reading takes no other, so ids may be compared
// as texts. An id says nothing about the hold: whether it is active, its engine knows.
//
// Thread safety: pure.

#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/decision.h"

namespace weir {

constexpr std::size_t kHoldTextBytesMax = 16 + 1 + 20 + 1;

// Appends the text of `hold` to `out`.
inline void append_hold(std::string& out, HoldId hold) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<char, kHoldTextBytesMax> text;
  for (unsigned i = 0; i < 16; ++i) text[i] = kDigits[(hold.owner >> (60 - 4 * i)) & 15];
  text[16] = '-';
  auto* end = std::to_chars(text.data() + 17, text.data() + text.size(), hold.number).ptr;
  if (hold.is_shared) *end++ = 's';
  out.append(text.data(), end);
}

// The same as a text of its own.
inline std::string hold_text(HoldId hold) {
  std::string text;
  append_hold(text, hold);
  return text;
}

// The hold that `text` names, or nothing if hold_text() would not have written it.
inline std::optional<HoldId> read_hold(std::string_view text) noexcept {
  if (text.size() < 18 || text[16] != '-') return std::nullopt;
  const std::string_view owner = text.substr(0, 16);
  std::string_view number = text.substr(17);
  if (owner.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  if (number[0] == '0') return std::nullopt;  // no hold, or a second way to write one
  HoldId hold;
  hold.is_shared = number.ends_with('s');
  if (hold.is_shared) number.remove_suffix(1);
  std::from_chars(owner.data(), owner.data() + owner.size(), hold.owner, 16);
  const char* const end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, hold.number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return hold;
}

}  // namespace weir
