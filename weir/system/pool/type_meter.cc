#include "weir/system/pool/type_meter.h"

#include <algorithm>

namespace weir::system::pool {
namespace {

constexpr std::int64_t id_of(Instant now, Duration window) noexcept {
  return now.ns / window.count();
}
constexpr Instant end_of(std::int64_t id, Duration window) noexcept {
  return Instant{saturate(Wide{id + 1} * window.count())};
}

}  // namespace

void TypeMeter::set_slots(const Pool& pool, double ratio, const Amounts& estimate,
                          std::int64_t min_capacity) noexcept {
  has_pool_ = true;
  strict_ = strict_slots(pool, ratio, estimate, min_capacity);
  published_ = published_slots(pool, ratio, estimate, min_capacity);
}

TypeCheck TypeMeter::check(Instant now) const noexcept {
  if (!has_pool_) return {};
  return rule_ == CountRule::kStrict ? check_strict(now) : check_published(now);
}

// A refusal names the dimension that frees last; an admission the one with the least room.
TypeCheck TypeMeter::check_strict(Instant now) const noexcept {
  const std::int64_t in_minute = started_in_minute(now);
  const std::int64_t in_day = started_in_day(now);
  if (in_day >= strict_.day) {
    return {false, strict_.day, in_day, strict_.day_bound,
            later_of(day_.end, end_of(id_of(now, kDay), kDay))};
  }
  if (in_flight_ >= strict_.in_flight) {
    return {false, strict_.in_flight, in_flight_, Dimension::kConcurrency, kForever};
  }
  if (in_minute >= strict_.minute) {
    return {false, strict_.minute, in_minute, strict_.minute_bound,
            later_of(minute_.end, end_of(id_of(now, kMinute), kMinute))};
  }
  TypeCheck least{true, strict_.in_flight, in_flight_, Dimension::kConcurrency, now};
  if (strict_.minute - in_minute < least.slots - least.used) {
    least = {true, strict_.minute, in_minute, strict_.minute_bound, now};
  }
  if (strict_.day - in_day < least.slots - least.used) {
    least = {true, strict_.day, in_day, strict_.day_bound, now};
  }
  return least;
}

TypeCheck TypeMeter::check_published(Instant now) const noexcept {
  TypeCheck check{.slots = published_.slots, .dimension = published_.dimension};
  if (published_.window == Duration{0}) {
    check.used = in_flight_;
  } else {
    const std::int64_t id = id_of(now, published_.window);
    check.used = one_.id == id ? one_.count : 0;
    check.retry_at = end_of(id, published_.window);
  }
  check.allowed = check.used < check.slots;
  if (check.allowed) check.retry_at = now;
  return check;
}

TypeMark TypeMeter::take(Instant now) noexcept {
  in_flight_ += 1;
  if (rule_ == CountRule::kStrict) {
    const auto count = [now](Count& counter, Duration window) {
      if (now >= counter.end) counter = {end_of(id_of(now, window), window), 0};
      counter.count += 1;
    };
    count(minute_, kMinute);
    count(day_, kDay);
    return {.minute_end = minute_.end, .day_end = day_.end};
  }
  if (published_.window == Duration{0}) return {};
  const std::int64_t id = id_of(now, published_.window);
  one_ = {id, one_.id == id ? one_.count + 1 : 1, published_.window};
  return {.published = id};
}

void TypeMeter::give_back(Instant now) noexcept {
  in_flight_ = std::max<std::int64_t>(0, in_flight_ - 1);
  if (rule_ != CountRule::kRefund || one_.count == 0) return;
  if (one_.id == id_of(now, one_.window)) one_.count -= 1;
}

void TypeMeter::undo(const TypeMark& mark) noexcept {
  in_flight_ = std::max<std::int64_t>(0, in_flight_ - 1);
  if (rule_ != CountRule::kStrict) {
    if (mark.published >= 0 && one_.id == mark.published && one_.count > 0) one_.count -= 1;
    return;
  }
  if (minute_.end == mark.minute_end && minute_.count > 0) minute_.count -= 1;
  if (day_.end == mark.day_end && day_.count > 0) day_.count -= 1;
}

}  // namespace weir::system::pool
