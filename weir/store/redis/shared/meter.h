// Shared meter: the five meters as scripts in Redis see them, and back.
//
// Redis tells the time in microseconds and computes in doubles. A bucket of num/den units
// a nanosecond becomes one of num'/den' a microsecond, in lowest terms; a cost of c lasts
// c*den'/num' microseconds, that is, whole ones and a numerator below num'. A script adds
// such pairs, carries and compares, and everything stays below 2^53:
//
//   3 in 10 s, burst 2    3/10^10 a ns = 3/10^7 a us: num' 3, den' 10^7
//   one unit              10^7/3 us = 3,333,333 us and 1/3
//   full                  6,666,666 us and 2/3
//
// States come back as they are in Redis, and what a decision says is worked out from them by
// weir/meter, in 128 bits: to the nanosecond the same as in memory.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/meter.h"
#include "weir/meter/step.h"

namespace weir::store::redis {

constexpr std::int64_t kSharedTermMax = std::int64_t{1} << 52;  // of what scripts add up

// A time to live in whole microseconds, at least one.
std::int64_t whole_us(Duration ttl);

// Why a meter of this shape cannot be shared; Done if it can.
Status check_shareable(const engine::MeterShape& shape);

// The letter of its kind, which is also in the name of its key.
char kind_of(const engine::MeterShape& shape);

// Whether no more comes back to it than was in use all the time since (ebbs.lua).
inline bool has_ebbs(const engine::MeterShape& shape) {
  return std::holds_alternative<meter::BucketShape>(shape) ||
         std::holds_alternative<meter::TickerShape>(shape);
}

// Appends what a script needs to know of a limit. `flag` is its second letter. `about`: the
// time, near enough to tell which days and months are to be thought of.
// Requires a shape that can be shared.
void append_blob(std::string& out, const engine::MeterShape& shape, std::int64_t cost, char flag,
                 Instant about);

// Appends the most that settling may leave the limit to owe, in two numbers: of a bucket, how long
// it then takes to fill, in microseconds and a numerator; of others, units.
void append_debt(std::string& out, const engine::MeterShape& shape, std::int64_t overage);

// Appends how much `units` are, in two numbers: what a blob with that cost begins with, and, of
// a bucket, its numerator; else 0.
void append_amount(std::string& out, const engine::MeterShape& shape, std::int64_t units);

// The whole number in the eight bytes that a script packed as a double, at the front of `bytes`.
std::int64_t read_double(std::string_view bytes);

// The instant at which a script decided; nothing: no clock says that.
std::optional<Instant> instant_of(std::int64_t us);

// A state as the deciding script hands it back.
struct SharedState {
  std::int64_t first = 0;
  std::int64_t second = 0;
};

struct SharedCheck {
  meter::Check check;
  std::int64_t before = 0;  // units left, negative in debt
  std::int64_t after = 0;   // the same if the cost is charged
};

// What the meter said to `cost` at `now`, a whole microsecond. Scripts are exact to 2^53: a number
// beyond, which none of ours gives, counts as that.
SharedCheck judge(const engine::MeterShape& shape, SharedState state, Instant now,
                  std::int64_t cost);

}  // namespace weir::store::redis
