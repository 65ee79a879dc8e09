// Units: compute units of locked tokens, exactly.
//
// Tokens are counted in 10^-18 of one. A lock of `amount` for `duration` blocks yields,
// over its whole length,
//
//   total = floor( amount * duration * mana * boost / (10^18 * 1000 * 10000) )
//
// where mana is units per token and 1000 blocks before boost, and boost is in basis
// points, by a table of steps that begin at lengths in seconds. One epoch gets
// floor(total * epoch / duration): two floors, and doing it in one gives other numbers.
// A lock no longer than an epoch gives everything in one.
//
//   10,000 tokens, 60 days of 12 s blocks, mana 10: boost 12000,
//   total 51,840,000, per epoch of 100 blocks 12,000
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "weir/base/integer.h"
#include "weir/base/result.h"

namespace weir::system::compute {

__extension__ typedef unsigned __int128 Amount;

constexpr Amount kToken = 1'000'000'000'000'000'000;          // in parts of 10^-18
constexpr Amount kAmountMax = kToken * kToken / 1'000'000;    // 10^30: any supply is below
constexpr std::int64_t kDurationMax = std::int64_t{1} << 40;  // blocks of one lock
constexpr std::int64_t kManaMax = std::int64_t{1} << 40;
constexpr std::int64_t kBoostMax = 1'000'000;  // basis points: a hundredfold
constexpr std::int64_t kBasisPoints = 10'000;
constexpr std::int64_t kDaySeconds = 86'400;

// From `seconds` on, a lock counts `boost_bp` basis points.
struct BoostStep {
  std::int64_t seconds = 0;
  std::int64_t boost_bp = kBasisPoints;

  friend constexpr bool operator==(const BoostStep&, const BoostStep&) = default;
};

// The published table. A year is 360 days; nothing is interpolated.
inline constexpr BoostStep kPublishedBoost[] = {
    {0, 10'000},
    {60 * kDaySeconds, 12'000},
    {90 * kDaySeconds, 14'000},
    {120 * kDaySeconds, 16'000},
    {150 * kDaySeconds, 18'000},
    {180 * kDaySeconds, 20'000},
    {360 * kDaySeconds, 25'000},
    {720 * kDaySeconds, 30'000},
};

// The boost of a lock that lasts `seconds`. Requires a table that begins at 0 and rises.
constexpr std::int64_t boost_bp(std::span<const BoostStep> table, std::int64_t seconds) noexcept {
  std::int64_t boost = kBasisPoints;
  for (const BoostStep& step : table) {
    if (step.seconds > seconds) break;
    boost = step.boost_bp;
  }
  return boost;
}

// Units of the whole lock. Requires all of them at most the bounds above.
Amount total_units(Amount amount, std::int64_t duration, std::int64_t mana,
                   std::int64_t boost_bp) noexcept;

// Units of one epoch out of `total`. Requires lengths from 1 block to kDurationMax, and a
// total that total_units() gave.
Amount epoch_units(Amount total, std::int64_t duration, std::int64_t epoch_length) noexcept;

// Reads a whole number of 10^-18 tokens, at most kAmountMax. `what` names it in the error.
Result<Amount> parse_parts(std::string_view what, std::string_view text);
// Reads tokens with at most 18 decimals: `10000`, `0.5`.
Result<Amount> parse_tokens(std::string_view what, std::string_view text);
std::string parts_text(Amount amount);
// The shortest decimal: `10000`, `0.5`. parse_tokens reads it back.
std::string tokens_text(Amount amount);

}  // namespace weir::system::compute
