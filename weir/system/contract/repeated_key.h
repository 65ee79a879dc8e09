// Keys that one object of a JSON document has twice. A reader that keeps one of the
// values would choose silently.
//
// Thread safety: the function is pure.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace weir::system::contract {

// The first key that an object repeats. Requires JSON that was read, at most so deep.
std::optional<std::string> repeated_key(std::string_view document, std::size_t depth_max);

}  // namespace weir::system::contract
