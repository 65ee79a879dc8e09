// Model limiter: what one instance has booked on one model.
//
// A job reserves its estimate in every window and a place in flight, all or nothing. When it
// ends, what it did not use is given back if the window is still the one it was booked in, and
// what it used on top is counted in the current one:
//
//   reserve 10,000, use  6,000 in the same minute: the minute counts 6,000
//   reserve 10,000, use  6,000 in the next one:    the old minute keeps 10,000
//   reserve 10,000, use 15,000:                    5,000 more in the minute of the end
//
// Time that goes back keeps the window.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "weir/base/time.h"
#include "weir/system/pool/limits.h"
#include "weir/system/pool/permits.h"

namespace weir::system::pool {

// The published rule does not add dimensions that were not limited at first. It has at least one
// place in flight, and forgets places it owes when it shrinks.
enum class LimiterRule : std::uint8_t { kStrict, kPublished };

struct Reservation {
  Amounts estimate{};
  std::array<Instant, kRateCount> windows{};  // first instants, in the order of kRates
};

// Why it was not reserved.
struct Shortage {
  Dimension dimension = Dimension::kConcurrency;
  Instant retry_at = kForever;  // kForever: when a job ends, or never if `is_never`
  bool is_never = false;        // the estimate is larger than the limit
};

// What a job used beyond its estimate.
struct Overage {
  Amounts estimated{};
  Amounts actual{};
  std::int64_t tokens = 0;
  std::int64_t requests = 0;
};

struct RateReading {
  std::int64_t count = 0;
  std::optional<std::int64_t> limit{};
  Instant resets_at{};
};

class ModelLimiter {
 public:
  ModelLimiter(const ModelLimits& limits, LimiterRule rule);

  // Whether a smallest job would pass.
  bool has_capacity(Instant now) noexcept;
  // Nothing, with the reason in `shortage`, if it does not fit. A window that is full refuses an
  // estimate of 0 too.
  std::optional<Reservation> try_reserve(const Amounts& estimate, Instant now, Shortage& shortage);
  // Even if it does not fit: the coordinator decided.
  Reservation reserve_anyway(const Amounts& estimate, Instant now) noexcept;
  // It did not start: everything is given back where the window is the same.
  void cancel(const Reservation& reservation, Instant now) noexcept;
  Overage finish(const Reservation& reservation, const Amounts& actual, Instant now) noexcept;
  // It ended, and what it used is not known: the estimate stays.
  void fail() noexcept;

  void set_limits(const Rates& limits) noexcept;
  void set_concurrency(std::optional<std::int64_t> limit) noexcept;

  RateReading rate(Dimension rate, Instant now) noexcept;
  const std::optional<Permits>& concurrency() const noexcept { return permits_; }
  std::int64_t in_flight() const noexcept { return in_flight_; }

 private:
  struct Counter {
    std::optional<std::int64_t> limit{};
    std::int64_t count = 0;
    Instant begin{};
  };

  Counter& advance(Dimension rate, Instant now) noexcept;

  LimiterRule rule_;
  std::array<Counter, kRateCount> counters_{};
  std::optional<Permits> permits_{};
  std::int64_t in_flight_ = 0;
};

}  // namespace weir::system::pool
