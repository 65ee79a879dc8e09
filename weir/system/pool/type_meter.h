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
  std::int64_t minute = -1;  // ids of windows; published: the one counter's is here
  std::int64_t day = -1;
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
  // Starts in the window that contains `now`; of the published rules: in the one that binds.
  std::int64_t started_in_minute(Instant now) const noexcept;
  std::int64_t started_in_day(Instant now) const noexcept;
  const StrictSlots& strict() const noexcept { return strict_; }
  const PublishedSlots& published() const noexcept { return published_; }

 private:
  // A window by its number since the epoch.
  struct Count {
    std::int64_t id = -1;
    std::int64_t count = 0;
    Duration window{};  // how long it is
  };

  TypeCheck check_strict(Instant now) const noexcept;
  TypeCheck check_published(Instant now) const noexcept;

  CountRule rule_;
  bool has_pool_ = false;
  StrictSlots strict_{};
  PublishedSlots published_{};
  std::int64_t in_flight_ = 0;
  Count minute_{};  // published: the one counter
  Count day_{};
};

}  // namespace weir::system::pool
