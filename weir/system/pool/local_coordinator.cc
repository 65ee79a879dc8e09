#include "weir/system/pool/local_coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "weir/base/in_quotes.h"

namespace weir::system::pool {
namespace {

std::int64_t& counter_of(Usage& usage, Dimension rate) {
  Amounts& amounts = window_of(rate) == kMinute ? usage.minute : usage.day;
  return counts_tokens(rate) ? amounts.tokens : amounts.requests;
}

void add(Usage& usage, Dimension rate, std::int64_t amount) {
  // Neither term exceeds 2^62.
  std::int64_t& counter = counter_of(usage, rate);
  counter = std::clamp<std::int64_t>(counter + amount, 0, kTermMax);
}

Refusal refusal(Refused reason, Dimension dimension, Instant retry_at, std::string message) {
  return {reason, dimension, retry_at, std::move(message)};
}

}  // namespace

// --- The fleet. Its functions are called with its lock held.

Status LocalFleet::adopt(const Registration& registration) {
  if (Status valid = validate_registration(registration); !valid) return valid;
  const bool replaces = members_.empty() || registration.version > rules_.version;
  if (!replaces) {
    if (registration.version < rules_.version) {
      return bad_argument(
          fmt::format("the fleet is at version {}, but this is version {}; give "
                      "this instance the fleet's limits",
                      rules_.version, registration.version));
    }
    return same_limits(rules_, registration);
  }
  rules_ = registration;
  std::erase_if(models_, [&](const auto& entry) { return !rules_.limits.contains(entry.first); });
  for (const auto& [name, limits] : rules_.limits) models_[name].limits = limits;
  return Done{};
}

LocalFleet::Model* LocalFleet::model(std::string_view name, Instant now) {
  last_ = later_of(last_, now);
  const auto found = models_.find(name);
  if (found == models_.end()) return nullptr;
  Model& model = found->second;
  const Instant minute = window_begin(Dimension::kTokensPerMinute, now);
  const Instant day = window_begin(Dimension::kTokensPerDay, now);
  if (minute > model.minute) model.minute = minute, model.used.minute = {};
  if (day > model.day) model.day = day, model.used.day = {};
  return &model;
}

Allocation LocalFleet::allocation() const {
  Allocation result{.epoch = epoch_, .instance_count = static_cast<std::int64_t>(members_.size())};
  for (const auto& [name, model] : models_) {
    result.pools[name] = make_pool(model.limits, model.used, rules_.average,
                                   std::max<std::int64_t>(1, result.instance_count));
  }
  return result;
}

void LocalFleet::announce(const MemberPtr& member, Instant now, std::vector<Call>& calls) {
  calls.emplace_back(member, [now, allocation = allocation()](CoordinatorListener& listener) {
    listener.allocated(now, allocation);
  });
}

void LocalFleet::announce_all(Instant now, std::vector<Call>& calls) {
  ++epoch_;
  for (const auto& [name, limits] : rules_.limits) model(name, now);
  for (const auto& [number, member] : members_) announce(member, now, calls);
}

void LocalFleet::announce_freed(Model& model, std::string_view name, Instant now,
                                std::vector<Call>& calls) {
  for (const std::uint64_t number : model.refused) {
    const auto found = members_.find(number);
    if (found == members_.end()) continue;
    calls.emplace_back(found->second,
                       [now, name = std::string(name)](CoordinatorListener& listener) {
                         listener.freed(now, name);
                       });
  }
  model.refused.clear();
}

// Calls with the lock released. A member that stops meanwhile is told by the thread that made the
// last call.
void LocalFleet::run(Lock& lock, const std::vector<Call>& calls, Instant now) {
  for (const auto& [member, call] : calls) {
    if (member->is_stopped) continue;
    member->calls += 1;
    lock.unlock();
    call(*member->listener);
    lock.lock();
    member->calls -= 1;
    if (member->calls > 0) continue;
    quiet_.notify_all();
    if (StatusCallback stopped = std::exchange(member->stopped, {})) {
      lock.unlock();
      stopped(now, Done{});
      lock.lock();
    }
  }
}

void LocalFleet::settle(Model& model, const Grant& grant, const Amounts& used) {
  model.in_flight = std::max<std::int64_t>(0, model.in_flight - 1);
  for (const Dimension rate : kRates) {
    const std::int64_t difference = used.of(rate) - grant.estimate.of(rate);
    const bool same =
        window_of(rate) == kMinute ? grant.minute == model.minute : grant.day == model.day;
    if (difference > 0 || same) add(model.used, rate, difference);
  }
}

// --- One instance.

LocalCoordinator::~LocalCoordinator() {
  LocalFleet::Lock lock(fleet_->lock_);
  if (!member_) return;
  const LocalFleet::MemberPtr member = member_;
  if (!member->is_stopped) {
    const Instant now = fleet_->last_;
    lock.unlock();
    stop(now, [](Instant, const Status&) {});
    lock.lock();
  }
  fleet_->quiet_.wait(lock, [&] { return member->calls == 0; });
}

void LocalCoordinator::start(Registration registration, CoordinatorListener& listener, Instant now,
                             StatusCallback started) {
  std::vector<LocalFleet::Call> calls;
  LocalFleet::Lock lock(fleet_->lock_);
  WEIR_ASSERT(!member_);
  Status adopted = fleet_->adopt(registration);
  if (adopted) {
    member_ = std::make_shared<LocalFleet::Member>();
    member_->number = fleet_->next_number_++;
    member_->listener = &listener;
    member_->version = registration.version;
    fleet_->members_[member_->number] = member_;
    calls.emplace_back(member_, [now](CoordinatorListener& told) { told.reachable(now, true); });
    fleet_->announce_all(now, calls);
  }
  fleet_->run(lock, calls, now);
  lock.unlock();
  started(now, std::move(adopted));
}

void LocalCoordinator::stop(Instant now, StatusCallback stopped) {
  std::vector<LocalFleet::Call> calls;
  LocalFleet::Lock lock(fleet_->lock_);
  if (is_member()) {
    member_->is_stopped = true;
    fleet_->members_.erase(member_->number);
    // Its jobs hold no place any more; what they were booked with stays counted.
    for (const auto& [id, grant] : member_->grants) {
      LocalFleet::Model* const model = fleet_->model(grant.model, now);
      if (model == nullptr) continue;
      model->in_flight = std::max<std::int64_t>(0, model->in_flight - 1);
      fleet_->announce_freed(*model, grant.model, now, calls);
    }
    member_->grants.clear();
    if (member_->calls > 0) member_->stopped = std::exchange(stopped, {});
    fleet_->announce_all(now, calls);
    fleet_->run(lock, calls, now);
  }
  lock.unlock();
  if (stopped) stopped(now, Done{});
}

std::variant<LocalFleet::Model*, Refusal> LocalCoordinator::find(std::string_view name,
                                                                 Instant now) {
  if (!is_member()) {
    return refusal(Refused::kStopped, {}, kForever, "stopped: the coordinator is not running");
  }
  if (member_->version < fleet_->rules_.version) {
    return refusal(
        Refused::kMismatch, {}, kForever,
        fmt::format("mismatch: the fleet is at version {}, but this instance at {}; give "
                    "it the fleet's limits",
                    fleet_->rules_.version, member_->version));
  }
  LocalFleet::Model* const model = fleet_->model(name, now);
  if (model == nullptr) {
    return refusal(Refused::kUnknownModel, {}, kForever,
                   fmt::format("unknown_model: there is no model {}", in_quotes(name)));
  }
  return model;
}

Grant LocalCoordinator::make_grant(std::string_view name, LocalFleet::Model& model,
                                   const Amounts& estimate) {
  model.in_flight += 1;
  return {.id = fleet_->next_grant_++,
          .fence = member_->number,
          .model = std::string(name),
          .estimate = estimate,
          .minute = model.minute,
          .day = model.day,
          .used = model.used};
}

Acquired LocalCoordinator::decide(std::string_view name, const Amounts& estimate, Instant now) {
  std::variant<LocalFleet::Model*, Refusal> found = find(name, now);
  if (Refusal* const refused = std::get_if<Refusal>(&found)) return std::move(*refused);
  LocalFleet::Model* const model = std::get<LocalFleet::Model*>(found);
  for (const Dimension rate : kRates) {
    const std::optional<std::int64_t>& limit = model->limits.rates.of(rate);
    const std::int64_t wanted = estimate.of(rate);
    const std::int64_t used = counter_of(model->used, rate);
    // A window that is full admits nothing, whatever the estimate. Neither term exceeds 2^62.
    if (!limit || used + std::max<std::int64_t>(wanted, 1) <= *limit) continue;
    if (wanted > *limit) {
      return refusal(Refused::kNever, rate, kForever,
                     fmt::format("never: model {}: the estimate is {}, but {} is {}",
                                 in_quotes(name), wanted, to_string(rate), *limit));
    }
    model->refused.insert(member_->number);
    const Instant begin = window_of(rate) == kMinute ? model->minute : model->day;
    return refusal(
        Refused::kExhausted, rate, begin + window_of(rate),
        fmt::format("exhausted: model {}: {} of {} {} are used or reserved, and {} wanted",
                    in_quotes(name), used, *limit, to_string(rate), wanted));
  }
  if (model->limits.concurrent && model->in_flight >= *model->limits.concurrent) {
    model->refused.insert(member_->number);
    return refusal(Refused::kBusy, Dimension::kConcurrency, model->minute + kMinute,
                   fmt::format("busy: model {}: {} of {} jobs are in flight", in_quotes(name),
                               model->in_flight, *model->limits.concurrent));
  }
  for (const Dimension rate : kRates) add(model->used, rate, estimate.of(rate));
  Grant granted = make_grant(name, *model, estimate);
  member_->grants.emplace(granted.id, granted);
  return granted;
}

void LocalCoordinator::acquire(std::string_view model, const Amounts& estimate, Instant now,
                               AcquireCallback answered) {
  LocalFleet::Lock lock(fleet_->lock_);
  Acquired answer = decide(model, estimate, now);
  lock.unlock();
  answered(now, std::move(answer));
}

void LocalCoordinator::adopt(std::string_view name, const Amounts& estimate, Instant since,
                             Instant now, AcquireCallback answered) {
  LocalFleet::Lock lock(fleet_->lock_);
  std::variant<LocalFleet::Model*, Refusal> found = find(name, now);
  if (Refusal* const refused = std::get_if<Refusal>(&found)) {
    lock.unlock();
    answered(now, std::move(*refused));
    return;
  }
  LocalFleet::Model& model = *std::get<LocalFleet::Model*>(found);
  Grant granted = make_grant(name, model, estimate);
  granted.minute = window_begin(Dimension::kTokensPerMinute, since);
  granted.day = window_begin(Dimension::kTokensPerDay, since);
  for (const Dimension rate : kRates) {
    const bool is_current =
        window_of(rate) == kMinute ? granted.minute == model.minute : granted.day == model.day;
    if (is_current) add(model.used, rate, estimate.of(rate));
  }
  granted.used = model.used;
  member_->grants.emplace(granted.id, granted);
  lock.unlock();
  answered(now, std::move(granted));
}

void LocalCoordinator::release(const Grant& grant, const Amounts& used, Instant now,
                               ReleaseCallback released) {
  std::vector<LocalFleet::Call> calls;
  LocalFleet::Lock lock(fleet_->lock_);
  Released result = Released::kStopped;
  if (is_member()) {
    const auto held = member_->grants.find(grant.id);
    result = held == member_->grants.end() ? Released::kNotHeld : Released::kSettled;
    if (result == Released::kSettled) {
      // A model that is gone has nothing to settle.
      if (LocalFleet::Model* const model = fleet_->model(held->second.model, now)) {
        LocalFleet::settle(*model, held->second, used);
        fleet_->announce_freed(*model, held->second.model, now, calls);
      }
      member_->grants.erase(held);
      if (fleet_->options_.announces_usage) {
        ++fleet_->epoch_;
        fleet_->announce(member_, now, calls);
      }
    }
  }
  fleet_->run(lock, calls, now);
  lock.unlock();
  released(now, result);
}

void LocalCoordinator::replay(std::string_view model, const Amounts& used, Instant used_at,
                              Instant now, StatusCallback replayed) {
  LocalFleet::Lock lock(fleet_->lock_);
  LocalFleet::Model* const found = is_member() ? fleet_->model(model, now) : nullptr;
  if (found != nullptr) {
    for (const Dimension rate : kRates) {
      const Instant current = window_of(rate) == kMinute ? found->minute : found->day;
      if (window_begin(rate, used_at) == current) add(found->used, rate, used.of(rate));
    }
  }
  lock.unlock();
  replayed(now, Done{});
}

void LocalCoordinator::update(Registration registration, Instant now, StatusCallback updated) {
  std::vector<LocalFleet::Call> calls;
  LocalFleet::Lock lock(fleet_->lock_);
  Status adopted = Error{ErrorCode::kUnavailable, "the coordinator is not running"};
  if (is_member()) {
    adopted = fleet_->adopt(registration);
    if (adopted) {
      member_->version = registration.version;
      fleet_->announce_all(now, calls);
    }
  }
  fleet_->run(lock, calls, now);
  lock.unlock();
  updated(now, std::move(adopted));
}

void LocalCoordinator::report(Instant now, ReportCallback reported) {
  LocalFleet::Lock lock(fleet_->lock_);
  CoordinatorReport report{.kind = "local",
                           .instance = member_ ? fmt::format("local-{}", member_->number) : "",
                           .is_reachable = is_member(),
                           .epoch = fleet_->epoch_,
                           .instance_count = static_cast<std::int64_t>(fleet_->members_.size())};
  for (const auto& [number, member] : fleet_->members_) {
    if (report.instances.size() == kInstancesReportedMax) break;
    report.instances.push_back({.id = fmt::format("local-{}", number),
                                .last_heard = now,
                                .in_flight = static_cast<std::int64_t>(member->grants.size()),
                                .is_own = member == member_});
  }
  for (const auto& [name, limits] : fleet_->rules_.limits) {
    const LocalFleet::Model& model = *fleet_->model(name, now);
    report.models.push_back({name, limits, model.minute, model.day, model.used, model.in_flight});
  }
  lock.unlock();
  reported(now, std::move(report));
}

}  // namespace weir::system::pool
