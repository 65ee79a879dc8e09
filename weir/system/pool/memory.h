// Memory: a budget per job type, in KB, so that an instance does not take more jobs than fit.
//
// The budget is a part of what the probe says is free, or of a fixed size, and is divided by
// the types' ratios. A job takes its type's estimate while it runs; a job that does not fit waits,
// in order, and only the first of a type is looked at. Nothing is shared between instances.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/job_type.h"
#include "weir/system/pool/permits.h"

namespace weir::system::pool {

struct MemorySettings {
  double free_ratio = 0.8;               // of the base
  std::optional<std::int64_t> max_kb{};  // the base; nothing: what the probe says
  Duration interval = std::chrono::seconds{1};
  // KB that the process may still take. Called with the owner's lock held: must not wait.
  std::function<std::int64_t()> probe{};
};

// Refused, with a message, unless the ratio is above 0 and at most 1, the base 1 to
// kMemoryKbMax, the interval 1 ms to 7 days, and there is a base or a probe.
Status validate_memory_settings(const MemorySettings& settings);

// What the control group of this process allows and does not use, or the machine; the probe
// to use where nothing else is known.
std::int64_t free_memory_kb();

// floor(base * ratio), in doubles. Requires base_kb >= 0.
std::int64_t budget_kb(std::int64_t base_kb, double free_ratio) noexcept;

struct MemoryReading {
  std::int64_t active_kb = 0;
  std::int64_t max_kb = 0;
  std::int64_t available_kb = 0;
};

class MemoryBudgets {
 public:
  MemoryBudgets(std::span<const JobType> types, std::span<const double> ratios, std::int64_t budget,
                Shrinking shrinking);

  // Whether a type's job could ever fit.
  bool fits(std::size_t type) const noexcept {
    return rows_[type].estimate_kb <= rows_[type].permits.limit();
  }
  // Takes the estimate if it is free and no job waits.
  bool try_take(std::size_t type) noexcept;
  // The same, or waits under this name.
  bool take(std::size_t type, std::uint64_t job);
  // Jobs that waited and have it now are added to `granted`.
  void give_back(std::size_t type, std::vector<std::uint64_t>& granted);
  // A name that waits leaves.
  void leave(std::size_t type, std::uint64_t job, std::vector<std::uint64_t>& granted);
  // The ratios are in the order of the types.
  void resize(std::span<const double> ratios, std::int64_t budget,
              std::vector<std::uint64_t>& granted);

  std::int64_t budget() const noexcept { return budget_; }
  MemoryReading reading() const noexcept;

 private:
  struct Row {
    std::int64_t estimate_kb;
    Permits permits;
    std::deque<std::uint64_t> waiting{};
  };
  static void serve(Row& row, std::vector<std::uint64_t>& granted);

  std::int64_t budget_;
  std::vector<Row> rows_;
};

}  // namespace weir::system::pool
