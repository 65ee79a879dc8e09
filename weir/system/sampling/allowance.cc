#include "weir/system/sampling/allowance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace weir::system::sampling {
namespace {

constexpr Wide kMicroWide = kMicro;

// A whole number of millionths as the double nearest to its decimal: both terms are
// below 2^53, so the one division rounds correctly.
double decimal(std::int64_t micro) { return static_cast<double>(micro) / 1e6; }

bool rotates(const Rotation& rotation) {
  return rotation.rotation_count_micro > 0 && rotation.rotation_interval_micro > 0;
}

// Rounding up is monotonic, so the larger of the rounded terms is the rounded larger term.
Wide exact(const Formula& formula, const Rotation& rotation) {
  Wide most = 0;
  if (rotates(rotation)) {
    // Below 2^50 * 2^25 * 2^30 = 2^105; the millionths of count and interval cancel,
    // those of the margin do not.
    const Wide dividend =
        Wide{rotation.rotation_count_micro} * formula.window_s * formula.margin_micro;
    most = ceil_div(dividend, Wide{rotation.rotation_interval_micro} * kMicroWide);
  }
  if (rotation.sampling_count_micro > 0) {
    most = std::max(most, ceil_div(Wide{rotation.sampling_count_micro} * formula.window_s,
                                   Wide{formula.horizon_s} * kMicroWide));
  }
  return most;
}

// The order of these operations is part of the published rule: 7 in 1080 s gives 29, where
// rational numbers give 28.
double in_doubles(const Formula& formula, const Rotation& rotation) {
  const auto window_s = static_cast<double>(formula.window_s);
  double rotation_rate = 0;
  double least_rate = 0;
  if (rotates(rotation)) {
    rotation_rate = decimal(rotation.rotation_count_micro) *
                    (window_s / decimal(rotation.rotation_interval_micro)) *
                    decimal(formula.margin_micro);
  }
  if (rotation.sampling_count_micro > 0) {
    least_rate = decimal(rotation.sampling_count_micro) /
                 (static_cast<double>(formula.horizon_s) / window_s);
  }
  return std::ceil(std::max(rotation_rate, least_rate));
}

Error beyond(std::string_view what, std::int64_t found, std::string_view expected) {
  return bad_argument(
      fmt::format("{} is {}, but it must be {}; write one within it", what, found, expected));
}

Status check(const Formula& formula, const Rotation& rotation) {
  if (formula.margin_micro < 0 || formula.margin_micro > kMarginMicroMax) {
    return beyond("margin in millionths", formula.margin_micro, "between 0 and 1000 times 10^6");
  }
  if (formula.window_s < 1 || formula.window_s > kSpanSecondsMax) {
    return beyond("window in seconds", formula.window_s, "between 1 and 366 days");
  }
  if (formula.horizon_s < 1 || formula.horizon_s > kSpanSecondsMax) {
    return beyond("horizon in seconds", formula.horizon_s, "between 1 and 366 days");
  }
  for (const std::int64_t micro : {rotation.rotation_count_micro, rotation.rotation_interval_micro,
                                   rotation.sampling_count_micro}) {
    if (micro > kParameterMicroMax) {
      return beyond("a parameter in millionths", micro, "at most 10^9 times 10^6");
    }
  }
  return Done{};
}

}  // namespace

Result<std::optional<std::int64_t>> allowance(const Formula& formula, const Rotation& rotation) {
  if (Status status = check(formula, rotation); !status) return std::move(status).error();
  Wide allowed = 0;
  if (formula.arithmetic == Arithmetic::kExact) {
    allowed = exact(formula, rotation);
  } else {
    const double rounded = in_doubles(formula, rotation);
    allowed = rounded > 0x1p62 ? Wide{kTermMax} + 1 : static_cast<Wide>(rounded);
  }
  if (allowed > kTermMax) {
    return bad_argument(
        "the allowance is more than 2^62, which nothing could count; write a longer "
        "rotation_interval or smaller counts");
  }
  if (allowed <= 0) return std::optional<std::int64_t>{};
  return std::optional<std::int64_t>{static_cast<std::int64_t>(allowed)};
}

}  // namespace weir::system::sampling
