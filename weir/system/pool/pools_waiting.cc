// Who waits, who is looked at, and when. Every function is called with the lock held.

#include <algorithm>

#include "weir/system/pool/pools_job.h"

namespace weir::system::pool {

Pools::Queue& Pools::queue_of(const Job& job) noexcept {
  return queues_[place(job.model, job.type)];
}

void Pools::enqueue(Job& job) {
  job.state = JobState::kWaitingForModel;
  queue_of(job).waiting.emplace(job.id, &job);
  active_.insert(place(job.model, job.type));
  deadlines_.emplace(job.deadline, job.id);
}

void Pools::wait_for_slot(Job& job) {
  job.state = JobState::kWaitingForSlot;
  slot_waiting_[job.type].emplace(job.id, &job);
  deadlines_.emplace(job.deadline, job.id);
}

// Out of whichever queue it stands in.
void Pools::dequeue(Job& job) {
  deadlines_.erase({job.deadline, job.id});
  if (job.state == JobState::kWaitingForSlot) slot_waiting_[job.type].erase(job.id);
  if (job.state != JobState::kWaitingForModel) return;
  Queue& queue = queue_of(job);
  queue.waiting.erase(job.id);
  if (queue.waiting.empty()) active_.erase(place(job.model, job.type));
}

void Pools::touch(std::size_t model) noexcept {
  touched_models_[model] = true;
  is_touched_ = true;
}

// The coordinator may answer differently now: whoever was refused may ask again.
void Pools::forget_refusals(std::size_t model) noexcept {
  models_[model].changes += 1;
  for (std::size_t type = 0; type < settings_.types.size(); ++type) {
    queues_[place(model, type)].blocked_until = Instant{};
  }
  touch(model);
}

void Pools::touch_all() noexcept {
  std::fill(touched_models_.begin(), touched_models_.end(), true);
  std::fill(touched_types_.begin(), touched_types_.end(), true);
  is_touched_ = true;
}

// Oldest first over all types; a type whose first does not fit is left alone.
void Pools::serve(std::size_t model, Work& work) {
  Model& state = models_[model];
  const auto first = active_.lower_bound(place(model, 0));
  const auto last = active_.lower_bound(place(model + 1, 0));
  std::vector<std::size_t> candidates(first, last);
  while (!candidates.empty()) {
    if (state.gap > Duration{0} && work.now < state.next_start) return;
    const auto oldest = std::ranges::min_element(
        candidates, {}, [&](std::size_t place) { return queues_[place].waiting.begin()->first; });
    Queue& queue = queues_[*oldest];
    Job& job = *queue.waiting.begin()->second;
    if (queue.blocked_until > work.now || !attempt(job, work)) {
      candidates.erase(oldest);
      continue;
    }
    const std::size_t place = *oldest;
    // The attempt changed its state, so it is taken out by hand.
    queue.waiting.erase(job.id);
    if (job.state != JobState::kWaitingForMemory) deadlines_.erase({job.deadline, job.id});
    if (queue.waiting.empty()) {
      active_.erase(place);
      candidates.erase(oldest);
    }
    if (state.gap > Duration{0})
      state.next_start = later_of(state.next_start, work.now) + state.gap;
  }
  if (active_.lower_bound(place(model, 0)) == active_.lower_bound(place(model + 1, 0))) {
    state.gap = Duration{0};
  }
}

// Jobs that waited for a slot of their type.
void Pools::admit(std::size_t type, Work& work) {
  std::map<JobId, Job*>& waiting = slot_waiting_[type];
  while (!waiting.empty() && shares_.has_slot(type)) {
    Job& job = *waiting.begin()->second;
    dequeue(job);
    shares_.take(type);
    job.has_slot = true;
    next_model(job, work);
  }
}

// Looks at everything that may have become free, until nothing changes any more.
void Pools::drain(Work& work) {
  while (is_touched_) {
    is_touched_ = false;
    for (std::size_t model = 0; model < models_.size(); ++model) {
      if (!touched_models_[model]) continue;
      touched_models_[model] = false;
      serve(model, work);
    }
    for (std::size_t type = 0; type < slot_waiting_.size(); ++type) {
      if (!touched_types_[type]) continue;
      touched_types_[type] = false;
      admit(type, work);
    }
  }
}

// A minute ended, and with it perhaps a day: their windows are empty again.
void Pools::turn_windows(Work& work) {
  if (work.now < next_minute_) return;
  next_minute_ = window_begin(Dimension::kTokensPerMinute, work.now) + kMinute;
  std::vector<std::int64_t> waiting(models_.size(), 0);
  for (const std::size_t place : active_) {
    const std::size_t model = place / settings_.types.size();
    waiting[model] += static_cast<std::int64_t>(queues_[place].waiting.size());
    touch(model);
  }
  if (settings_.pacing == Duration{0}) return;
  for (std::size_t model = 0; model < models_.size(); ++model) {
    models_[model].gap = waiting[model] > 1 ? settings_.pacing / waiting[model] : Duration{0};
    models_[model].next_start = work.now;
  }
}

// The coordinator may be asked again.
void Pools::unblock(Work& work) {
  for (const std::size_t place : active_) {
    Queue& queue = queues_[place];
    if (queue.blocked_until == Instant{} || queue.blocked_until > work.now) continue;
    queue.blocked_until = Instant{};
    touch(place / settings_.types.size());
  }
}

// One last try for those whose time is up, then the next model.
void Pools::expire(Work& work) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= work.now) {
    Job& job = *jobs_.at(deadlines_.begin()->second);
    const JobState state = job.state;
    dequeue(job);
    if (state == JobState::kWaitingForSlot) {
      refuse(job, JobRefused::kTypeSlots, work);
      continue;
    }
    if (state == JobState::kWaitingForMemory) {
      std::vector<JobId> granted;
      memory_->leave(job.type, job.id, granted);
      undo(job, work);
      ask_granted(granted, work);
      next_model(job, work);
      continue;
    }
    job.is_last_try = true;
    if (!attempt(job, work)) next_model(job, work);
  }
}

void Pools::adjust(Work& work) {
  if (settings_.ratios.interval > Duration{0}) {
    next_adjustment_ = work.now + settings_.ratios.interval;
  }
  if (!shares_.adjust()) return;
  last_adjusted_ = work.now;
  tally_.adjustments += 1;
  apply_ratios(work);
}

void Pools::probe_memory(Work& work) {
  next_probe_ = work.now + settings_.memory->interval;
  const std::int64_t base = std::clamp<std::int64_t>(settings_.memory->probe(), 0, kMemoryKbMax);
  const std::int64_t budget = budget_kb(base, settings_.memory->free_ratio);
  if (budget == memory_->budget()) return;
  shares_.set_memory(budget);
  std::vector<double> ratios;
  for (std::size_t type = 0; type < shares_.count(); ++type) ratios.push_back(shares_.ratio(type));
  std::vector<JobId> granted;
  memory_->resize(ratios, budget, granted);
  ask_granted(granted, work);
  touch_all();
}

// After a change of ratios or pools.
void Pools::apply_ratios(Work& work) {
  std::vector<double> ratios;
  for (std::size_t type = 0; type < shares_.count(); ++type) ratios.push_back(shares_.ratio(type));
  for (std::size_t model = 0; model < models_.size(); ++model) {
    if (!models_[model].pool) continue;
    for (std::size_t type = 0; type < ratios.size(); ++type) {
      queues_[place(model, type)].meter.set_slots(*models_[model].pool, ratios[type],
                                                  settings_.types[type].estimate(),
                                                  settings_.ratios.min_capacity);
    }
  }
  if (memory_) {
    std::vector<JobId> granted;
    memory_->resize(ratios, memory_->budget(), granted);
    ask_granted(granted, work);
  }
  touch_all();
}

void Pools::ask_granted(const std::vector<JobId>& granted, Work& work) {
  for (const JobId id : granted) {
    Job& job = *jobs_.at(id);
    deadlines_.erase({job.deadline, job.id});
    ask(job, work);
  }
}

Instant Pools::earliest() const {
  Instant earliest = deadlines_.empty() ? kForever : deadlines_.begin()->first;
  if (!jobs_.empty()) {
    earliest = earlier_of(earliest, earlier_of(next_adjustment_, next_probe_));
  }
  for (const std::size_t place : active_) {
    const Model& model = models_[place / settings_.types.size()];
    const Instant blocked_until = queues_[place].blocked_until;
    earliest = earlier_of(earliest, blocked_until > Instant{} ? blocked_until : next_minute_);
    if (model.gap > Duration{0}) earliest = earlier_of(earliest, model.next_start);
  }
  return earliest;
}

void Pools::conclude(Lock& lock, Work& work) {
  const Instant next = earliest();
  const bool is_earlier = next < told_;
  told_ = next;
  const auto hook = is_earlier ? wakeup_ : nullptr;
  lock.unlock();
  for (const std::function<void()>& action : work.after) action();
  if (hook) (*hook)(next);
}

}  // namespace weir::system::pool
