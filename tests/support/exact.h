// Exact: integers wide enough for every product a meter can form.

#pragma once

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <limits>

namespace weir {

// It throws rather than overflow.
using Exact = boost::multiprecision::checked_int256_t;

inline Exact exact_floor_div(const Exact& dividend, const Exact& divisor) {
  const Exact quotient = dividend / divisor;
  return quotient * divisor > dividend ? quotient - 1 : quotient;
}

inline Exact exact_ceil_div(const Exact& dividend, const Exact& divisor) {
  return -exact_floor_div(-dividend, divisor);
}

// The nearest 64-bit value.
inline std::int64_t nearest(const Exact& value) {
  const Exact least = std::numeric_limits<std::int64_t>::min();
  const Exact most = std::numeric_limits<std::int64_t>::max();
  return std::clamp(value, least, most).convert_to<std::int64_t>();
}

}  // namespace weir
