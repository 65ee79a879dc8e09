// Invariants:
// 1. A job has all of its model, its lane and its memory, or none; but for one that waits for
//    memory by the published rules, which has the first two.
// 2. What a job has taken is given back once, to the model and the type it was taken of.
// 3. Slots of lanes and budgets of memory follow the ratios: whatever changes those ends in
//    follow_ratios().

#include "weir/system/pool/room.h"

#include <algorithm>
#include <utility>

namespace weir::system::pool {

Room::Room(const Catalog& catalog, const std::vector<double>& ratios)
    : catalog_(catalog),
      shares_(catalog.settings().types, ratios, catalog.settings().ratios),
      lanes_(catalog.model_count() * catalog.type_count(), TypeMeter(catalog.settings().rule)) {
  const PoolsSettings& all = catalog_.settings();
  const LimiterRule rule = catalog_.is_strict() ? LimiterRule::kStrict : LimiterRule::kPublished;
  for (const ModelSpec& model : all.models) models_.push_back({ModelLimiter(model.limits, rule)});
  shares_.set_capacity(capacity_before_allocation(all));

  const bool has_estimates =
      std::ranges::any_of(all.types, [](const JobType& type) { return type.memory_kb > 0; });
  if (!all.memory || !has_estimates) return;
  const MemorySettings& memory = *all.memory;
  const std::int64_t base =
      memory.max_kb ? *memory.max_kb : std::clamp<std::int64_t>(memory.probe(), 0, kMemoryKbMax);
  const std::int64_t budget = budget_kb(base, memory.free_ratio);
  memory_.emplace(all.types, ratios, budget,
                  catalog_.is_strict() ? Shrinking::kOwes : Shrinking::kForgets);
  shares_.set_memory(budget);
}

void Room::take_slot(LiveJob& job) noexcept {
  shares_.take(job.type);
  job.has_slot = true;
}

// A place on the model, if its lane has one too; what is short is written into the job.
std::optional<Reservation> Room::reserve(LiveJob& job, Instant now) {
  ModelLimiter& limiter = models_[job.model].limiter;
  Shortage shortage;
  const Amounts estimate = catalog_.estimate(job.type);
  const std::optional<Reservation> reservation = limiter.try_reserve(estimate, now, shortage);
  if (!reservation) {
    job.dimension = shortage.dimension;
    if (shortage.is_never) {
      job.nevers += 1;
    } else {
      job.retry_at = earlier_of(job.retry_at, shortage.retry_at);
    }
    return std::nullopt;
  }
  const TypeCheck check = lane(job.model, job.type).check(now);
  if (check.allowed) return reservation;
  limiter.cancel(*reservation, now);
  job.dimension = check.dimension;
  job.retry_at = earlier_of(job.retry_at, check.retry_at);
  return std::nullopt;
}

void Room::explain(LiveJob& job, Instant now) {
  if (const auto reservation = reserve(job, now)) {
    models_[job.model].limiter.cancel(*reservation, now);
  }
}

Room::Took Room::take(LiveJob& job, Instant now) {
  TypeMeter& meter = lane(job.model, job.type);
  ModelLimiter& limiter = models_[job.model].limiter;
  const std::optional<Reservation> reservation = reserve(job, now);
  if (!reservation) return Took::kLacks;
  if (memory_ && catalog_.is_strict() && !memory_->try_take(job.type)) {
    limiter.cancel(*reservation, now);
    job.why = memory_->fits(job.type) ? "the memory of its type is in use"
                                      : "it takes more memory than its type has";
    return Took::kLacks;
  }
  job.reservation = *reservation;
  job.mark = meter.take(now);
  const bool is_awaited = memory_ && !catalog_.is_strict() && !memory_->take(job.type, job.id);
  job.has_memory = memory_.has_value() && !is_awaited;
  return is_awaited ? Took::kMemoryIsAwaited : Took::kTaken;
}

void Room::leave_memory(const LiveJob& job, Granted& granted) {
  memory_->leave(job.type, job.id, granted);
}

void Room::undo(LiveJob& job, Instant now, Granted& granted) {
  models_[job.model].limiter.cancel(job.reservation, now);
  lane(job.model, job.type).undo(job.mark);
  give_back_memory(job, granted);
}

Overage Room::leave(LiveJob& job, const std::optional<Used>& used, Instant now, Granted& granted) {
  ModelLimiter& limiter = models_[job.model].limiter;
  Overage overage;
  if (used) {
    overage = limiter.finish(job.reservation, used->amounts(), now);
  } else {
    limiter.fail();
  }
  lane(job.model, job.type).give_back(now);
  give_back_memory(job, granted);
  return overage;
}

void Room::give_back_memory(LiveJob& job, Granted& granted) {
  if (std::exchange(job.has_memory, false)) memory_->give_back(job.type, granted);
}

bool Room::allocate(const Allocation& allocation, Granted& granted) {
  if (allocation.instance_count < 1 || allocation.epoch < allocation_.epoch) return false;
  allocation_ = allocation;
  const bool is_strict = catalog_.is_strict();
  std::int64_t capacity = 0;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const ModelLimits& limits = catalog_.model(i).limits;
    Model& model = models_[i];
    const auto pool = allocation.pools.find(catalog_.model(i).name);
    if (pool == allocation.pools.end()) {
      model.pool.reset();
      for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
        lane(i, type).clear_slots();
      }
      continue;
    }
    model.pool = pool->second;
    capacity +=
        is_strict ? pool->second.whole_slots.value_or(kUnlimitedSlots) : pool->second.total_slots;
    // The strict rule leaves the sum over the instances to the coordinator.
    if (is_strict) continue;
    Rates shares = limits.rates;
    for (const Dimension rate : kRates) {
      if (shares.of(rate)) *shares.of(rate) /= allocation.instance_count;
    }
    model.limiter.set_limits(shares);
    if (limits.concurrent)
      model.limiter.set_concurrency(*limits.concurrent / allocation.instance_count);
  }
  shares_.set_capacity(capacity);
  follow_ratios(granted);
  return true;
}

void Room::follow_catalog(Granted& granted) {
  const PoolsSettings& settings = catalog_.settings();
  const Result<std::vector<double>> first = initial_ratios(settings.types);
  WEIR_ASSERT(first.ok());
  // The published local limits come with the next allocation.
  for (std::size_t i = 0; i < models_.size() && catalog_.is_strict(); ++i) {
    models_[i].limiter.set_limits(catalog_.model(i).limits.rates);
    models_[i].limiter.set_concurrency(catalog_.model(i).limits.concurrent);
  }
  shares_.change(settings.types, *first, settings.ratios);
  follow_ratios(granted);
}

std::int64_t Room::running(std::size_t type) const noexcept {
  std::int64_t count = 0;
  for (std::size_t model = 0; model < models_.size(); ++model) {
    count += lane(model, type).in_flight();
  }
  return count;
}

bool Room::adjust_ratios(const std::vector<std::int64_t>& waiting, Granted& granted) {
  std::vector<std::int64_t> counted;
  for (std::size_t type = 0; type < shares_.count(); ++type) {
    counted.push_back(shares_.in_flight(type));
    if (!catalog_.is_strict()) continue;
    const std::int64_t runs = running(type);
    const std::int64_t wanted = std::min(runs + waiting[type], shares_.slots(type));
    shares_.set_in_flight(type, std::max(runs, wanted));
  }
  const bool has_changed = shares_.adjust();
  for (std::size_t type = 0; type < shares_.count(); ++type) {
    shares_.set_in_flight(type, counted[type]);
  }
  if (!has_changed) return false;
  follow_ratios(granted);
  return true;
}

bool Room::probe_memory(Granted& granted) {
  const MemorySettings& settings = *catalog_.settings().memory;
  const std::int64_t base = std::clamp<std::int64_t>(settings.probe(), 0, kMemoryKbMax);
  const std::int64_t budget = budget_kb(base, settings.free_ratio);
  if (budget == memory_->budget()) return false;
  shares_.set_memory(budget);
  memory_->resize(ratios(), budget, granted);
  return true;
}

std::vector<double> Room::ratios() const {
  std::vector<double> ratios;
  for (std::size_t type = 0; type < shares_.count(); ++type) ratios.push_back(shares_.ratio(type));
  return ratios;
}

// After a change of ratios or pools.
void Room::follow_ratios(Granted& granted) {
  const std::vector<double> now = ratios();
  for (std::size_t model = 0; model < models_.size(); ++model) {
    if (!models_[model].pool) continue;
    for (std::size_t type = 0; type < now.size(); ++type) {
      lane(model, type)
          .set_slots(*models_[model].pool, now[type], catalog_.estimate(type),
                     catalog_.settings().ratios.min_capacity);
    }
  }
  if (memory_) memory_->resize(now, memory_->budget(), granted);
}

void Room::read(Reading& reading, Instant now) const {
  reading.allocation = allocation_;
  reading.capacity = shares_.capacity();
  if (memory_) reading.memory = memory_->reading();
  std::vector<ModelAvailability> available;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    ModelLimiter limiter = models_[i].limiter;  // reading it turns its windows
    ModelReading model{
        .name = catalog_.model(i).name, .pool = models_[i].pool, .in_flight = limiter.in_flight()};
    for (const Dimension rate : kRates) {
      model.rates[static_cast<std::size_t>(rate)] = limiter.rate(rate, now);
    }
    for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
      const TypeMeter& meter = lane(i, type);
      const TypeCheck check = meter.check(now);
      model.types.push_back({.slots = check.slots,
                             .used = check.used,
                             .dimension = check.dimension,
                             .in_flight = meter.in_flight()});
    }
    available.push_back({model.pool ? model.pool->total_slots : 0, catalog_.model(i).bounds});
    reading.models.push_back(std::move(model));
  }
  std::vector<double> initial;
  for (std::size_t type = 0; type < catalog_.type_count(); ++type) {
    initial.push_back(shares_.initial_ratio(type));
    reading.types.push_back(
        {.name = catalog_.type(type).name,
         .ratio = shares_.ratio(type),
         .initial_ratio = shares_.initial_ratio(type),
         .is_flexible = catalog_.type(type).is_flexible,
         .slots = shares_.slots(type),
         .in_flight = catalog_.is_strict() ? running(type) : shares_.in_flight(type)});
  }
  const std::optional<std::int64_t> in_memory =
      memory_ ? memory_slots(catalog_.settings().types, initial, memory_->budget()) : std::nullopt;
  reading.available_slots = available_slots(available, in_memory);
}

}  // namespace weir::system::pool
