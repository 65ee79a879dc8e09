// Pattern: a value to compare with, in which `*` stands for any characters and
// `?` for exactly one. Linear in time but for the stars, and never recursive.

#pragma once

#include <string_view>

namespace weir::engine {

bool has_wildcard(std::string_view pattern) noexcept;
bool matches(std::string_view pattern, std::string_view text) noexcept;

}  // namespace weir::engine
