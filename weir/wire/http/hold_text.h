// Hold text: a hold id as clients see it, `00000000000004d2-17`.
//
// Sixteen hexadecimal digits name the engine that made the hold, and a decimal
// number the hold. There is one way to write an id, and reading takes no other, so
// ids may be compared as texts.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/decision.h"

namespace weir::wire::http {

inline void append_hold(std::string& out, HoldId hold) {
  fmt::format_to(std::back_inserter(out), "{:016x}-{}", hold.owner, hold.number);
}

inline std::string hold_text(HoldId hold) {
  std::string text;
  append_hold(text, hold);
  return text;
}

// Nothing if `text` is not what hold_text() writes for some hold.
inline std::optional<HoldId> read_hold(std::string_view text) noexcept {
  constexpr std::size_t kOwnerDigits = 16;
  if (text.size() < kOwnerDigits + 2 || text[kOwnerDigits] != '-') return std::nullopt;
  const std::string_view owner = text.substr(0, kOwnerDigits);
  const std::string_view number = text.substr(kOwnerDigits + 1);
  if (owner.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  if (number[0] == '0') return std::nullopt;  // no hold, or a second way to write one
  HoldId hold;
  std::from_chars(owner.data(), owner.data() + owner.size(), hold.owner, 16);
  const char* const end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, hold.number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return hold;
}

}  // namespace weir::wire::http
