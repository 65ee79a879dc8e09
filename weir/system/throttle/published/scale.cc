#include "weir/system/throttle/published/scale.h"

#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

std::optional<ScaleFactor> parse_scale(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto numerator = parse_whole<std::int32_t>(text.substr(0, colon));
  const auto denominator = parse_whole<std::int32_t>(text.substr(colon + 1));
  if (!numerator || !denominator || *numerator < 0 || *denominator < 1) return std::nullopt;
  return ScaleFactor{*numerator, *denominator};
}

Answered<std::int32_t> split_of(ScaleFactor share) noexcept {
  if (share.numerator == 0) return Fault::kArithmetic;
  const auto sum = static_cast<std::int32_t>(std::int64_t{share.denominator} + share.numerator - 1);
  return sum / share.numerator;
}

}  // namespace weir::system::throttle
