// The formula twice: in whole numbers, rounded up once, and in doubles, in the published order.

#include "weir/system/sampling/published/allowance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "weir/engine/quantity.h"

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

Error beyond(std::string_view what, std::string_view found, std::string_view expected) {
  return bad_argument(
      fmt::format("{} is {}, but it must be {}; write one within it", what, found, expected));
}

Status check(const Formula& formula, const Rotation& rotation) {
  if (formula.margin_micro < kMarginMicroMin || formula.margin_micro > kMarginMicroMax) {
    return beyond("margin", decimal_text(formula.margin_micro), "between 0.000001 and 1000");
  }
  if (formula.window_s < 1 || formula.window_s > kSpanSecondsMax) {
    return beyond("window", fmt::format("{}s", formula.window_s), "between 1s and 366 days");
  }
  if (formula.horizon_s < 1 || formula.horizon_s > kSpanSecondsMax) {
    return beyond("horizon", fmt::format("{}s", formula.horizon_s), "between 1s and 366 days");
  }
  const struct {
    std::string_view name;
    std::int64_t micro;
  } parameters[] = {{"rotation_count", rotation.rotation_count_micro},
                    {"rotation_interval", rotation.rotation_interval_micro},
                    {"sampling_count", rotation.sampling_count_micro}};
  for (const auto& [name, micro] : parameters) {
    if (micro > kParameterMicroMax) return beyond(name, decimal_text(micro), "at most 10^9");
  }
  return Done{};
}

}  // namespace

std::string decimal_text(std::int64_t micro) {
  // The one number that has no positive is as good as its neighbour.
  const std::int64_t size = std::abs(std::max(micro, -std::numeric_limits<std::int64_t>::max()));
  return fmt::format("{}{}", micro < 0 ? "-" : "",
                     engine::amount_text(size, engine::UnitScale::kMicro));
}

Result<std::optional<std::int64_t>> allowance(const Formula& formula, const Rotation& rotation) {
  if (Status status = check(formula, rotation); !status) return std::move(status).error();
  Wide allowed = 0;
  if (formula.arithmetic == Arithmetic::kExact) {
    allowed = exact(formula, rotation);
  } else {
    const double rounded = in_doubles(formula, rotation);
    allowed = rounded > 0x1p62 ? Wide{kTermMax} : static_cast<Wide>(rounded);
  }
  if (allowed > kAllowanceMax) {
    return bad_argument(
        fmt::format("the allowance is more than {}, which is as many as are counted; write a "
                    "longer rotation_interval or smaller counts",
                    kAllowanceMax));
  }
  if (allowed <= 0) return std::optional<std::int64_t>{};
  return std::optional<std::int64_t>{static_cast<std::int64_t>(allowed)};
}

}  // namespace weir::system::sampling
