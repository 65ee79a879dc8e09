// Fraction: an exact number, as a person or a JSON document writes it.
//
//   42   0.005   1e-3   42.666666666666664
//
// Costs, areas and months come as decimals. They are read exactly and turned into
// whole micro-units once, rounded up, when they are debited.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <string_view>

#include "weir/base/integer.h"
#include "weir/base/result.h"

namespace weir::system::contract {

struct Fraction {
  Wide num = 0;
  Wide den = 1;  // from 1 to 2^123

  friend constexpr bool operator==(const Fraction&, const Fraction&) = default;  // as written
};

// Reads a decimal from 0 to 10^19, with an exponent or without. Of more than 24
// digits the 24th is rounded up. `what` names it in the error.
Result<Fraction> parse_decimal(std::string_view what, std::string_view text);

// The shortest decimal that reads back as `value`: what a JSON document meant by
// it. Negative numbers, NaN and infinities are refused by name.
Result<Fraction> decimal_of(std::string_view what, double value);

enum class Rounding : std::uint8_t {
  kUp,    // costs
  kDown,  // what is left
};

// Whole millionths; refused above 2^62 of them.
Result<std::int64_t> micro_of(std::string_view what, const Fraction& fraction,
                              Rounding rounding = Rounding::kUp);

// Both at once: what a cost written as `text` debits.
Result<std::int64_t> parse_micro(std::string_view what, std::string_view text);

}  // namespace weir::system::contract
