// Quantity: durations, rates and amounts, as people write them.
//
//   duration   15m  1h30m  1.5h  744h       units ns us ms s m h d w
//   amount     100  400_000                 0.64 if the unit is counted in millionths
//   rate       100/s  400000/744h  0.5/1m30s
//
// Exact: no floating point, nothing is rounded; what cannot be held is refused.
// Each parser takes the name of what it reads, for its error:
// `burst is 'x', but it must be ...; write ...`.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/base/export.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/rules.h"

namespace weir::engine {

struct Rate {
  std::int64_t amount = 0;
  Duration period{};
};

// A duration from 1 ns to 2^62 ns. Parts add up, in any order; a decimal fraction must come
// to whole nanoseconds.
WEIR_EXPORT Result<Duration> parse_duration(std::string_view what, std::string_view text);
// The same from 0 ns.
WEIR_EXPORT Result<Duration> parse_span(std::string_view what, std::string_view text);

// From 0 to 2^62, after scaling. In a unit of millionths `0.64` is 640,000, and
// at most six decimal places are read.
WEIR_EXPORT Result<std::int64_t> parse_amount(std::string_view what, std::string_view text,
                                              UnitScale scale);

// A whole number from `least` to `most`, not scaled. Requires 0 <= least <= most <= 2^62.
Result<std::int64_t> parse_count(std::string_view what, std::string_view text, std::int64_t least,
                                 std::int64_t most);

// An amount and a period; a bare unit stands for one of it. Not zero.
WEIR_EXPORT Result<Rate> parse_rate(std::string_view what, std::string_view text, UnitScale scale);

// The shortest way to write it: `1h30m`, `31d`. parse_duration reads it back.
// Requires a duration of 0 or more.
WEIR_EXPORT std::string duration_text(Duration duration);

// `0.64` for 640,000 millionths. parse_amount reads it back. Requires 0 or more.
WEIR_EXPORT std::string amount_text(std::int64_t amount, UnitScale scale);

}  // namespace weir::engine
