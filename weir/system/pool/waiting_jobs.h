// Waiting jobs: who stands in which queue, and until when.
//
// A job waits for a slot of its type, or in the queue of one model and its type; first come first
// served in each. One instant is kept for each job that waits, for memory too, and for each that
// runs with a hold: at that instant something happens to it.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "weir/base/time.h"
#include "weir/system/pool/live_job.h"

namespace weir::system::pool {

class WaitingJobs {
 public:
  WaitingJobs(std::size_t models, std::size_t types)
      : types_(types), for_model_(models * types), for_slot_(types) {}

  // Each sets the job's state, and keeps its deadline.
  void wait_for_slot(LiveJob& job);
  void wait_for_model(LiveJob& job);
  void wait_for_memory(LiveJob& job);
  void run(LiveJob& job);

  // Out of its queue, if it stands in one, and its deadline is forgotten.
  void leave(const LiveJob& job);
  // Out of the queue of its model, which its state no longer tells. The deadline of one that waits
  // for memory now is kept.
  void leave_model(const LiveJob& job);
  // The deadline alone.
  void forget_deadline(const LiveJob& job) { deadlines_.erase({job.deadline, job.id}); }

  // The first; nullptr: none waits.
  LiveJob* first_for_slot(std::size_t type) const;
  LiveJob* first_for_model(std::size_t model, std::size_t type) const;
  std::size_t count_for_slot(std::size_t type) const { return for_slot_[type].size(); }
  std::size_t count_for_model(std::size_t model, std::size_t type) const {
    return for_model_[place(model, type)].size();
  }
  // Types that have jobs waiting for the model, in order.
  std::vector<std::size_t> types_at(std::size_t model) const;

  // Calls visit(model, type) for each queue with a job in it.
  template <typename Visit>
  void for_each_queue(const Visit& visit) const {
    for (const std::size_t place : busy_) visit(place / types_, place % types_);
  }

  // The job whose deadline is the earliest, if it has come.
  std::optional<JobId> due(Instant now) const;
  Instant first_deadline() const {
    return deadlines_.empty() ? kForever : deadlines_.begin()->first;
  }

 private:
  using Queue = std::map<JobId, LiveJob*>;  // ids ascend

  std::size_t place(std::size_t model, std::size_t type) const noexcept {
    return model * types_ + type;
  }

  std::size_t types_;
  std::vector<Queue> for_model_;  // see place()
  std::vector<Queue> for_slot_;   // by type
  std::set<std::size_t> busy_;    // places of queues with jobs in them
  std::set<std::pair<Instant, JobId>> deadlines_;
};

}  // namespace weir::system::pool
