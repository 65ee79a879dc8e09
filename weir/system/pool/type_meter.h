// Type meter: what one job type has started on one model (layer 2's counters).
//
// A start counts until its window turns, whenever the job ends; a job in flight counts until
// it ends. Windows turn when they are looked at: no timer clears them.
//
//   TypeMeter meter(CountRule::kStrict);
//   meter.set_slots(pool, /*ratio=*/0.3, {.tokens = 10'000, .requests = 1}, /*min_capacity=*/1);
//   TypeCheck check = meter.check(now);        // allowed, or from when on
//   if (check.allowed) mark = meter.take(now);
//   meter.give_back(now);                      // the job ended
//
// Time that goes back counts as standing still, except where the published rule is kept.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstdint>
#include <optional>

#include "weir/base/time.h"
#include "weir/system/pool/type_slots.h"

namespace weir::system::pool {

enum class CountRule : std::uint8_t {
  kStrict,  // all dimensions, all the time
  // Published: one counter, of the dimension that has the fewest slots at the moment.
  kSticky,  // as documented: a start counts until the window turns
  kRefund,  // as its newest code has it: the end of a job gives the start back
};

struct TypeCheck {
  bool allowed = false;
  std::int64_t slots = 0;  // of the dimension that bound, or would be next to
  std::int64_t used = 0;
  Dimension dimension = Dimension::kConcurrency;
  Instant retry_at = kForever;  // of a refusal; kForever: when a job ends
};

// Where a start was counted, to undo it.
struct TypeMark {
  Instant minute_end{};
  Instant day_end{};
  std::int64_t published = -1;  // the number of the window
};

class TypeMeter {
 public:
  explicit TypeMeter(CountRule rule = CountRule::kStrict) : rule_(rule) {}

  // Once the pool is known, and whenever it or the ratio changes; what was counted stays.
  void set_slots(const Pool& pool, double ratio, const Amounts& estimate,
                 std::int64_t min_capacity) noexcept;
  // Nothing passes without a pool.
  void clear_slots() noexcept { has_pool_ = false; }

  TypeCheck check(Instant now) const noexcept;
  TypeMark take(Instant now) noexcept;
  void give_back(Instant now) noexcept;
  // The job did not start after all: as if it had not been taken, if the window is the same.
  void undo(const TypeMark& mark) noexcept;

  std::int64_t in_flight() const noexcept { return in_flight_; }
  // Starts in the windows that contain `now`, of the strict rule.
  std::int64_t started_in_minute(Instant now) const noexcept {
    return now < minute_.end ? minute_.count : 0;
  }
  std::int64_t started_in_day(Instant now) const noexcept {
    return now < day_.end ? day_.count : 0;
  }
  const StrictSlots& strict() const noexcept { return strict_; }
  const PublishedSlots& published() const noexcept { return published_; }

 private:
  // Starts in a window. It is known by its end, which tells with one comparison whether it has
  // turned, so that time going back keeps it.
  struct Count {
    Instant end{};
    std::int64_t count = 0;
  };
  // Published: by its number since the epoch, for any length.
  struct PublishedCount {
    std::int64_t id = -1;
    std::int64_t count = 0;
    Duration window{};
  };

  TypeCheck check_strict(Instant now) const noexcept;
  TypeCheck check_published(Instant now) const noexcept;

  CountRule rule_;
  bool has_pool_ = false;
  StrictSlots strict_{};
  PublishedSlots published_{};
  std::int64_t in_flight_ = 0;
  Count minute_{};
  Count day_{};
  PublishedCount one_{};
};

}  // namespace weir::system::pool
