// The life of a job: from one state to the next. Every function is called with the lock held;
// what must run without it goes to `work.after`.

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"
#include "weir/system/pool/pools_job.h"

namespace weir::system::pool {
namespace {

// A coordinator whose clock is ahead may name an instant that is past already.
constexpr Duration kRetryAfterLeast = std::chrono::milliseconds{1};

}  // namespace

Duration Pools::max_wait(std::size_t type, std::size_t model, Instant now) const {
  const auto& waits = settings_.types[type].max_wait;
  const auto found = waits.find(settings_.models[model].name);
  return found == waits.end() ? default_wait(now) : found->second;
}

void Pools::begin(Job& job, Work& work) {
  if (allocation_.instance_count == 0 && !is_reachable_.value_or(true)) {
    job.why = "the coordinator does not answer, and never has";
    refuse(job, JobRefused::kUnavailable, work);
    return;
  }
  if (slot_waiting_[job.type].empty() && shares_.has_slot(job.type)) {
    shares_.take(job.type);
    job.has_slot = true;
    next_model(job, work);
    return;
  }
  // Nobody waits longer for a slot than for all the models behind it.
  Duration wait{0};
  for (const std::size_t model : escalation_) wait += max_wait(job.type, model, work.now);
  job.deadline = earlier_of(work.now + wait, job.patience_end);
  // The published queue has no time-out, and its cases wait in it for ever.
  if (!is_strict()) job.deadline = job.patience_end;
  if (job.deadline <= work.now) {
    refuse(job, JobRefused::kTypeSlots, work);
    return;
  }
  wait_for_slot(job);
}

// The first model that was not tried: now, or in its queue. A job that found none is refused.
void Pools::next_model(Job& job, Work& work) {
  for (const std::size_t model : escalation_) {
    if (job.tried[model]) continue;
    job.tried.set(model);
    job.model = model;
    job.is_last_try = false;
    job.deadline = earlier_of(work.now + max_wait(job.type, model, work.now), job.patience_end);
    const std::size_t nevers = job.nevers;
    if (try_in_turn(job, work)) return;
    if (job.deadline > work.now && job.nevers == nevers) {
      enqueue(job);
      return;
    }
  }
  JobRefused reason = JobRefused::kExhausted;
  if (job.nevers == escalation_.size()) reason = JobRefused::kNever;
  if (job.was_rejected && !is_strict()) reason = JobRefused::kRejected;
  refuse(job, reason, work);
}

// Nobody overtakes those who wait for the same model with the same type.
bool Pools::try_in_turn(Job& job, Work& work) {
  const Queue& queue = queue_of(job);
  const Model& model = models_[job.model];
  if (!queue.waiting.empty()) return false;
  if (queue.blocked_until > work.now) {
    job.retry_at = earlier_of(job.retry_at, queue.blocked_until);
    return false;
  }
  const bool may_wait = job.deadline > work.now;
  if (model.gap > Duration{0} && work.now < model.next_start && may_wait) return false;
  return attempt(job, work);
}

// Reserves here, all or nothing, and asks the coordinator.
bool Pools::attempt(Job& job, Work& work) {
  Queue& queue = queue_of(job);
  ModelLimiter& limiter = models_[job.model].limiter;
  Shortage shortage;
  const Amounts estimate = settings_.types[job.type].estimate();
  const std::optional<Reservation> reservation = limiter.try_reserve(estimate, work.now, shortage);
  if (!reservation) {
    job.dimension = shortage.dimension;
    if (shortage.is_never) {
      job.nevers += 1;
    } else {
      job.retry_at = earlier_of(job.retry_at, shortage.retry_at);
    }
    return false;
  }
  const TypeCheck check = queue.meter.check(work.now);
  if (!check.allowed) {
    limiter.cancel(*reservation, work.now);
    job.dimension = check.dimension;
    job.retry_at = earlier_of(job.retry_at, check.retry_at);
    return false;
  }
  if (memory_ && is_strict() && !memory_->try_take(job.type)) {
    limiter.cancel(*reservation, work.now);
    job.why = memory_->fits(job.type) ? "the memory of its type is in use"
                                      : "it takes more memory than its type has";
    return false;
  }
  job.reservation = *reservation;
  job.mark = queue.meter.take(work.now);
  job.has_memory = memory_.has_value() && is_strict();
  if (memory_ && !is_strict() && !memory_->take(job.type, job.id)) {
    job.state = JobState::kWaitingForMemory;
    deadlines_.emplace(job.deadline, job.id);
    return true;
  }
  ask(job, work);
  return true;
}

void Pools::ask(Job& job, Work& work) {
  job.has_memory = memory_.has_value();
  job.state = JobState::kAsking;
  job.changes_seen = models_[job.model].changes;
  work.after.emplace_back([this, id = job.id,
                           model = std::string_view(settings_.models[job.model].name),
                           estimate = job.reservation.estimate, now = work.now] {
    coordinator_->acquire(model, estimate, now, [this, id](Instant at, Acquired answer) {
      answered(id, at, std::move(answer));
    });
  });
}

void Pools::answered(JobId id, Instant now, Acquired answer) {
  Lock lock(lock_);
  Work work = work_at(now);
  // A job stays until its answer came.
  Job& job = *jobs_.at(id);
  Grant* const grant = std::get_if<Grant>(&answer);
  if (job.is_withdrawn || is_stopped_) {
    if (grant != nullptr) release(*grant, job.model, {}, work);
    undo(job, work);
    if (job.is_withdrawn) {
      remove(job, work);
    } else {
      refuse(job, JobRefused::kStopped, work);
    }
  } else if (grant != nullptr) {
    start_running(job, std::move(*grant), work);
  } else {
    give_up(job, std::get<Refusal>(answer), work);
  }
  drain(work);
  conclude(lock, work);
}

void Pools::start_running(Job& job, Grant grant, Work& work) {
  models_[job.model].tally.started += 1;
  job.state = JobState::kRunning;
  job.grant = std::move(grant);
  job.deadline = job.hold ? work.now + *job.hold : kForever;
  if (job.hold) deadlines_.emplace(job.deadline, job.id);
  Start start{.job = job.id,
              .model = settings_.models[job.model].name,
              .estimate = job.reservation.estimate,
              .minute = job.grant.minute,
              .day = job.grant.day,
              .used = job.grant.used,
              .limits = settings_.models[job.model].limits,
              .waited = work.now - job.submitted_at,
              .expires_at = job.deadline,
              .attempt = job.delegations + 1};
  work.after.emplace_back([callback = std::move(job.callback), now = work.now,
                           start = std::move(start)] { callback(now, start); });
}

// The coordinator refused.
void Pools::give_up(Job& job, const Refusal& refusal, Work& work) {
  Model& model = models_[job.model];
  model.tally.refused += 1;
  undo(job, work);
  job.dimension = refusal.dimension;
  job.why = refusal.message;
  job.was_rejected = true;
  switch (refusal.reason) {
    case Refused::kUnreachable:
    case Refused::kMismatch:
      refuse(job, JobRefused::kUnavailable, work);
      return;
    case Refused::kStopped:
      refuse(job, JobRefused::kStopped, work);
      return;
    case Refused::kNever:
    case Refused::kUnknownModel:
      job.nevers += 1;
      next_model(job, work);
      return;
    case Refused::kExhausted:
    case Refused::kBusy:
    case Refused::kNotRegistered:
    case Refused::kRecovering:
      break;
  }
  const Instant retry_at = later_of(refusal.retry_at, work.now + kRetryAfterLeast);
  job.retry_at = earlier_of(job.retry_at, retry_at);
  if (!is_strict() || job.is_last_try || job.deadline <= work.now) {
    next_model(job, work);
    return;
  }
  // If something was freed while the answer was under way, it may not have counted yet.
  if (job.changes_seen == model.changes) {
    queue_of(job).blocked_until = later_of(queue_of(job).blocked_until, retry_at);
  } else {
    touch(job.model);
  }
  enqueue(job);
}

// Gives back what was taken here for a start that did not happen.
void Pools::undo(Job& job, Work& work) {
  models_[job.model].limiter.cancel(job.reservation, work.now);
  queue_of(job).meter.undo(job.mark);
  std::vector<JobId> granted;
  if (job.has_memory) memory_->give_back(job.type, granted);
  job.has_memory = false;
  ask_granted(granted, work);
  touch(job.model);
}

void Pools::refuse(Job& job, JobRefused reason, Work& work) {
  tally_.refused += 1;
  const std::string& model = settings_.models[job.model].name;
  JobRefusal refusal{.job = job.id,
                     .reason = reason,
                     .model = job.tried.any() ? model : std::string(),
                     .dimension = job.dimension,
                     .retry_at = job.retry_at};
  const auto type = in_quotes(settings_.types[job.type].name);
  switch (reason) {
    case JobRefused::kTypeSlots:
      refusal.message = fmt::format("{}: job type {} has {} slots, and no one became free in time",
                                    to_string(reason), type, shares_.slots(job.type));
      break;
    case JobRefused::kUnavailable:
      refusal.message = fmt::format("{}: job type {}: {}", to_string(reason), type, job.why);
      break;
    case JobRefused::kStopped:
      refusal.message = fmt::format("{}: the pools are stopping", to_string(reason));
      break;
    case JobRefused::kDelegations:
      refusal.message = fmt::format("{}: the job was delegated {} times, which is all it may be",
                                    to_string(reason), job.delegations);
      break;
    default:
      refusal.message =
          fmt::format("{}: job type {}: last tried was model {}, bound by {}", to_string(reason),
                      type, in_quotes(model), to_string(job.dimension));
      if (!job.why.empty()) fmt::format_to(std::back_inserter(refusal.message), " ({})", job.why);
  }
  work.after.emplace_back([callback = std::move(job.callback), now = work.now,
                           refusal = std::move(refusal)] { callback(now, refusal); });
  remove(job, work);
}

// The model is done with, and settled here and with the coordinator.
Overage Pools::leave_model(Job& job, const std::optional<Used>& used, const Amounts& reported,
                           Work& work) {
  Model& model = models_[job.model];
  deadlines_.erase({job.deadline, job.id});
  Overage overage;
  if (used) {
    overage = model.limiter.finish(job.reservation, used->amounts(), work.now);
    model.tally.tokens += static_cast<std::uint64_t>(used->tokens());
    model.tally.requests += static_cast<std::uint64_t>(used->requests);
  } else {
    model.limiter.fail();
  }
  queue_of(job).meter.give_back(work.now);
  std::vector<JobId> granted;
  if (job.has_memory) memory_->give_back(job.type, granted);
  job.has_memory = false;
  ask_granted(granted, work);
  release(job.grant, job.model, reported, work);
  touch(job.model);
  if (overage_told_ && (overage.tokens > 0 || overage.requests > 0)) {
    work.after.emplace_back([this, now = work.now, model = job.model, overage] {
      overage_told_(now, settings_.models[model].name, overage);
    });
  }
  return overage;
}

void Pools::release(const Grant& grant, std::size_t model, const Amounts& used, Work& work) {
  work.after.emplace_back([this, grant, model, used, now = work.now] {
    coordinator_->release(grant, used, now, [this, model](Instant at, Released) {
      // Only now is it free for others who ask the coordinator.
      Lock lock(lock_);
      Work later = work_at(at);
      forget_refusals(model);
      drain(later);
      conclude(lock, later);
    });
  });
}

void Pools::bill(Job& job, const std::optional<Used>& used) {
  const ModelSpec& model = settings_.models[job.model];
  Attempt attempt{.model = model.name};
  if (used) {
    attempt.used = *used;
    attempt.cost = cost_of(model.pricing, *used);
    models_[job.model].tally.cost += attempt.cost;
  }
  job.attempts.push_back(std::move(attempt));
}

Result<Settlement> Pools::end_running(JobId id, Ending ending, const std::optional<Used>& used,
                                      const std::optional<Used>& counted, Instant now) {
  if (used) {
    if (Status valid = validate_used(*used); !valid) return std::move(valid).error();
  }
  Lock lock(lock_);
  Work work = work_at(now);
  Result<Job*> found = running(id);
  if (!found) return std::move(found).error();
  turn_windows(work);
  Settlement settlement = end(**found, ending, used, counted, work);
  drain(work);
  conclude(lock, work);
  return settlement;
}

Settlement Pools::end(Job& job, Ending ending, const std::optional<Used>& used,
                      const std::optional<Used>& counted, Work& work) {
  ModelTally& tally = models_[job.model].tally;
  if (ending == Ending::kFinished) tally.finished += 1;
  if (ending == Ending::kFailed) tally.failed += 1;
  if (ending == Ending::kExpired) tally.expired += 1;
  // A job that ended without a word may have used what it was estimated to; the published rule
  // reports nothing.
  const Amounts silent = is_strict() ? job.grant.estimate : Amounts{};
  Settlement settlement;
  settlement.overage = leave_model(job, counted, counted ? counted->amounts() : silent, work);
  bill(job, used);
  settlement.attempts = std::move(job.attempts);
  for (const Attempt& attempt : settlement.attempts) settlement.total_cost += attempt.cost;
  remove(job, work);
  return settlement;
}

void Pools::remove(Job& job, Work& work) {
  const std::size_t type = job.type;
  const bool has_slot = job.has_slot;
  jobs_.erase(job.id);
  if (!has_slot) return;
  const bool is_due = shares_.give_back(type);
  touched_types_[type] = true;
  is_touched_ = true;
  if (is_due) adjust(work);
}

}  // namespace weir::system::pool
