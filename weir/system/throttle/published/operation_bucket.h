// Operation bucket: a level that claims raise and time lowers, exactly.
//
// One logical operation is 10^12 units, so that one nanosecond at one thousandth of an
// operation per second leaks exactly one unit and no fraction is ever lost. The bucket
// remembers the moment of its last decision; the first decision leaks nothing.
//
//   auto bucket = OperationBucket::make(/*milli_ops=*/13'000, /*burst_ms=*/1'000);
//   bucket->claim(1, now);
//
// A claim at an earlier moment than the last decision is an anomaly, not a denial. The clock
// moves whether a claim is granted or denied.
//
// Thread safety: none; the owner orders the calls.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "weir/base/integer.h"
#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/published/moment.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

constexpr std::int64_t kUnitsPerOperation = 1'000'000'000'000;
constexpr std::int32_t kOperationsMax = 9'223'372;  // whose units fit in 64 bits

// The units of `n` logical operations; -1: they do not fit in 64 bits.
constexpr std::int64_t units_of(std::int32_t n) noexcept {
  return n > kOperationsMax ? -1 : wrapping_product(n, kUnitsPerOperation);
}

class OperationBucket {
 public:
  // None: it could never hold one operation, or its numbers do not fit in 64 bits.
  static constexpr std::optional<OperationBucket> make(std::int64_t milli_ops,
                                                       std::int64_t burst_ms) noexcept {
    if (would_overflow(milli_ops, 1'000'000'000)) return std::nullopt;
    const std::int64_t per_ms = wrapping_product(milli_ops, 1'000'000);
    if (would_overflow(per_ms, burst_ms)) return std::nullopt;
    const std::int64_t capacity = wrapping_product(per_ms, burst_ms);
    if (milli_ops < 1 || capacity < kUnitsPerOperation) return std::nullopt;
    return OperationBucket(milli_ops, capacity);
  }

  // Leaks up to `now`, then claims `n` logical operations, all or none.
  constexpr Answer claim(std::int32_t n, Moment now) noexcept {
    const Anomaly anomaly = leak_until(now);
    if (anomaly != Anomaly::kNone) [[unlikely]]
      return anomaly;
    return claim_now(n);
  }

  // Without leaking or moving the clock.
  constexpr Answer claim_now(std::int32_t n) noexcept {
    if (n > kOperationsMax) return false;
    if (n < 0) return Anomaly::kIllegalArgument;
    const std::int64_t units = n * kUnitsPerOperation;
    if (units > capacity_ - used_) return false;
    used_ += units;
    claimed_ += units;
    return true;
  }

  // Leaks up to `now` and moves the clock.
  constexpr Anomaly leak_until(Moment now) noexcept {
    if (is_decided_) [[likely]] {
      const std::optional<std::int64_t> elapsed = elapsed_ns(decided_, now);
      if (!elapsed) return Anomaly::kArithmetic;
      if (*elapsed < 0) return Anomaly::kTimeWentBackwards;
      used_ -= std::min(used_, leak_for(*elapsed));
    }
    decided_ = now;
    is_decided_ = true;
    return Anomaly::kNone;
  }

  // Gives back, down to an empty bucket.
  constexpr Anomaly give_back(std::int32_t n) noexcept {
    return n > kOperationsMax ? Anomaly::kNone : give_back_units(units_of(n));
  }
  constexpr Anomaly give_back_units(std::int64_t units) noexcept {
    if (units < 0) return Anomaly::kIllegalArgument;
    used_ -= std::min(used_, units);
    return Anomaly::kNone;
  }

  // What was claimed since the last mark() can be given back at once.
  constexpr void mark() noexcept { claimed_ = 0; }
  constexpr void reclaim() noexcept {
    used_ -= std::min(used_, claimed_);
    claimed_ = 0;
  }

  constexpr void reset() noexcept {
    used_ = 0;
    claimed_ = 0;
    is_decided_ = false;
  }

  constexpr Usage usage() const noexcept { return {used_, decided()}; }

  // The clock is replaced even if the level is refused.
  constexpr Anomaly restore(const Usage& usage) noexcept {
    is_decided_ = usage.decided.has_value();
    decided_ = usage.decided.value_or(Moment{});
    if (usage.used < 0 || usage.used > capacity_) return Anomaly::kIllegalArgument;
    used_ = usage.used;
    return Anomaly::kNone;
  }

  constexpr std::int64_t used() const noexcept { return used_; }
  constexpr std::int64_t capacity() const noexcept { return capacity_; }
  constexpr std::int64_t free() const noexcept { return capacity_ - used_; }
  constexpr std::int64_t milli_ops() const noexcept { return milli_ops_; }  // leaks a second
  constexpr std::optional<Moment> decided() const noexcept {
    return is_decided_ ? std::optional(decided_) : std::nullopt;
  }

  // What will be left of the level at `at`.
  constexpr std::int64_t used_at(Moment at) const noexcept {
    if (!is_decided_) return used_;
    return used_ - std::min(used_, leak_for(elapsed_or_zero_ns(decided_, at)));
  }

  // Of the capacity, multiplied before it is divided, as published.
  constexpr double percent_used(Moment at) const noexcept {
    return is_decided_ ? percent(used_at(at)) : 0.0;
  }
  constexpr double percent_used_now() const noexcept { return is_decided_ ? percent(used_) : 0.0; }

  // Hundredths of a percent, rounded down.
  constexpr std::int32_t basis_points_now() const noexcept {
    return is_decided_ ? static_cast<std::int32_t>(Wide{used_} * 10'000 / capacity_) : 0;
  }

  // Nanoseconds from `at` until `n` logical operations fit, rounded up; none: never.
  constexpr std::optional<std::int64_t> fits_after_ns(std::int32_t n, Moment at) const noexcept {
    if (n > kOperationsMax || units_of(n) > capacity_) return std::nullopt;
    const Wide missing = Wide{units_of(n)} - (capacity_ - used_at(at));
    return missing <= 0 ? 0 : static_cast<std::int64_t>(ceil_div(missing, milli_ops_));
  }

 private:
  constexpr OperationBucket(std::int64_t milli_ops, std::int64_t capacity) noexcept
      : capacity_(capacity), milli_ops_(milli_ops), longest_ns_(kMax / milli_ops) {}

  constexpr std::int64_t leak_for(std::int64_t elapsed) const noexcept {
    return elapsed > longest_ns_ ? capacity_ : elapsed * milli_ops_;
  }
  constexpr double percent(std::int64_t used) const noexcept {
    return 100.0 * static_cast<double>(used) / static_cast<double>(capacity_);
  }

  std::int64_t used_ = 0;
  std::int64_t capacity_;
  std::int64_t milli_ops_;
  std::int64_t longest_ns_;  // beyond it the product would overflow, and everything has leaked
  std::int64_t claimed_ = 0;
  // Not an optional: g++ 12 takes its empty half for a value that is read.
  Moment decided_{};
  bool is_decided_ = false;
};

}  // namespace weir::system::throttle
