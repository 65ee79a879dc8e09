// Invariants:
// 1. A job stands in at most one queue: the one that its state, model and type name.
// 2. A job in a queue has its deadline kept; a job has at most one.
// 3. `busy_` names exactly the queues of models that have a job.

#include "weir/system/pool/waiting_jobs.h"

namespace weir::system::pool {

void WaitingJobs::wait_for_slot(LiveJob& job) {
  job.state = JobState::kWaitingForSlot;
  for_slot_[job.type].emplace(job.id, &job);
  deadlines_.emplace(job.deadline, job.id);
}

void WaitingJobs::wait_for_model(LiveJob& job) {
  job.state = JobState::kWaitingForModel;
  for_model_[place(job.model, job.type)].emplace(job.id, &job);
  busy_.insert(place(job.model, job.type));
  deadlines_.emplace(job.deadline, job.id);
}

void WaitingJobs::wait_for_memory(LiveJob& job) {
  job.state = JobState::kWaitingForMemory;
  deadlines_.emplace(job.deadline, job.id);
}

void WaitingJobs::run(LiveJob& job) {
  job.state = JobState::kRunning;
  if (job.deadline != kForever) deadlines_.emplace(job.deadline, job.id);
}

void WaitingJobs::leave(const LiveJob& job) {
  deadlines_.erase({job.deadline, job.id});
  if (job.state == JobState::kWaitingForSlot) for_slot_[job.type].erase(job.id);
  if (job.state == JobState::kWaitingForModel) leave_model(job);
}

void WaitingJobs::leave_model(const LiveJob& job) {
  Queue& queue = for_model_[place(job.model, job.type)];
  queue.erase(job.id);
  if (queue.empty()) busy_.erase(place(job.model, job.type));
  if (job.state != JobState::kWaitingForMemory) deadlines_.erase({job.deadline, job.id});
}

LiveJob* WaitingJobs::first_for_slot(std::size_t type) const {
  const Queue& queue = for_slot_[type];
  return queue.empty() ? nullptr : queue.begin()->second;
}

LiveJob* WaitingJobs::first_for_model(std::size_t model, std::size_t type) const {
  const Queue& queue = for_model_[place(model, type)];
  return queue.empty() ? nullptr : queue.begin()->second;
}

std::vector<std::size_t> WaitingJobs::types_at(std::size_t model) const {
  std::vector<std::size_t> types;
  const auto last = busy_.lower_bound(place(model + 1, 0));
  for (auto at = busy_.lower_bound(place(model, 0)); at != last; ++at) {
    types.push_back(*at % types_);
  }
  return types;
}

std::optional<JobId> WaitingJobs::due(Instant now) const {
  if (deadlines_.empty() || deadlines_.begin()->first > now) return std::nullopt;
  return deadlines_.begin()->second;
}

}  // namespace weir::system::pool
