// Throttle: the arithmetic of CL.THROTTLE, redis-cell's command.
//
//     CL.THROTTLE key max_burst count period [quantity]
//
// `count` calls pass every `period` seconds, evenly, and max_burst more at once
// after a rest. That is a bucket of max_burst + 1 units that gains one every
// T = period / count, rounded down to a whole nanosecond as in redis-cell, but
// in integers. The bucket's full_at is redis-cell's TAT, the only thing kept of
// a key: every call brings its own parameters, and they may differ.
//
//     CL.THROTTLE user123 15 30 60     T = 60 s / 30 = 2 s, limit 16
//     -> 0 16 15 -1 2                  allowed, 15 left, full again in 2 s
//
// Mended against redis-cell, where no client could rely on it:
// - Seconds count every nanosecond. There a remainder under 1 ms is dropped, so
//   a client that comes back at the promised second may be refused.
// - `remaining` is exact. There it is a quotient of whole microseconds.
// - The fastest rate is one per nanosecond. There rates of more than one per
//   microsecond divide by zero, and a TAT under 1 ms ahead is forgotten.
// - A negative quantity gives units back, at most until the bucket is full.
//   There `remaining` may exceed the limit, and a key not seen before is an error.
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/meter/bucket.h"

namespace weir::wire::resp {

struct ThrottleCall {
  std::string_view key;       // a view of the word it was read from
  meter::BucketShape shape;   // num 1, den T, burst max_burst + 1
  std::int64_t quantity = 1;  // 0 looks and takes nothing; negative gives back
};

// Reads the words after the command's name. An error is the whole text to send
// after `-`: redis-cell's own where it has one, else BADARG.
//
// max_burst must be 0 or more, count and period 1 or more, and T at least 1 ns.
// Refilling the whole bucket must take less than 2^62 ns.
Result<ThrottleCall> read_throttle(std::span<const std::string_view> words);

// How spans of time become whole seconds.
enum class Seconds : std::uint8_t {
  kCell,       // rounded up
  kDragonfly,  // rounded up to a millisecond; of that, if not 0, whole seconds plus one
};

struct ThrottleReply {
  bool limited = false;
  std::int64_t limit = 0;          // max_burst + 1
  std::int64_t remaining = 0;      // whole units left, in [0, limit]
  std::int64_t retry_after_s = 0;  // -1: not limited, or waiting will not help
  std::int64_t reset_after_s = 0;  // until the bucket is full

  // In the order of the reply, an array.
  std::array<std::int64_t, 5> integers() const noexcept {
    return {limited ? 1 : 0, limit, remaining, retry_after_s, reset_after_s};
  }
  friend bool operator==(const ThrottleReply&, const ThrottleReply&) = default;
};

// What to answer when the call came to `step` at `now`. A client that repeats a
// limited call after retry_after_s is admitted, if no other call came between.
ThrottleReply reply_of(const ThrottleCall& call, const meter::BucketStep& step, Instant now,
                       Seconds seconds = Seconds::kCell) noexcept;

// A span that is not negative, in whole seconds.
std::int64_t whole_seconds(Duration span, Seconds seconds) noexcept;

}  // namespace weir::wire::resp
