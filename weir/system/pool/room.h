// Room: what this instance has for jobs, and what of it is taken.
//
// That is, for each model, its own limits or its share of the fleet's; for each job type, a lane on
// each model and a number of slots; and memory. A job takes of its model, its lane and its memory
// all or nothing.
//
//   if (room.take(job, now) == Room::Took::kTaken) ... ask the coordinator ...
//   room.undo(job, now, granted);            // it did not start
//   room.leave(job, used, now, granted);     // it ended, or goes to another model
//
// `granted` gets the jobs that waited for memory and have it now.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/pool/catalog.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/live_job.h"
#include "weir/system/pool/memory.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/reading.h"
#include "weir/system/pool/type_meter.h"
#include "weir/system/pool/type_shares.h"

namespace weir::system::pool {

class Room {
 public:
  using Granted = std::vector<JobId>;
  enum class Took : std::uint8_t {
    kLacks,           // nothing; the job says what was short
    kTaken,           // all of it
    kMemoryIsAwaited  // all but memory, in whose queue it stands; by the published rules only
  };

  // `catalog` outlives it. Requires a ratio for each type.
  Room(const Catalog& catalog, const std::vector<double>& ratios);
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // --- Slots of a type over all models, which a job has from before its first model until its end.
  // Only the published rules refuse where there is none; the strict one counts.
  bool has_slot(std::size_t type) const noexcept { return shares_.has_slot(type); }
  void take_slot(LiveJob& job) noexcept;
  // Whether the ratios are due to be adjusted.
  bool give_back_slot(std::size_t type) noexcept { return shares_.give_back(type); }
  std::int64_t slots(std::size_t type) const noexcept { return shares_.slots(type); }

  // --- A model, with the lane of the job's type and its memory.
  Took take(LiveJob& job, Instant now);
  // Of one that may not take: what is short at the moment, if anything is.
  void explain(LiveJob& job, Instant now);
  // It waited for memory, and does so no more. Requires that undo() follows.
  void leave_memory(const LiveJob& job, Granted& granted);
  void undo(LiveJob& job, Instant now, Granted& granted);
  // Nothing used: that is not known, and the estimate stays counted.
  Overage leave(LiveJob& job, const std::optional<Used>& used, Instant now, Granted& granted);
  // Whether a smallest job would pass.
  bool has_capacity(std::size_t model, Instant now) {
    return models_[model].limiter.has_capacity(now);
  }

  // --- How much there is. Each returns whether that has changed.
  bool allocate(const Allocation& allocation, Granted& granted);
  // `waiting`: jobs of each type that wait for a model.
  bool adjust_ratios(const std::vector<std::int64_t>& waiting, Granted& granted);
  bool probe_memory(Granted& granted);
  // The catalog has changed.
  void follow_catalog(Granted& granted);
  bool is_allocated() const noexcept { return allocation_.instance_count > 0; }
  // Whether the memory is what a probe says, now and then.
  bool has_probe() const { return memory_ && !catalog_.settings().memory->max_kb; }

  // Adds what there is and what is taken.
  void read(Reading& reading, Instant now) const;

 private:
  struct Model {
    ModelLimiter limiter;
    std::optional<Pool> pool{};
  };

  TypeMeter& lane(std::size_t model, std::size_t type) noexcept {
    return lanes_[model * catalog_.type_count() + type];
  }
  const TypeMeter& lane(std::size_t model, std::size_t type) const noexcept {
    return lanes_[model * catalog_.type_count() + type];
  }
  std::optional<Reservation> reserve(LiveJob& job, Instant now);
  void give_back_memory(LiveJob& job, Granted& granted);
  void follow_ratios(Granted& granted);
  std::int64_t running(std::size_t type) const noexcept;
  std::vector<double> ratios() const;

  const Catalog& catalog_;
  Allocation allocation_{};
  TypeShares shares_;
  std::optional<MemoryBudgets> memory_;
  std::vector<Model> models_;
  std::vector<TypeMeter> lanes_;
};

}  // namespace weir::system::pool
