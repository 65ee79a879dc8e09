// What pools show of themselves, and how their settings change while they run.

#include <fmt/format.h>

#include <algorithm>

#include "weir/system/pool/pools_job.h"

namespace weir::system::pool {
namespace {

// Names and their order are the same, and so is what running jobs hold.
Status validate_change(const Settings& from, const Settings& to) {
  const auto same = [](const auto& a, const auto& b, auto name) {
    return std::ranges::equal(a, b, {}, name, name);
  };
  if (!same(from.models, to.models, &ModelSpec::name) || from.escalation != to.escalation ||
      !same(from.types, to.types, &JobType::name)) {
    return bad_argument(
        "models, job types and the escalation order cannot change while jobs run; start again");
  }
  if (!same(from.types, to.types, &JobType::memory_kb) || from.rule != to.rule ||
      from.memory.has_value() != to.memory.has_value()) {
    return bad_argument("memory and the rule cannot change while jobs run; start again");
  }
  const Registration before = registration_of(from);
  const Registration after = registration_of(to);
  const bool is_same = before.limits == after.limits && before.average == after.average;
  if (is_same ? after.version >= before.version : after.version > before.version) return Done{};
  return bad_argument(
      fmt::format("limits or estimates changed, but the version went from {} to {}; write {}",
                  before.version, after.version, before.version + 1));
}

}  // namespace

void Pools::change(Settings settings, Instant now, StatusCallback changed) {
  Status valid = validate_settings(settings);
  if (valid) {
    if (settings.escalation.empty()) settings.escalation.push_back(settings.models.front().name);
    valid = validate_change(this->settings(), settings);
  }
  if (!valid) {
    changed(now, std::move(valid));
    return;
  }
  Registration registration = registration_of(settings);
  if (registration == registration_of(this->settings())) {
    apply(settings, now);
    changed(now, Done{});
    return;
  }
  coordinator_->update(std::move(registration), now,
                       [this, settings = std::move(settings), changed = std::move(changed)](
                           Instant at, const Status& status) {
                         if (status) apply(settings, at);
                         changed(at, status);
                       });
}

// Field by field: names are read without the lock.
void Pools::apply(const Settings& settings, Instant now) {
  const Result<std::vector<double>> ratios = initial_ratios(settings.types);
  WEIR_ASSERT(ratios.ok());
  Lock lock(lock_);
  Work work = work_at(now);
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ModelSpec& model = settings_.models[i];
    model.limits = settings.models[i].limits;
    model.pricing = settings.models[i].pricing;
    model.bounds = settings.models[i].bounds;
    // The published local limits come with the next allocation.
    if (!is_strict()) continue;
    models_[i].limiter.set_limits(model.limits.rates);
    models_[i].limiter.set_concurrency(model.limits.concurrent);
  }
  for (std::size_t i = 0; i < settings_.types.size(); ++i) {
    JobType& type = settings_.types[i];
    type.tokens = settings.types[i].tokens;
    type.requests = settings.types[i].requests;
    type.ratio = settings.types[i].ratio;
    type.is_flexible = settings.types[i].is_flexible;
    type.max_wait = settings.types[i].max_wait;
  }
  settings_.ratios = settings.ratios;
  settings_.delegations_max = settings.delegations_max;
  settings_.pacing = settings.pacing;
  settings_.jobs_max = settings.jobs_max;
  settings_.version = settings.version;
  next_adjustment_ =
      settings_.ratios.interval > Duration{0} ? work.now + settings_.ratios.interval : kForever;
  shares_.change(settings_.types, *ratios, settings_.ratios);
  apply_ratios(work);
  // With other estimates the coordinator may answer otherwise.
  for (std::size_t i = 0; i < models_.size(); ++i) forget_refusals(i);
  drain(work);
  conclude(lock, work);
}

Settings Pools::settings() const {
  const Lock lock(lock_);
  return settings_;
}

Reading Pools::reading(Instant now) const {
  const Lock lock(lock_);
  Reading reading{.rule = settings_.rule,
                  .is_reachable = is_reachable_.value_or(false),
                  .allocation = allocation_,
                  .capacity = shares_.capacity(),
                  .last_adjusted = last_adjusted_,
                  .jobs = jobs_.size(),
                  .tally = tally_};
  if (memory_) reading.memory = memory_->reading();
  std::vector<ModelAvailability> available;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ModelLimiter limiter = models_[i].limiter;  // reading it turns its windows
    ModelReading model{.name = settings_.models[i].name,
                       .pool = models_[i].pool,
                       .in_flight = limiter.in_flight(),
                       .tally = models_[i].tally};
    for (const Dimension rate : kRates) {
      model.rates[static_cast<std::size_t>(rate)] = limiter.rate(rate, now);
    }
    for (std::size_t type = 0; type < settings_.types.size(); ++type) {
      const Queue& queue = queues_[place(i, type)];
      const TypeCheck check = queue.meter.check(now);
      const auto waiting = static_cast<std::int64_t>(queue.waiting.size());
      model.types.push_back(
          {check.slots, check.used, check.dimension, queue.meter.in_flight(), waiting});
      model.waiting += waiting;
    }
    reading.waiting += static_cast<std::size_t>(model.waiting);
    available.push_back({model.pool ? model.pool->total_slots : 0, settings_.models[i].bounds});
    reading.models.push_back(std::move(model));
  }
  std::vector<double> initial;
  for (std::size_t type = 0; type < settings_.types.size(); ++type) {
    const auto waiting = static_cast<std::int64_t>(slot_waiting_[type].size());
    initial.push_back(shares_.initial_ratio(type));
    reading.types.push_back({settings_.types[type].name, shares_.ratio(type),
                             shares_.initial_ratio(type), settings_.types[type].is_flexible,
                             shares_.slots(type), shares_.in_flight(type), waiting});
    reading.waiting += static_cast<std::size_t>(waiting);
  }
  const std::optional<std::int64_t> in_memory =
      memory_ ? memory_slots(settings_.types, initial, memory_->budget()) : std::nullopt;
  reading.available_slots = available_slots(available, in_memory);
  return reading;
}

}  // namespace weir::system::pool
