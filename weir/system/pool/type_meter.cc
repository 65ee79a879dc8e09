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

std::int64_t TypeMeter::started_in_minute(Instant now) const noexcept {
  return id_of(now, kMinute) > minute_.id ? 0 : minute_.count;
}
std::int64_t TypeMeter::started_in_day(Instant now) const noexcept {
  return id_of(now, kDay) > day_.id ? 0 : day_.count;
}

// A refusal names the dimension that frees last; an admission the one with the least room.
TypeCheck TypeMeter::check_strict(Instant now) const noexcept {
  const std::int64_t in_minute = started_in_minute(now);
  const std::int64_t in_day = started_in_day(now);
  if (in_day >= strict_.day) {
    const std::int64_t id = std::max(day_.id, id_of(now, kDay));
    return {false, strict_.day, in_day, strict_.day_bound, end_of(id, kDay)};
  }
  if (in_flight_ >= strict_.in_flight) {
    return {false, strict_.in_flight, in_flight_, Dimension::kConcurrency, kForever};
  }
  if (in_minute >= strict_.minute) {
    const std::int64_t id = std::max(minute_.id, id_of(now, kMinute));
    return {false, strict_.minute, in_minute, strict_.minute_bound, end_of(id, kMinute)};
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
    check.used = minute_.id == id ? minute_.count : 0;
    check.retry_at = end_of(id, published_.window);
  }
  check.allowed = check.used < check.slots;
  if (check.allowed) check.retry_at = now;
  return check;
}

TypeMark TypeMeter::take(Instant now) noexcept {
  in_flight_ += 1;
  const auto count = [](Count& counter, std::int64_t id, Duration window) {
    counter = {id, counter.id == id ? counter.count + 1 : 1, window};
  };
  if (rule_ == CountRule::kStrict) {
    count(minute_, std::max(minute_.id, id_of(now, kMinute)), kMinute);
    count(day_, std::max(day_.id, id_of(now, kDay)), kDay);
    return {minute_.id, day_.id};
  }
  if (published_.window == Duration{0}) return {};
  count(minute_, id_of(now, published_.window), published_.window);
  return {minute_.id, -1};
}

void TypeMeter::give_back(Instant now) noexcept {
  in_flight_ = std::max<std::int64_t>(0, in_flight_ - 1);
  if (rule_ != CountRule::kRefund || minute_.count == 0) return;
  if (minute_.id == id_of(now, minute_.window)) {
    minute_.count = std::max<std::int64_t>(0, minute_.count - 1);
  }
}

void TypeMeter::undo(const TypeMark& mark) noexcept {
  in_flight_ = std::max<std::int64_t>(0, in_flight_ - 1);
  const auto uncount = [](Count& counter, std::int64_t id) {
    if (id >= 0 && counter.id == id) counter.count = std::max<std::int64_t>(0, counter.count - 1);
  };
  uncount(minute_, mark.minute);
  uncount(day_, mark.day);
}

}  // namespace weir::system::pool
