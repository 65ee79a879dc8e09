// Whole units that leak by the nanosecond, with the network's own rules for what overflows.

#include "weir/system/throttle/published/scalar_bucket.h"

#include <algorithm>

#include "weir/base/integer.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

// What leaks at most once the product of time and rate leaves 64 bits.
constexpr std::int64_t kLeakOnOverflow = kMax / kNsPerSecond;

}  // namespace

std::optional<ScalarBucket> ScalarBucket::make(std::int64_t per_second,
                                               std::int32_t burst_seconds) {
  std::int64_t capacity = 0;
  if (burst_seconds < 1 || per_second < 0) return std::nullopt;
  if (__builtin_mul_overflow(per_second, std::int64_t{burst_seconds}, &capacity)) {
    return std::nullopt;
  }
  return ScalarBucket(capacity, burst_seconds);
}

// Whole units. After a second everything has leaked, however long the burst: published so.
std::int64_t ScalarBucket::leak_for(std::int64_t elapsed) const noexcept {
  if (elapsed >= kNsPerSecond) return capacity_;
  if (would_overflow(elapsed, capacity_)) return kLeakOnOverflow;
  return wrapping_product(elapsed, capacity_) / burst_seconds_ / kNsPerSecond;
}

Answer ScalarBucket::claim(std::int64_t units, Moment now) noexcept {
  std::int64_t elapsed = 0;
  if (decided_) {
    const std::optional<std::int64_t> exact = elapsed_ns(*decided_, now);
    if (!exact) return Anomaly::kArithmetic;
    if (*exact < 0) return Anomaly::kTimeWentBackwards;
    elapsed = *exact;
  }
  if (units < 0) return Anomaly::kIllegalArgument;
  decided_ = now;
  used_ -= std::min(used_, leak_for(elapsed));
  if (capacity_ - used_ < units) return false;
  used_ += units;
  claimed_ += units;
  return true;
}

Anomaly ScalarBucket::leak_until(Moment now) noexcept {
  std::int64_t elapsed = 0;
  if (decided_) {
    const std::optional<std::int64_t> exact = elapsed_ns(*decided_, now);
    if (!exact) return Anomaly::kArithmetic;
    elapsed = *exact;
  }
  decided_ = now;
  return give_back(leak_for(elapsed));
}

Anomaly ScalarBucket::give_back(std::int64_t units) noexcept {
  if (units < 0) return Anomaly::kIllegalArgument;
  used_ -= std::min(used_, units);
  return Anomaly::kNone;
}

void ScalarBucket::reclaim() noexcept {
  used_ -= std::min(used_, claimed_);
  claimed_ = 0;
}

void ScalarBucket::reset() noexcept {
  used_ = 0;
  claimed_ = 0;
}

Anomaly ScalarBucket::restore(const Usage& usage) noexcept {
  decided_ = usage.decided;
  if (usage.used < 0 || usage.used > capacity_) return Anomaly::kIllegalArgument;
  used_ = usage.used;
  return Anomaly::kNone;
}

std::int64_t ScalarBucket::used_at(Moment at) const noexcept {
  if (!decided_) return used_;
  return used_ - std::min(used_, leak_for(elapsed_or_zero_ns(*decided_, at)));
}

std::int64_t ScalarBucket::free_at(Moment at) const noexcept { return capacity_ - used_at(at); }

std::int64_t ScalarBucket::free_to_used() const noexcept {
  return used_ == 0 ? kMax : (capacity_ - used_) / used_;
}

double ScalarBucket::percent(std::int64_t used) const noexcept {
  return 100.0 * static_cast<double>(used) / static_cast<double>(capacity_);
}

double ScalarBucket::percent_used(Moment at) const noexcept {
  return decided_ ? percent(used_at(at)) : 0.0;
}

double ScalarBucket::percent_used_now() const noexcept { return decided_ ? percent(used_) : 0.0; }

std::optional<std::int64_t> ScalarBucket::fits_after_ns(std::int64_t units,
                                                        Moment at) const noexcept {
  if (units > capacity_) return std::nullopt;
  if (units <= free_at(at)) return 0;
  // The level is stored at `decided_`, and one leak from there must free enough.
  const std::int64_t needed = units - (capacity_ - used_);
  const Wide exact = ceil_div(Wide{needed} * kNsPerSecond * burst_seconds_, capacity_);
  std::int64_t elapsed = exact < kNsPerSecond ? static_cast<std::int64_t>(exact) : kNsPerSecond;
  // Beyond the 64-bit product less leaks than should, up to the second at which all does.
  if (elapsed < kNsPerSecond && leak_for(elapsed) < needed) elapsed = kNsPerSecond;
  // Without a decision so far, the one at `at` starts the clock.
  const std::int64_t passed = decided_ ? elapsed_or_zero_ns(*decided_, at) : 0;
  return std::max<std::int64_t>(0, elapsed - passed);
}

std::int64_t DurationBucket::leak_for(std::int64_t elapsed) const noexcept {
  if (would_overflow(elapsed, per_second_)) return kLeakOnOverflow;
  return wrapping_product(elapsed, per_second_) / kNsPerSecond;
}

Anomaly DurationBucket::use(std::int64_t units, Moment now) noexcept {
  if (decided_) {
    const std::optional<std::int64_t> elapsed = elapsed_ns(*decided_, now);
    if (!elapsed) return Anomaly::kArithmetic;
    if (*elapsed < 0) return Anomaly::kTimeWentBackwards;
    used_ -= std::min(used_, leak_for(*elapsed));
  }
  decided_ = now;
  used_ += std::min(kMax - used_, std::max<std::int64_t>(0, units));
  return Anomaly::kNone;
}

Anomaly DurationBucket::restore(const Usage& usage) noexcept {
  decided_ = usage.decided;
  if (usage.used < 0) return Anomaly::kIllegalArgument;
  used_ = usage.used;
  return Anomaly::kNone;
}

std::int64_t DurationBucket::used_at(Moment at) const noexcept {
  const std::int64_t leaked = decided_ ? leak_for(elapsed_or_zero_ns(*decided_, at)) : 0;
  return used_ - std::min(used_, leaked);
}

std::int64_t DurationBucket::free_at(Moment at) const noexcept {
  return std::max<std::int64_t>(0, capacity_ - used_at(at));
}

double DurationBucket::percent(std::int64_t used) const noexcept {
  return 100.0 * static_cast<double>(used) / static_cast<double>(capacity_);
}

double DurationBucket::percent_used(Moment at) const noexcept {
  return decided_ ? percent(used_at(at)) : 0.0;
}

double DurationBucket::percent_used_now() const noexcept { return decided_ ? percent(used_) : 0.0; }

std::optional<std::int64_t> DurationBucket::free_after_ns(Moment at) const noexcept {
  if (free_at(at) > 0) return 0;
  if (capacity_ < 1 || per_second_ < 1 || !decided_) return std::nullopt;
  // The level is stored at `decided_`, and one leak from there must free a unit.
  const std::int64_t needed = used_ - capacity_ + 1;
  const Wide exact = ceil_div(Wide{needed} * kNsPerSecond, per_second_);
  if (exact > kTermMax) return std::nullopt;
  const auto elapsed = static_cast<std::int64_t>(exact);
  if (leak_for(elapsed) < needed) return std::nullopt;
  return std::max<std::int64_t>(0, elapsed - elapsed_or_zero_ns(*decided_, at));
}

}  // namespace weir::system::throttle
