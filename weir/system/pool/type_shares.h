// Type shares: how an instance divides its capacity among job types, and moves it.
//
// Every type has a ratio of the whole and so many slots of its own. By the published rules a job
// holds one from the moment it is accepted until it ends, while it waits for a model too; by the
// strict one a job is only counted here, and limited on its model. From time to time, and after so
// many jobs, types that are hardly used give to those that are full:
//
//   capacity 100    ratio 0.3, 30 slots, 5 in use     gives (0.2 at most) * (1 - 5/30)
//                   ratio 0.4, 40 slots, 38 in use    receives it: 0.5667, 56 slots
//                   ratio 0.3, fixed                  keeps its 30 slots
//
// Doubles, in the published order of operations and in the order of the configuration.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/job_type.h"

namespace weir::system::pool {

struct RatioSettings {
  double high_load = 0.7;                       // above it a type receives
  double low_load = 0.3;                        // below it a type gives
  double max_adjustment = 0.2;                  // the most that one type gives at a time
  double min_ratio = 0.01;                      // what a type keeps
  Duration interval = std::chrono::seconds{5};  // zero: not by time
  std::int64_t releases_per_adjustment = 10;    // 0: not by releases
  std::int64_t min_capacity = 1;                // slots that every type has

  friend bool operator==(const RatioSettings&, const RatioSettings&) = default;
};

// Refused, with a message, unless thresholds, adjustment and minimum are 0 to 1, and the others
// not negative and bounded.
Status validate_ratio_settings(const RatioSettings& settings);

class TypeShares {
 public:
  // Requires valid types and settings, and a ratio for each type.
  TypeShares(std::span<const JobType> types, std::vector<double> ratios,
             const RatioSettings& settings);

  std::size_t count() const noexcept { return rows_.size(); }
  double ratio(std::size_t type) const noexcept { return rows_[type].ratio; }
  double initial_ratio(std::size_t type) const noexcept { return rows_[type].initial; }
  std::int64_t slots(std::size_t type) const noexcept { return rows_[type].slots; }
  std::int64_t in_flight(std::size_t type) const noexcept { return rows_[type].in_flight; }
  std::int64_t capacity() const noexcept { return capacity_; }

  // The same types with other settings. Ratios begin anew if those to begin with changed.
  void change(std::span<const JobType> types, const std::vector<double>& ratios,
              const RatioSettings& settings);
  // Of the whole instance. Until it is set there are no slots.
  void set_capacity(std::int64_t capacity);
  // What the types that have an estimate of memory share; nothing: memory is not counted.
  void set_memory(std::optional<std::int64_t> budget_kb);

  bool has_slot(std::size_t type) const noexcept {
    return rows_[type].in_flight < rows_[type].slots;
  }
  void take(std::size_t type) noexcept { rows_[type].in_flight += 1; }
  // Whether an adjustment is due after this release: call adjust(). A release with nothing in
  // flight is ignored.
  bool give_back(std::size_t type) noexcept;
  void set_in_flight(std::size_t type, std::int64_t in_flight) noexcept;

  // One cycle. Whether ratios changed.
  bool adjust();

 private:
  struct Row {
    double ratio = 0;
    double initial = 0;
    bool is_flexible = true;
    std::int64_t memory_kb = 0;
    std::int64_t in_flight = 0;
    std::int64_t slots = 0;

    double load() const noexcept {
      return slots > 0 ? static_cast<double>(in_flight) / static_cast<double>(slots) : 0;
    }
  };

  void recompute() noexcept;

  RatioSettings settings_;
  std::vector<Row> rows_;
  std::int64_t capacity_ = 0;
  bool has_capacity_ = false;
  std::optional<std::int64_t> budget_kb_{};
  std::int64_t releases_ = 0;
};

}  // namespace weir::system::pool
