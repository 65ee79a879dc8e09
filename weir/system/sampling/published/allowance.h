// Allowance: how many tasks of one environment a miner may be given in any window.
//
// The sampling list of an environment rotates: every `rotation_interval` the
// `rotation_count` oldest ids leave it. A miner that gets tasks hardly faster than that
// never sees the whole list. A floor lets a list of `sampling_count` ids be finished
// within the horizon, however slowly it rotates:
//
//   ceil(max(rotation_count * window / rotation_interval * margin,
//            sampling_count * window / horizon))
//
//   allowance({}, {.rotation_count_micro = 5 * kMicro,
//                  .rotation_interval_micro = 3600 * kMicro,
//                  .sampling_count_micro = 200 * kMicro});      // 6 an hour
//
// Whether the list rotates at present plays no part: a pause would be a hole.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weir/base/integer.h"
#include "weir/base/result.h"

namespace weir::system::sampling {

enum class Arithmetic : std::uint8_t {
  kExact,   // rational numbers; rounded up once, at the end
  kDouble,  // count * (window / interval) * margin, as the published scheduler computes it
};

// The bounds keep every product of the exact form below 2^127.
constexpr std::int64_t kParameterMicroMax = 1'000'000'000 * kMicro;  // a count, or seconds
constexpr std::int64_t kMarginMicroMin = 1;  // with 0 a list that rotates would be no limit
constexpr std::int64_t kMarginMicroMax = 1'000 * kMicro;
constexpr std::int64_t kSpanSecondsMax = std::int64_t{366} * 24 * 3600;  // window and horizon
constexpr std::int64_t kAllowanceMax = 0xffff'ffff;  // what a log counts under one stamp

struct Formula {
  std::int64_t margin_micro = 1'200'000;             // 1.2
  std::int64_t horizon_s = std::int64_t{48} * 3600;  // within which every list can be finished
  std::int64_t window_s = 3600;                      // in which the allowance is counted
  Arithmetic arithmetic = Arithmetic::kExact;

  friend bool operator==(const Formula&, const Formula&) = default;
};

// Of one environment, in millionths. One that is not above 0 switches off its own term.
struct Rotation {
  std::int64_t rotation_count_micro = 0;
  std::int64_t rotation_interval_micro = 0;  // seconds
  std::int64_t sampling_count_micro = 0;

  friend bool operator==(const Rotation&, const Rotation&) = default;
};

// At least 1, or nothing: not limited, because both terms are off. Refused, with a message,
// if a parameter or the allowance is beyond its bound.
Result<std::optional<std::int64_t>> allowance(const Formula& formula, const Rotation& rotation);

// Millionths as a decimal: -1.5.
std::string decimal_text(std::int64_t micro);

}  // namespace weir::system::sampling
