// Triggers: `50,3:2,90,5:1`, percentages and what they set off in turn, as settings of
// the published network write them. What follows a point is cut off a number.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "weir/system/throttle/whole_number.h"

namespace weir::system::throttle {

constexpr std::string_view before_point(std::string_view text) noexcept {
  return text.substr(0, text.find('.'));
}

// Calls `take(percent, value)` for each pair. False: the percentages are not from 0 to 100
// and rising, a value is missing, or `take` said so.
template <typename Take>
bool parse_triggers(std::string_view text, Take&& take) {
  std::optional<std::int32_t> last;
  for (;;) {
    const std::size_t comma = text.find(',');
    if (comma == std::string_view::npos) return false;
    const auto percent = parse_whole<std::int32_t>(before_point(text.substr(0, comma)));
    if (!percent || *percent < 0 || *percent > 100 || (last && *percent <= *last)) return false;
    last = percent;
    text.remove_prefix(comma + 1);
    const std::size_t end = text.find(',');
    if (!take(*percent, text.substr(0, end))) return false;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

}  // namespace weir::system::throttle
