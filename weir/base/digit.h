// Digits of ASCII, whatever the locale. Pure.

#pragma once

namespace weir {

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace weir
