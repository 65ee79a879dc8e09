// Whole numbers as the published software reads them from text: a sign, and digits.

#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace weir::system::throttle {

// None: not a number, or not one of this type.
template <typename Integer>
std::optional<Integer> parse_whole(std::string_view text) {
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  Integer value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

}  // namespace weir::system::throttle
