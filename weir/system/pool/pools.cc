#include "weir/system/pool/pools.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weir/base/in_quotes.h"
#include "weir/system/pool/pools_job.h"

namespace weir::system::pool {

std::string_view to_string(JobRefused reason) noexcept {
  switch (reason) {
    case JobRefused::kExhausted:
      return "all_models_exhausted";
    case JobRefused::kRejected:
      return "all_models_rejected";
    case JobRefused::kNever:
      return "never";
    case JobRefused::kTypeSlots:
      return "no_type_slot";
    case JobRefused::kDelegations:
      return "too_many_delegations";
    case JobRefused::kUnavailable:
      return "unavailable";
    case JobRefused::kStopped:
      return "stopped";
  }
  return "unknown";
}

std::string_view to_string(JobState state) noexcept {
  switch (state) {
    case JobState::kWaitingForSlot:
      return "waiting_for_slot";
    case JobState::kWaitingForModel:
      return "waiting_for_model";
    case JobState::kWaitingForMemory:
      return "waiting_for_memory";
    case JobState::kAsking:
      return "asking";
    case JobState::kRunning:
      return "running";
  }
  return "unknown";
}

Result<std::unique_ptr<Pools>> Pools::create(Settings settings,
                                             std::unique_ptr<Coordinator> coordinator) {
  WEIR_ASSERT(coordinator != nullptr);
  if (Status valid = validate_settings(settings); !valid) return std::move(valid).error();
  if (settings.escalation.empty()) settings.escalation.push_back(settings.models.front().name);
  Result<std::vector<double>> ratios = initial_ratios(settings.types);
  if (!ratios) return std::move(ratios).error();
  return std::unique_ptr<Pools>(
      new Pools(std::move(settings), std::move(coordinator), *std::move(ratios)));
}

Pools::Pools(Settings settings, std::unique_ptr<Coordinator> coordinator,
             std::vector<double> ratios)
    : settings_(std::move(settings)),
      shares_(settings_.types, ratios, settings_.ratios),
      slot_waiting_(settings_.types.size()),
      touched_models_(settings_.models.size(), false),
      touched_types_(settings_.types.size(), false),
      coordinator_(std::move(coordinator)) {
  for (std::size_t i = 0; i < settings_.models.size(); ++i) {
    model_places_[settings_.models[i].name] = i;
    models_.push_back({ModelLimiter(settings_.models[i].limits,
                                    is_strict() ? LimiterRule::kStrict : LimiterRule::kPublished)});
  }
  for (const std::string& name : settings_.escalation) {
    escalation_.push_back(model_places_.find(name)->second);
  }
  for (std::size_t i = 0; i < settings_.types.size(); ++i)
    type_places_[settings_.types[i].name] = i;
  queues_.resize(models_.size() * settings_.types.size(), Queue{TypeMeter(settings_.rule)});
  shares_.set_capacity(capacity_before_allocation(settings_));

  const bool has_estimates =
      std::ranges::any_of(settings_.types, [](const JobType& type) { return type.memory_kb > 0; });
  if (!settings_.memory || !has_estimates) return;
  const MemorySettings& memory = *settings_.memory;
  const std::int64_t base =
      memory.max_kb ? *memory.max_kb : std::clamp<std::int64_t>(memory.probe(), 0, kMemoryKbMax);
  const std::int64_t budget = budget_kb(base, memory.free_ratio);
  memory_.emplace(settings_.types, ratios, budget,
                  is_strict() ? Shrinking::kOwes : Shrinking::kForgets);
  shares_.set_memory(budget);
}

Pools::~Pools() { coordinator_.reset(); }

void Pools::start(Instant now, StatusCallback started) {
  {
    const Lock lock(lock_);
    next_minute_ = window_begin(Dimension::kTokensPerMinute, now) + kMinute;
    last_ = later_of(last_, now);
    if (settings_.ratios.interval > Duration{0}) next_adjustment_ = now + settings_.ratios.interval;
    if (memory_ && !settings_.memory->max_kb) next_probe_ = now + settings_.memory->interval;
  }
  coordinator_->start(registration_of(settings_), *this, now,
                      [this, started = std::move(started)](Instant at, const Status& status) {
                        if (!status && status.error().code == ErrorCode::kBadArgument) {
                          const Lock lock(lock_);
                          start_error_ = status.error().message;
                        }
                        started(at, status);
                      });
}

void Pools::stop(Instant now, StatusCallback stopped) {
  Lock lock(lock_);
  Work work = work_at(now);
  is_stopped_ = true;
  std::vector<Job*> waiting;
  for (const auto& [id, job] : jobs_) {
    if (job->state == JobState::kAsking || job->state == JobState::kRunning) continue;
    waiting.push_back(job.get());
  }
  for (Job* const job : waiting) {
    std::vector<JobId> granted;
    if (job->state == JobState::kWaitingForMemory) memory_->leave(job->type, job->id, granted);
    dequeue(*job);
  }
  for (Job* const job : waiting) {
    if (job->state == JobState::kWaitingForMemory) undo(*job, work);
    refuse(*job, JobRefused::kStopped, work);
  }
  work.after.emplace_back(
      [this, now, stopped = std::move(stopped)] { coordinator_->stop(now, stopped); });
  conclude(lock, work);
}

Result<JobId> Pools::submit(const JobRequest& request, Instant now, JobCallback callback) {
  const auto type = type_places_.find(request.type);
  if (type == type_places_.end()) {
    std::vector<std::string_view> names;
    for (const JobType& known : settings_.types) names.push_back(known.name);
    return Error{ErrorCode::kNotFound,
                 fmt::format("there is no job type {}; write one of: {}", in_quotes(request.type),
                             fmt::join(names, ", "))};
  }
  if (request.patience && *request.patience < Duration{0}) {
    return bad_argument("the wait is negative; write 0s for none");
  }
  if (request.hold && (*request.hold <= Duration{0} || *request.hold > kWaitMax)) {
    return bad_argument("the hold must be above 0 and at most 7 days; write 10m");
  }
  Lock lock(lock_);
  Work work = work_at(now);
  if (is_stopped_) return Error{ErrorCode::kUnavailable, "the pools have stopped"};
  if (start_error_) return Error{ErrorCode::kUnavailable, *start_error_};
  if (jobs_.size() >= settings_.jobs_max) {
    return Error{
        ErrorCode::kExhausted,
        fmt::format("{} jobs wait or run, which is all that jobs_max allows", jobs_.size())};
  }
  turn_windows(work);
  const JobId id = next_job_++;
  Job& job = *jobs_.emplace(id, std::make_unique<Job>()).first->second;
  job.id = id;
  job.type = type->second;
  job.callback = std::move(callback);
  job.submitted_at = work.now;
  if (request.patience) job.patience_end = work.now + *request.patience;
  job.hold = request.hold;
  tally_.submitted += 1;
  // Those who were there before come first.
  drain(work);
  begin(job, work);
  drain(work);
  conclude(lock, work);
  return id;
}

bool Pools::withdraw(JobId id, Instant now) {
  Lock lock(lock_);
  Work work = work_at(now);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return false;
  Job& job = *found->second;
  if (job.state == JobState::kRunning || job.is_withdrawn) return false;
  tally_.withdrawn += 1;
  if (job.state == JobState::kAsking) {
    job.is_withdrawn = true;
    return true;
  }
  dequeue(job);
  if (job.state == JobState::kWaitingForMemory) {
    std::vector<JobId> granted;
    memory_->leave(job.type, job.id, granted);
    undo(job, work);
    ask_granted(granted, work);
  }
  remove(job, work);
  drain(work);
  conclude(lock, work);
  return true;
}

Result<Pools::Job*> Pools::running(JobId id) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second->state == JobState::kRunning)
    return found->second.get();
  return Error{ErrorCode::kNotFound,
               fmt::format("job {} does not run: it was never started, or has ended", id)};
}

Result<Settlement> Pools::finish(JobId job, const Used& used, Instant now) {
  return end_running(job, Ending::kFinished, used, used, now);
}

Result<Settlement> Pools::fail(JobId job, const std::optional<Used>& used, Instant now) {
  return end_running(job, Ending::kFailed, used, is_strict() ? used : std::nullopt, now);
}

Result<Settlement> Pools::reject(JobId job, const Used& used, Instant now) {
  return end_running(job, Ending::kFailed, used, is_strict() ? std::optional(used) : std::nullopt,
                     now);
}

Status Pools::cancel(JobId id, Instant now) {
  Lock lock(lock_);
  Work work = work_at(now);
  Result<Job*> found = running(id);
  if (!found) return std::move(found).error();
  Job& job = **found;
  turn_windows(work);
  deadlines_.erase({job.deadline, job.id});
  tally_.withdrawn += 1;
  release(job.grant, job.model, {}, work);
  undo(job, work);
  remove(job, work);
  drain(work);
  conclude(lock, work);
  return Done{};
}

Result<Instant> Pools::renew(JobId id, Duration hold, Instant now) {
  if (hold <= Duration{0} || hold > kWaitMax) {
    return bad_argument("the hold must be above 0 and at most 7 days; write 10m");
  }
  Lock lock(lock_);
  Work work = work_at(now);
  Result<Job*> found = running(id);
  if (!found) return std::move(found).error();
  Job& job = **found;
  deadlines_.erase({job.deadline, job.id});
  job.hold = hold;
  job.deadline = work.now + hold;
  deadlines_.emplace(job.deadline, job.id);
  const Instant expires_at = job.deadline;
  conclude(lock, work);
  return expires_at;
}

Status Pools::delegate(JobId id, const Used& used, Instant now, JobCallback callback) {
  if (Status valid = validate_used(used); !valid) return valid;
  Lock lock(lock_);
  Work work = work_at(now);
  Result<Job*> found = running(id);
  if (!found) return std::move(found).error();
  Job& job = **found;
  turn_windows(work);
  models_[job.model].tally.delegated += 1;
  leave_model(job, used, used.amounts(), work);
  bill(job, used);
  job.callback = std::move(callback);
  job.nevers = 0;
  job.was_rejected = false;
  job.retry_at = kForever;
  job.why.clear();
  if (job.delegations >= settings_.delegations_max || is_stopped_) {
    refuse(job, is_stopped_ ? JobRefused::kStopped : JobRefused::kDelegations, work);
  } else {
    job.delegations += 1;
    const bool has_another = std::ranges::any_of(escalation_, [&](std::size_t model) {
      return !job.tried[model] && models_[model].limiter.has_capacity(work.now);
    });
    if (!has_another) job.tried.reset();
    next_model(job, work);
  }
  drain(work);
  conclude(lock, work);
  return Done{};
}

void Pools::advance(Instant now) {
  Lock lock(lock_);
  Work work = work_at(now);
  turn_windows(work);
  unblock(work);
  for (const Model& model : models_) {
    if (model.gap > Duration{0}) touch(static_cast<std::size_t>(&model - models_.data()));
  }
  drain(work);
  expire(work);
  if (next_adjustment_ <= work.now) adjust(work);
  if (memory_ && next_probe_ <= work.now) probe_memory(work);
  drain(work);
  conclude(lock, work);
}

Instant Pools::next_instant() const {
  const Lock lock(lock_);
  return earliest();
}

void Pools::set_wakeup(std::function<void(Instant)> hook) {
  Lock lock(lock_);
  wakeup_ = hook ? std::make_shared<const std::function<void(Instant)>>(std::move(hook)) : nullptr;
  told_ = kForever;
  hook_returned_.wait(lock, [this] { return hook_calls_ == 0; });
}

void Pools::on_allocation(std::function<void(Instant, const Allocation&)> told) {
  allocation_told_ = std::move(told);
}

void Pools::on_overage(std::function<void(Instant, std::string_view, const Overage&)> told) {
  overage_told_ = std::move(told);
}

void Pools::allocated(Instant now, const Allocation& allocation) {
  Lock lock(lock_);
  Work work = work_at(now);
  if (allocation.instance_count < 1 || allocation.epoch < allocation_.epoch) return;
  allocation_ = allocation;
  std::int64_t capacity = 0;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const ModelLimits& limits = settings_.models[i].limits;
    Model& model = models_[i];
    const auto pool = allocation.pools.find(settings_.models[i].name);
    if (pool == allocation.pools.end()) {
      model.pool.reset();
      for (std::size_t type = 0; type < settings_.types.size(); ++type) {
        queues_[place(i, type)].meter.clear_slots();
      }
      continue;
    }
    model.pool = pool->second;
    capacity +=
        is_strict() ? pool->second.whole_slots.value_or(kUnlimitedSlots) : pool->second.total_slots;
    // The strict rule leaves the sum over the instances to the coordinator.
    if (is_strict()) continue;
    Rates shares = limits.rates;
    for (const Dimension rate : kRates) {
      if (shares.of(rate)) *shares.of(rate) /= allocation.instance_count;
    }
    model.limiter.set_limits(shares);
    if (limits.concurrent)
      model.limiter.set_concurrency(*limits.concurrent / allocation.instance_count);
  }
  shares_.set_capacity(capacity);
  apply_ratios(work);
  for (std::size_t i = 0; i < models_.size(); ++i) forget_refusals(i);
  drain(work);
  if (allocation_told_) {
    work.after.emplace_back(
        [this, now = work.now, allocation] { allocation_told_(now, allocation); });
  }
  conclude(lock, work);
}

void Pools::freed(Instant now, std::string_view model) {
  Lock lock(lock_);
  Work work = work_at(now);
  const auto found = model_places_.find(model);
  if (found == model_places_.end()) return;
  forget_refusals(found->second);
  drain(work);
  conclude(lock, work);
}

void Pools::reachable(Instant now, bool is_reachable) {
  Lock lock(lock_);
  Work work = work_at(now);
  is_reachable_ = is_reachable;
  // Without a coordinator the answers are others too.
  for (std::size_t i = 0; i < models_.size(); ++i) forget_refusals(i);
  drain(work);
  conclude(lock, work);
}

bool Pools::is_reachable() const {
  const Lock lock(lock_);
  return is_reachable_.value_or(false);
}

}  // namespace weir::system::pool
