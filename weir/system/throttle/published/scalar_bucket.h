// Scalar buckets: gas and excess bytes per second, and the duration of operations.
//
// They lose fractions, as the published ones do: a leak is a whole number of units, and
// what is cut off is gone because the clock moves on. With 15,000,000 gas a second, two
// decisions less than 67 ns apart leak nothing.
//
// Thread safety: none; the owner orders the calls.

#pragma once

#include <cstdint>
#include <optional>

#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/published/moment.h"

namespace weir::system::throttle {

// Gas or bytes: holds what leaks in `burst_seconds`.
class ScalarBucket {
 public:
  // None: the capacity is negative, or does not fit in 64 bits.
  static std::optional<ScalarBucket> make(std::int64_t per_second, std::int32_t burst_seconds = 1);

  // Leaks up to `now`, then claims. A negative amount is an anomaly that moves no clock.
  Answer claim(std::int64_t units, Moment now) noexcept;

  // Leaks only. An earlier moment moves the clock back, and is an anomaly unless the leak,
  // which is then negative, is cut off to nothing.
  Anomaly leak_until(Moment now) noexcept;

  Anomaly give_back(std::int64_t units) noexcept;

  void mark() noexcept { claimed_ = 0; }
  void reclaim() noexcept;
  void reset() noexcept;  // keeps the clock

  Usage usage() const noexcept { return {used_, decided_}; }
  Anomaly restore(const Usage& usage) noexcept;  // as an operation bucket does

  std::int64_t used() const noexcept { return used_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  std::int64_t free_at(Moment at) const noexcept;
  std::int64_t free_to_used() const noexcept;  // 2^63-1 if nothing is used
  double percent_used(Moment at) const noexcept;
  double percent_used_now() const noexcept;

  // Nanoseconds from `at` until `units` fit if nothing happens meanwhile; none: never.
  std::optional<std::int64_t> fits_after_ns(std::int64_t units, Moment at) const noexcept;

 private:
  ScalarBucket(std::int64_t capacity, std::int32_t burst_seconds) noexcept
      : capacity_(capacity), burst_seconds_(burst_seconds) {}

  std::int64_t leak_for(std::int64_t elapsed) const noexcept;
  std::int64_t used_at(Moment at) const noexcept;
  double percent(std::int64_t used) const noexcept;

  std::int64_t used_ = 0;
  std::int64_t capacity_;
  std::int32_t burst_seconds_;
  std::int64_t claimed_ = 0;
  std::optional<Moment> decided_{};
};

// Work of contracts, charged when it is over: may be filled beyond its capacity, and
// admits as long as anything is free.
class DurationBucket {
 public:
  DurationBucket(std::int64_t capacity, std::int64_t per_second) noexcept
      : capacity_(capacity), per_second_(per_second) {}

  // Leaks up to `now`, then adds; a negative amount counts as 0.
  Anomaly use(std::int64_t units, Moment now) noexcept;

  Usage usage() const noexcept { return {used_, decided_}; }
  Anomaly restore(const Usage& usage) noexcept;

  std::int64_t used() const noexcept { return used_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  std::int64_t free_at(Moment at) const noexcept;  // at least 0
  std::int64_t used_at(Moment at) const noexcept;
  double percent_used(Moment at) const noexcept;  // may exceed 100, or be no number
  double percent_used_now() const noexcept;

  // Nanoseconds from `at` until anything is free if nothing happens meanwhile; none: never, or
  // beyond what its products hold.
  std::optional<std::int64_t> free_after_ns(Moment at) const noexcept;

 private:
  std::int64_t leak_for(std::int64_t elapsed) const noexcept;
  double percent(std::int64_t used) const noexcept;

  std::int64_t used_ = 0;
  std::int64_t capacity_;
  std::int64_t per_second_;
  std::optional<Moment> decided_{};
};

}  // namespace weir::system::throttle
