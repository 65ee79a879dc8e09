#include "weir/system/pool/model_limiter.h"

#include <algorithm>

namespace weir::system::pool {

ModelLimiter::ModelLimiter(const ModelLimits& limits, LimiterRule rule) : rule_(rule) {
  for (const Dimension rate : kRates) {
    counters_[static_cast<std::size_t>(rate)].limit = limits.rates.of(rate);
  }
  if (!limits.concurrent) return;
  permits_.emplace(*limits.concurrent,
                   rule == LimiterRule::kStrict ? Shrinking::kOwes : Shrinking::kForgets);
}

ModelLimiter::Counter& ModelLimiter::advance(Dimension rate, Instant now) noexcept {
  Counter& counter = counters_[static_cast<std::size_t>(rate)];
  const Instant begin = window_begin(rate, now);
  if (begin > counter.begin) {
    counter.begin = begin;
    counter.count = 0;
  }
  return counter;
}

bool ModelLimiter::has_capacity(Instant now) noexcept {
  if (permits_ && permits_->available() < 1) return false;
  return std::ranges::all_of(kRates, [&](Dimension rate) {
    const Counter& counter = advance(rate, now);
    return !counter.limit || counter.count + 1 <= *counter.limit;
  });
}

std::optional<Reservation> ModelLimiter::try_reserve(const Amounts& estimate, Instant now,
                                                     Shortage& shortage) {
  for (const Dimension rate : kRates) {
    const Counter& counter = advance(rate, now);
    // A window that is full admits nothing, whatever the estimate.
    const std::int64_t wanted = std::max<std::int64_t>(estimate.of(rate), 1);
    // Counts stay below 2^62 (see finish()) and an estimate is at most kAmountMax.
    if (!counter.limit || counter.count + wanted <= *counter.limit) continue;
    shortage = {rate, counter.begin + window_of(rate), wanted > *counter.limit};
    return std::nullopt;
  }
  if (permits_ && permits_->available() < 1) {
    shortage = {Dimension::kConcurrency, kForever, false};
    return std::nullopt;
  }
  return reserve_anyway(estimate, now);
}

Reservation ModelLimiter::reserve_anyway(const Amounts& estimate, Instant now) noexcept {
  Reservation reservation{.estimate = estimate};
  for (const Dimension rate : kRates) {
    Counter& counter = advance(rate, now);
    reservation.windows[static_cast<std::size_t>(rate)] = counter.begin;
    counter.count = std::min(counter.count + estimate.of(rate), kTermMax);
  }
  if (permits_) permits_->take_anyway(1);
  in_flight_ += 1;
  return reservation;
}

void ModelLimiter::cancel(const Reservation& reservation, Instant now) noexcept {
  fail();
  for (const Dimension rate : kRates) {
    Counter& counter = advance(rate, now);
    if (counter.begin != reservation.windows[static_cast<std::size_t>(rate)]) continue;
    counter.count = std::max<std::int64_t>(0, counter.count - reservation.estimate.of(rate));
  }
}

Overage ModelLimiter::finish(const Reservation& reservation, const Amounts& actual,
                             Instant now) noexcept {
  fail();
  for (const Dimension rate : kRates) {
    Counter& counter = advance(rate, now);
    const std::int64_t difference = actual.of(rate) - reservation.estimate.of(rate);
    const bool same = counter.begin == reservation.windows[static_cast<std::size_t>(rate)];
    if (difference < 0 && !same) continue;
    counter.count = std::clamp<std::int64_t>(counter.count + difference, 0, kTermMax);
  }
  return {.estimated = reservation.estimate,
          .actual = actual,
          .tokens = std::max<std::int64_t>(0, actual.tokens - reservation.estimate.tokens),
          .requests = std::max<std::int64_t>(0, actual.requests - reservation.estimate.requests)};
}

void ModelLimiter::fail() noexcept {
  if (permits_) permits_->give_back(1);
  in_flight_ = std::max<std::int64_t>(0, in_flight_ - 1);
}

void ModelLimiter::set_limits(const Rates& limits) noexcept {
  for (const Dimension rate : kRates) {
    Counter& counter = counters_[static_cast<std::size_t>(rate)];
    // The published rule neither adds a dimension nor takes one away.
    const bool is_there = counter.limit && limits.of(rate);
    if (rule_ == LimiterRule::kStrict || is_there) counter.limit = limits.of(rate);
  }
}

void ModelLimiter::set_concurrency(std::optional<std::int64_t> limit) noexcept {
  const bool is_strict = rule_ == LimiterRule::kStrict;
  if (permits_ && limit) {
    permits_->resize(is_strict ? *limit : std::max<std::int64_t>(1, *limit));
  } else if (is_strict && limit) {
    permits_.emplace(*limit, Shrinking::kOwes);
    // Jobs that began before there was a limit count against it.
    permits_->take_anyway(in_flight_);
  } else if (is_strict) {
    permits_.reset();
  }
}

RateReading ModelLimiter::rate(Dimension rate, Instant now) noexcept {
  const Counter& counter = advance(rate, now);
  return {counter.count, counter.limit, counter.begin + window_of(rate)};
}

}  // namespace weir::system::pool
