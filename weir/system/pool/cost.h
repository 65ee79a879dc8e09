// Cost: what an attempt used, and what that costs.
//
// Prices are US dollars for a million tokens. Doubles, in the published order of operations;
// nothing is decided by them.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>

#include "weir/base/integer.h"
#include "weir/base/result.h"
#include "weir/system/pool/limits.h"

namespace weir::system::pool {

struct Pricing {
  double input = 0;
  double cached = 0;
  double output = 0;

  friend bool operator==(const Pricing&, const Pricing&) = default;
};

// What one attempt used.
struct Used {
  std::int64_t requests = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::int64_t cached_tokens = 0;

  constexpr std::int64_t tokens() const noexcept {
    return input_tokens + output_tokens + cached_tokens;
  }
  constexpr Amounts amounts() const noexcept { return {tokens(), requests}; }
  friend constexpr bool operator==(const Used&, const Used&) = default;
};

// Refused, with a message, unless each is 0 to kAmountMax, and the tokens together too.
Status validate_used(const Used& used);

inline double cost_of(const Pricing& pricing, const Used& used) noexcept {
  const double input = static_cast<double>(used.input_tokens) * pricing.input;
  const double cached = static_cast<double>(used.cached_tokens) * pricing.cached;
  const double output = static_cast<double>(used.output_tokens) * pricing.output;
  return (input + cached + output) / 1'000'000;
}

}  // namespace weir::system::pool
