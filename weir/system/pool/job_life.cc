// Invariants, whenever the owner's lock is free:
// 1. A job is in one state, which says where it stands: in a queue, at the memory of its type, at
//    the coordinator, or running. One at the coordinator stays until the answer has come.
// 2. What a job holds is given back once: its slot when it is removed; its room on a model when it
//    leaves the model or its start is undone; its grant when it leaves the model.
// 3. No job overtakes an older one of the same model and type: it is tried at once only if none
//    waits there, and queues are served oldest first.
// 4. Nothing is touched: no job waits for what this instance has, but for those of a blocked queue,
//    or of a model whose starts are spread.
// 5. A callback is called once for each submission or delegation, or never if the job was
//    withdrawn.

#include "weir/system/pool/job_life.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {
namespace {

// A coordinator whose clock is ahead may name an instant that is past already.
constexpr Duration kRetryAfterLeast = std::chrono::milliseconds{1};

}  // namespace

void JobLife::Touched::all() {
  std::fill(models.begin(), models.end(), true);
  std::fill(types.begin(), types.end(), true);
  is_any = true;
}

JobLife::JobLife(PoolsSettings settings, const std::vector<double>& ratios, Outside& outside)
    : catalog_(std::move(settings)),
      outside_(outside),
      room_(catalog_, ratios),
      models_(catalog_.model_count()),
      blocked_until_(catalog_.model_count() * catalog_.type_count()),
      waiting_(catalog_.model_count(), catalog_.type_count()),
      touched_{std::vector<bool>(catalog_.model_count(), false),
               std::vector<bool>(catalog_.type_count(), false)} {}

void JobLife::start(Instant now) {
  const PoolsSettings& settings = catalog_.settings();
  next_minute_ = window_begin(Dimension::kTokensPerMinute, now) + kMinute;
  if (settings.ratios.interval > Duration{0}) next_adjustment_ = now + settings.ratios.interval;
  if (room_.has_probe()) next_probe_ = now + settings.memory->interval;
}

void JobLife::stop(Work& work) {
  is_stopped_ = true;
  std::vector<LiveJob*> waiting;
  for (const auto& [id, job] : jobs_) {
    if (job->state == JobState::kAsking || job->state == JobState::kRunning) continue;
    waiting.push_back(job.get());
  }
  // All of them leave before the first gives back what another would then take.
  for (LiveJob* const job : waiting) {
    Room::Granted granted;  // none of those that wait is there to be granted anything
    if (job->state == JobState::kWaitingForMemory) room_.leave_memory(*job, granted);
    waiting_.leave(*job);
  }
  for (LiveJob* const job : waiting) {
    if (job->state == JobState::kWaitingForMemory) undo(*job, work);
    refuse(*job, JobRefused::kStopped, work);
  }
}

// --- Calls.

Result<JobId> JobLife::submit(std::size_t type, const JobRequest& request, JobCallback callback,
                              Work& work) {
  if (is_stopped_) return Error{ErrorCode::kUnavailable, "the pools have stopped"};
  if (start_error_) return Error{ErrorCode::kUnavailable, *start_error_};
  if (jobs_.size() >= catalog_.settings().jobs_max) {
    return Error{
        ErrorCode::kExhausted,
        fmt::format("{} jobs wait or run, which is all that jobs_max allows", jobs_.size())};
  }
  turn_windows(work);
  const JobId id = next_job_++;
  LiveJob& job = *jobs_.emplace(id, std::make_unique<LiveJob>()).first->second;
  job.id = id;
  job.type = type;
  job.callback = std::move(callback);
  job.submitted_at = work.now;
  if (request.patience) job.patience_end = work.now + *request.patience;
  job.hold = request.hold;
  tally_.submitted += 1;
  // Those who were there before come first.
  drain(work);
  begin(job, work);
  drain(work);
  return id;
}

bool JobLife::withdraw(JobId id, Work& work) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return false;
  LiveJob& job = *found->second;
  if (job.state == JobState::kRunning || job.is_withdrawn) return false;
  tally_.withdrawn += 1;
  if (job.state == JobState::kAsking) {
    job.is_withdrawn = true;
    return true;
  }
  waiting_.leave(job);
  if (job.state == JobState::kWaitingForMemory) stop_waiting_for_memory(job, work);
  remove(job, work);
  drain(work);
  return true;
}

Result<LiveJob*> JobLife::running(JobId id) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end() && found->second->state == JobState::kRunning)
    return found->second.get();
  return Error{ErrorCode::kNotFound,
               fmt::format("job {} does not run: it was never started, or has ended", id)};
}

Result<Settlement> JobLife::end(JobId id, Ending ending, const std::optional<Used>& used,
                                const std::optional<Used>& counted, Work& work) {
  Result<LiveJob*> found = running(id);
  if (!found) return std::move(found).error();
  turn_windows(work);
  Settlement settlement = settle(**found, ending, used, counted, work);
  drain(work);
  return settlement;
}

Status JobLife::delegate(JobId id, const Used& used, JobCallback callback, Work& work) {
  Result<LiveJob*> found = running(id);
  if (!found) return std::move(found).error();
  LiveJob& job = **found;
  turn_windows(work);
  models_[job.model].tally.delegated += 1;
  leave_model(job, used, used.amounts(), work);
  bill(job, used);
  job.callback = std::move(callback);
  job.nevers = 0;
  job.was_rejected = false;
  job.retry_at = kForever;
  job.why.clear();
  if (job.delegations >= catalog_.settings().delegations_max || is_stopped_) {
    refuse(job, is_stopped_ ? JobRefused::kStopped : JobRefused::kDelegations, work);
  } else {
    job.delegations += 1;
    const bool has_another = std::ranges::any_of(catalog_.escalation(), [&](std::size_t model) {
      return !job.tried[model] && room_.has_capacity(model, work.now);
    });
    if (!has_another) job.tried.reset();
    next_model(job, work);
  }
  drain(work);
  return Done{};
}

Status JobLife::cancel(JobId id, Work& work) {
  Result<LiveJob*> found = running(id);
  if (!found) return std::move(found).error();
  LiveJob& job = **found;
  turn_windows(work);
  waiting_.forget_deadline(job);
  tally_.withdrawn += 1;
  release(job, job.grant, {}, work);
  undo(job, work);
  remove(job, work);
  drain(work);
  return Done{};
}

Result<Instant> JobLife::renew(JobId id, Duration hold, Work& work) {
  Result<LiveJob*> found = running(id);
  if (!found) return std::move(found).error();
  LiveJob& job = **found;
  waiting_.forget_deadline(job);
  job.hold = hold;
  job.deadline = work.now + hold;
  waiting_.run(job);
  return job.deadline;
}

// --- What the coordinator says.

void JobLife::answered(JobId id, Acquired answer, Work& work) {
  LiveJob& job = *jobs_.at(id);
  Grant* const grant = std::get_if<Grant>(&answer);
  if (job.is_withdrawn || is_stopped_) {
    if (grant != nullptr) release(job, *grant, {}, work);
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
}

void JobLife::freed(std::size_t model, Work& work) {
  forget_refusals(model);
  drain(work);
}

void JobLife::set_reachable(bool is_reachable, Work& work) {
  is_reachable_ = is_reachable;
  // Without a coordinator the answers are others too.
  forget_all_refusals();
  drain(work);
}

bool JobLife::allocate(const Allocation& allocation, Work& work) {
  Room::Granted granted;
  if (!room_.allocate(allocation, granted)) return false;
  ask_granted(granted, work);
  touched_.all();
  forget_all_refusals();
  drain(work);
  return true;
}

void JobLife::change(const PoolsSettings& settings, Work& work) {
  catalog_.change(settings);
  const Duration interval = catalog_.settings().ratios.interval;
  next_adjustment_ = interval > Duration{0} ? work.now + interval : kForever;
  Room::Granted granted;
  room_.follow_catalog(granted);
  ask_granted(granted, work);
  touched_.all();
  // With other estimates the coordinator may answer otherwise.
  forget_all_refusals();
  drain(work);
}

// --- From one state to the next.

void JobLife::begin(LiveJob& job, Work& work) {
  if (!room_.is_allocated() && !is_reachable_.value_or(true)) {
    const std::string trouble = outside_.trouble();
    job.why = fmt::format("the coordinator does not answer, and never has{}{}",
                          trouble.empty() ? "" : ": ", trouble);
    refuse(job, JobRefused::kUnavailable, work);
    return;
  }
  // The strict rule gives slots to jobs that run: of a type on a model, see Room::take().
  const bool has_slot = waiting_.count_for_slot(job.type) == 0 && room_.has_slot(job.type);
  if (catalog_.is_strict() || has_slot) {
    room_.take_slot(job);
    next_model(job, work);
    return;
  }
  // The published queue has no time-out, and its cases wait in it for ever.
  job.model = catalog_.escalation().front();
  job.deadline = job.patience_end;
  if (job.deadline <= work.now) {
    refuse(job, JobRefused::kTypeSlots, work);
    return;
  }
  waiting_.wait_for_slot(job);
}

// The first model that was not tried: now, or in its queue. A job that found none is refused.
void JobLife::next_model(LiveJob& job, Work& work) {
  for (const std::size_t model : catalog_.escalation()) {
    if (job.tried[model]) continue;
    job.tried.set(model);
    job.model = model;
    job.is_last_try = false;
    job.deadline =
        earlier_of(work.now + catalog_.max_wait(job.type, model, work.now), job.patience_end);
    const std::size_t nevers = job.nevers;
    if (try_in_turn(job, work)) return;
    if (job.deadline > work.now && job.nevers == nevers) {
      waiting_.wait_for_model(job);
      return;
    }
  }
  JobRefused reason = JobRefused::kExhausted;
  if (job.nevers == catalog_.escalation().size()) reason = JobRefused::kNever;
  if (job.was_rejected && !catalog_.is_strict()) reason = JobRefused::kRejected;
  refuse(job, reason, work);
}

// No job overtakes those that wait for the same model with the same type.
bool JobLife::try_in_turn(LiveJob& job, Work& work) {
  const Model& model = models_[job.model];
  if (waiting_.count_for_model(job.model, job.type) > 0) {
    room_.explain(job, work.now);
    return false;
  }
  if (const Instant until = blocked_until(job.model, job.type); until > work.now) {
    job.retry_at = earlier_of(job.retry_at, until);
    return false;
  }
  const bool may_wait = job.deadline > work.now;
  if (model.gap > Duration{0} && work.now < model.next_start && may_wait) return false;
  return attempt(job, work);
}

// Takes what it needs here, all or nothing, and asks the coordinator.
bool JobLife::attempt(LiveJob& job, Work& work) {
  const Room::Took took = room_.take(job, work.now);
  if (took == Room::Took::kTaken) ask(job, work);
  if (took == Room::Took::kMemoryIsAwaited) waiting_.wait_for_memory(job);
  return took != Room::Took::kLacks;
}

void JobLife::ask(LiveJob& job, Work& work) {
  job.state = JobState::kAsking;
  job.changes_seen = models_[job.model].changes;
  work.after.emplace_back([this, id = job.id, model = job.model,
                           estimate = job.reservation.estimate,
                           now = work.now] { outside_.ask(id, model, estimate, now); });
}

void JobLife::start_running(LiveJob& job, Grant grant, Work& work) {
  models_[job.model].tally.started += 1;
  job.grant = std::move(grant);
  job.deadline = job.hold ? work.now + *job.hold : kForever;
  waiting_.run(job);
  Start start{.job = job.id,
              .model = catalog_.model(job.model).name,
              .estimate = job.reservation.estimate,
              .minute = job.grant.minute,
              .day = job.grant.day,
              .used = job.grant.used,
              .limits = catalog_.model(job.model).limits,
              .waited = work.now - job.submitted_at,
              .expires_at = job.deadline,
              .attempt = job.delegations + 1};
  work.after.emplace_back([callback = std::move(job.callback), now = work.now,
                           start = std::move(start)] { callback(now, start); });
}

// The coordinator refused.
void JobLife::give_up(LiveJob& job, const Refusal& refusal, Work& work) {
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
  if (!catalog_.is_strict() || job.is_last_try || job.deadline <= work.now) {
    next_model(job, work);
    return;
  }
  // If something was freed while the answer was under way, it may not have counted yet.
  if (job.changes_seen == model.changes) {
    Instant& until = blocked_until(job.model, job.type);
    until = later_of(until, retry_at);
  } else {
    touched_.model(job.model);
  }
  waiting_.wait_for_model(job);
}

// Gives back what was taken here for a start that did not happen.
void JobLife::undo(LiveJob& job, Work& work) {
  Room::Granted granted;
  room_.undo(job, work.now, granted);
  ask_granted(granted, work);
  touched_.model(job.model);
}

// Of one whose deadline is forgotten.
void JobLife::stop_waiting_for_memory(LiveJob& job, Work& work) {
  Room::Granted granted;
  room_.leave_memory(job, granted);
  undo(job, work);
  ask_granted(granted, work);
}

void JobLife::refuse(LiveJob& job, JobRefused reason, Work& work) {
  tally_.refused += 1;
  if (reason == JobRefused::kTypeSlots) room_.explain(job, work.now);
  // A place in flight frees at an unknown instant: this is the latest at which to ask again.
  const bool may_come_back = reason == JobRefused::kTypeSlots || reason == JobRefused::kExhausted;
  if (may_come_back && job.retry_at == kForever && job.dimension == Dimension::kConcurrency) {
    job.retry_at = later_of(next_minute_, work.now + kRetryAfterLeast);
  }
  const std::string& model = catalog_.model(job.model).name;
  JobRefusal refusal{.job = job.id,
                     .reason = reason,
                     .model = model,
                     .dimension = job.dimension,
                     .retry_at = job.retry_at};
  const auto type = in_quotes(catalog_.type(job.type).name);
  switch (reason) {
    case JobRefused::kTypeSlots:
      refusal.message = fmt::format("{}: job type {} has {} slots, and no one became free in time",
                                    to_string(reason), type, room_.slots(job.type));
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
Overage JobLife::leave_model(LiveJob& job, const std::optional<Used>& used, const Amounts& reported,
                             Work& work) {
  waiting_.forget_deadline(job);
  Room::Granted granted;
  const Overage overage = room_.leave(job, used, work.now, granted);
  if (used) {
    ModelTally& tally = models_[job.model].tally;
    tally.tokens += static_cast<std::uint64_t>(used->tokens());
    tally.requests += static_cast<std::uint64_t>(used->requests);
  }
  ask_granted(granted, work);
  release(job, job.grant, reported, work);
  touched_.model(job.model);
  if (overage.tokens > 0 || overage.requests > 0) {
    work.after.emplace_back([this, now = work.now, model = job.model, overage] {
      outside_.tell_overage(model, overage, now);
    });
  }
  return overage;
}

void JobLife::release(const LiveJob& job, const Grant& grant, const Amounts& used, Work& work) {
  work.after.emplace_back([this, grant, model = job.model, used, now = work.now] {
    outside_.release(grant, model, used, now);
  });
}

void JobLife::bill(LiveJob& job, const std::optional<Used>& used) {
  const ModelSpec& model = catalog_.model(job.model);
  Attempt attempt{.model = model.name};
  if (used) {
    attempt.used = *used;
    attempt.cost = cost_of(model.pricing, *used);
    models_[job.model].tally.cost += attempt.cost;
  }
  job.attempts.push_back(std::move(attempt));
}

Settlement JobLife::settle(LiveJob& job, Ending ending, const std::optional<Used>& used,
                           const std::optional<Used>& counted, Work& work) {
  ModelTally& tally = models_[job.model].tally;
  if (ending == Ending::kFinished) tally.finished += 1;
  if (ending == Ending::kFailed) tally.failed += 1;
  if (ending == Ending::kExpired) tally.expired += 1;
  // A job that ended without a word may have used what it was estimated to; the published rule
  // reports nothing.
  const Amounts silent = catalog_.is_strict() ? job.grant.estimate : Amounts{};
  Settlement settlement;
  settlement.overage = leave_model(job, counted, counted ? counted->amounts() : silent, work);
  bill(job, used);
  settlement.attempts = std::move(job.attempts);
  for (const Attempt& attempt : settlement.attempts) settlement.total_cost += attempt.cost;
  remove(job, work);
  return settlement;
}

void JobLife::remove(LiveJob& job, Work& work) {
  const std::size_t type = job.type;
  const bool has_slot = job.has_slot;
  jobs_.erase(job.id);
  if (!has_slot) return;
  const bool is_due = room_.give_back_slot(type);
  touched_.type(type);
  if (is_due) adjust(work);
}

// --- Who is looked at, and when.

// The coordinator may answer differently now: those who were refused may ask again.
void JobLife::forget_refusals(std::size_t model) noexcept {
  models_[model].changes += 1;
  for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
    blocked_until(model, type) = Instant{};
  }
  touched_.model(model);
}

void JobLife::forget_all_refusals() noexcept {
  for (std::size_t model = 0; model < models_.size(); ++model) forget_refusals(model);
}

// Oldest first over all types; a type whose first does not fit is left alone.
void JobLife::serve(std::size_t model, Work& work) {
  Model& state = models_[model];
  std::vector<std::size_t> types = waiting_.types_at(model);
  while (!types.empty()) {
    if (state.gap > Duration{0} && work.now < state.next_start) return;
    const auto oldest = std::ranges::min_element(
        types, {}, [&](std::size_t type) { return waiting_.first_for_model(model, type)->id; });
    const std::size_t type = *oldest;
    LiveJob& job = *waiting_.first_for_model(model, type);
    if (blocked_until(model, type) > work.now || !attempt(job, work)) {
      types.erase(oldest);
      continue;
    }
    waiting_.leave_model(job);
    if (waiting_.count_for_model(model, type) == 0) types.erase(oldest);
    if (state.gap > Duration{0})
      state.next_start = later_of(state.next_start, work.now) + state.gap;
  }
  if (waiting_.types_at(model).empty()) state.gap = Duration{0};
}

// Jobs that waited for a slot of their type.
void JobLife::admit(std::size_t type, Work& work) {
  while (room_.has_slot(type)) {
    LiveJob* const job = waiting_.first_for_slot(type);
    if (job == nullptr) return;
    waiting_.leave(*job);
    room_.take_slot(*job);
    next_model(*job, work);
  }
}

// Looks at everything that may have become free, until nothing changes any more.
void JobLife::drain(Work& work) {
  while (std::exchange(touched_.is_any, false)) {
    for (std::size_t model = 0; model < models_.size(); ++model) {
      if (!touched_.models[model]) continue;
      touched_.models[model] = false;
      serve(model, work);
    }
    for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
      if (!touched_.types[type]) continue;
      touched_.types[type] = false;
      admit(type, work);
    }
  }
}

// A minute ended, and with it perhaps a day: their windows are empty again.
void JobLife::turn_windows(Work& work) {
  if (work.now < next_minute_) return;
  next_minute_ = window_begin(Dimension::kTokensPerMinute, work.now) + kMinute;
  std::vector<std::int64_t> counts(models_.size(), 0);
  waiting_.for_each_queue([&](std::size_t model, std::size_t type) {
    counts[model] += static_cast<std::int64_t>(waiting_.count_for_model(model, type));
    touched_.model(model);
  });
  const Duration pacing = catalog_.settings().pacing;
  if (pacing == Duration{0}) return;
  for (std::size_t model = 0; model < models_.size(); ++model) {
    models_[model].gap = counts[model] > 1 ? pacing / counts[model] : Duration{0};
    models_[model].next_start = work.now;
  }
}

// The coordinator may be asked again.
void JobLife::unblock(Work& work) {
  waiting_.for_each_queue([&](std::size_t model, std::size_t type) {
    Instant& until = blocked_until(model, type);
    if (until == Instant{} || until > work.now) return;
    until = Instant{};
    touched_.model(model);
  });
}

// One last try for those whose time is up, then the next model. What runs too long has failed.
void JobLife::expire(Work& work) {
  while (const auto id = waiting_.due(work.now)) {
    LiveJob& job = *jobs_.at(*id);
    waiting_.leave(job);
    switch (job.state) {
      case JobState::kRunning:
        settle(job, Ending::kExpired, std::nullopt, std::nullopt, work);
        break;
      case JobState::kWaitingForSlot:
        refuse(job, JobRefused::kTypeSlots, work);
        break;
      case JobState::kWaitingForMemory:
        stop_waiting_for_memory(job, work);
        next_model(job, work);
        break;
      default:
        job.is_last_try = true;
        if (!attempt(job, work)) next_model(job, work);
    }
  }
}

void JobLife::advance(Work& work) {
  turn_windows(work);
  unblock(work);
  for (std::size_t model = 0; model < models_.size(); ++model) {
    if (models_[model].gap > Duration{0}) touched_.model(model);
  }
  drain(work);
  expire(work);
  if (next_adjustment_ <= work.now) adjust(work);
  if (next_probe_ <= work.now) probe_memory(work);
  drain(work);
}

void JobLife::adjust(Work& work) {
  const Duration interval = catalog_.settings().ratios.interval;
  if (interval > Duration{0}) next_adjustment_ = work.now + interval;
  // Those who wait want slots, but as many as there are are enough to be full.
  std::vector<std::int64_t> waiting(catalog_.type_count(), 0);
  waiting_.for_each_queue([&](std::size_t model, std::size_t type) {
    waiting[type] += static_cast<std::int64_t>(waiting_.count_for_model(model, type));
  });
  Room::Granted granted;
  if (!room_.adjust_ratios(waiting, granted)) return;
  last_adjusted_ = work.now;
  tally_.adjustments += 1;
  ask_granted(granted, work);
  touched_.all();
}

void JobLife::probe_memory(Work& work) {
  next_probe_ = work.now + catalog_.settings().memory->interval;
  Room::Granted granted;
  if (!room_.probe_memory(granted)) return;
  ask_granted(granted, work);
  touched_.all();
}

void JobLife::ask_granted(const std::vector<JobId>& granted, Work& work) {
  for (const JobId id : granted) {
    LiveJob& job = *jobs_.at(id);
    waiting_.forget_deadline(job);
    job.has_memory = true;
    ask(job, work);
  }
}

Instant JobLife::earliest() const {
  Instant earliest = waiting_.first_deadline();
  if (!jobs_.empty()) {
    earliest = earlier_of(earliest, earlier_of(next_adjustment_, next_probe_));
  }
  waiting_.for_each_queue([&](std::size_t place, std::size_t type) {
    const Model& model = models_[place];
    const Instant until = blocked_until(place, type);
    earliest = earlier_of(earliest, until > Instant{} ? until : next_minute_);
    if (model.gap > Duration{0}) earliest = earlier_of(earliest, model.next_start);
  });
  return earliest;
}

Reading JobLife::reading(Instant now) const {
  Reading reading{.rule = catalog_.settings().rule,
                  .is_reachable = is_reachable(),
                  .last_adjusted = last_adjusted_,
                  .jobs = jobs_.size(),
                  .tally = tally_};
  room_.read(reading, now);
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ModelReading& model = reading.models[i];
    model.tally = models_[i].tally;
    for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
      const auto waiting = static_cast<std::int64_t>(waiting_.count_for_model(i, type));
      model.types[type].waiting = waiting;
      model.waiting += waiting;
      if (catalog_.is_strict()) reading.types[type].waiting += waiting;
    }
    reading.waiting += static_cast<std::size_t>(model.waiting);
  }
  for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
    reading.types[type].waiting += static_cast<std::int64_t>(waiting_.count_for_slot(type));
    reading.waiting += waiting_.count_for_slot(type);
  }
  return reading;
}

}  // namespace weir::system::pool
