#include "weir/store/redis/pool/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/scripts.h"
#include "weir/system/pool/allocation_message.h"

namespace weir::store::redis {

using namespace system::pool;

namespace {

constexpr Duration kBeatShare = std::chrono::milliseconds{5};  // of a second, of each instance

// Different for each process, also of one that has the name of another.
std::string random_word() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

// Beyond what the pool system itself demands.
Status validate(const Registration& registration) {
  if (Status valid = validate_registration(registration); !valid) return valid;
  if (registration.version <= static_cast<std::uint64_t>(kExactMax)) return Done{};
  return bad_argument(fmt::format("version is {}, but in Redis it may be {} at most",
                                  registration.version, kExactMax));
}

}  // namespace

void PoolCore::start(const Registration& registration, CoordinatorListener& listener,
                     StatusCallback started) {
  if (Status valid = validate(registration); !valid) return started(now(), std::move(valid));
  WEIR_ASSERT(!client_);
  listener_ = &listener;
  registration_ = registration;
  is_running_ = true;
  alive_ = alive_channel_of(options_.prefix, random_word());
  connect();
  for (const auto& [name, limits] : registration.limits) add_model(name, registration);
  listen();
  enrolling_ = std::make_shared<PoolGathering>(
      models_.size(), [this, started = std::move(started)](Status status) {
        // Limits that differ cannot be cured by trying again.
        const bool is_final = !status && status.error().code == ErrorCode::kBadArgument;
        if (is_final) close();
        started(now(), std::move(status));
      });
  for (const auto& [name, model] : models_) unenrolled_.push_back(model.get());
  for (const auto& [name, model] : models_) model->enrol();
  beat();
}

void PoolCore::add_model(const std::string& name, const Registration& registration) {
  models_[name] = std::make_unique<PoolModel>(
      *this, name,
      PoolRules{registration.limits.at(name), registration.average, registration.version});
}

void PoolCore::connect() {
  ClientOptions options;
  static_cast<LinkOptions&>(options) = options_;
  options.timeout = options_.timeout;
  options.clock = &clock_;
  const PoolScripts& scripts = pool_scripts();
  options.scripts = {&scripts.work,  &scripts.tell,      &scripts.report,
                     &scripts.enrol, &scripts.heartbeat, &scripts.unregister};
  options.on_up = [this] {
    if (options_.on_up) options_.on_up();
    for (const auto& [name, model] : models_) model->enrol();
  };
  options.on_down = [this](const Failure& failure) {
    if (options_.on_down) options_.on_down(failure);
    blame(failure.message);
    announced_.clear();  // who listens may have missed it
    for (const auto& [name, model] : models_) model->on_down();
    set_reachable(false);
  };
  client_ = make_client(loop_, std::move(options));
}

void PoolCore::listen() {
  hears_ = false;
  SubscriberOptions options;
  static_cast<LinkOptions&>(options) = options_;
  for (const auto& [name, model] : models_) options.channels.push_back(model->keys().channel);
  options.channels.push_back(alive_);
  // What was said meanwhile is not known: look, and let all jobs ask again.
  options.on_up = [this] {
    hears_ = true;
    for (const auto& [name, model] : models_) {
      if (model->is_in()) model->heartbeat();
    }
    for (const auto& [name, model] : models_) {
      if (is_running_) listener_->freed(now(), name);
    }
  };
  // Before somebody sees that nobody listens there.
  options.on_down = [this](const Failure&) {
    if (!std::exchange(hears_, false)) return;
    for (const auto& [name, model] : models_) {
      if (model->is_in()) model->heartbeat();
    }
  };
  options.on_message = [this](std::string_view channel, std::string_view news) {
    hear(channel, news);
  };
  subscriber_ = make_subscriber(loop_, std::move(options));
}

void PoolCore::hear(std::string_view channel, std::string_view news) {
  for (const auto& [name, model] : models_) {
    if (model->keys().channel != channel) continue;
    if (news == "fleet") model->look_later();
    if (is_running_) listener_->freed(now(), name);
    return;
  }
}

void PoolCore::beat() {
  heartbeat_.start(beat_distance(), [this] {
    for (const auto& [name, model] : models_) model->heartbeat();
    beat();
  });
}

// In a large fleet less often, so that each model has 200 in a second and not more, but often
// enough for a lease.
Duration PoolCore::beat_distance() const {
  std::int64_t count = 0;
  for (const auto& [name, model] : models_) count = std::max(count, model->totals().count);
  const Duration shared = std::min(count, kInstancesMax) * kBeatShare;
  const Duration most = std::max(options_.heartbeat, options_.instance_timeout / 3);
  return std::clamp(shared, options_.heartbeat, most);
}

void PoolCore::set_reachable(bool is_reachable) {
  if (is_reachable_ == is_reachable || !is_running_) return;
  is_reachable_ = is_reachable;
  listener_->reachable(now(), is_reachable);
}

void PoolCore::blame(std::string why) {
  const std::scoped_lock lock(trouble_lock_);
  trouble_ = std::move(why);
}

void PoolCore::on_enrolled(PoolModel& model, const Status& status) {
  blame(status ? std::string() : status.error().message);
  if (status) {
    set_reachable(true);
  } else if (status.error().code == ErrorCode::kUnavailable) {
    set_reachable(false);
  }
  if (std::erase(unenrolled_, &model) == 0) return;
  const PoolGatheringRef enrolling = enrolling_;
  enrolling->end(status);
}

void PoolCore::on_doubt() {
  Amounts sum;
  for (const auto& [name, model] : models_) {
    sum.tokens = saturate(Wide{sum.tokens} + model->doubtful().tokens);
    sum.requests = saturate(Wide{sum.requests} + model->doubtful().requests);
  }
  uncertain_tokens_.store(sum.tokens, std::memory_order_relaxed);
  uncertain_requests_.store(sum.requests, std::memory_order_relaxed);
}

void PoolCore::on_totals(PoolModel&, bool is_fleet) {
  if (is_fleet) return allocate();
  if (is_allocating_) return;
  is_allocating_ = true;
  allocate_.start(options_.announce_every, [this] { allocate(); });
}

// The instance's share, from the totals of all models.
void PoolCore::allocate() {
  is_allocating_ = false;
  allocate_.stop();
  if (!is_running_) return;
  Allocation allocation;
  for (const auto& [name, model] : models_) {
    const PoolTotals& totals = model->totals();
    if (totals.count == 0) continue;  // not known yet
    // Each only grows, so the sum does.
    allocation.epoch += static_cast<std::uint64_t>(totals.epoch);
    allocation.instance_count = std::max(allocation.instance_count, totals.count);
    allocation.pools[name] = make_pool(model->rules().limits, totals.used, model->rules().average,
                                       std::min(totals.count, kInstancesMax));
  }
  // A model that left takes its epoch along.
  epoch_ = std::max(epoch_, allocation.epoch);
  allocation.epoch = epoch_;
  if (options_.announce == Announce::kFull) announce(allocation);
  listener_->allocated(now(), allocation);
}

// Tells others, if it is news. An instance joins and leaves model by model: until the models agree
// on how many there are, or do not for a whole lease, nothing is told.
void PoolCore::announce(const Allocation& allocation) {
  const bool is_even = std::ranges::all_of(models_, [&](const auto& entry) {
    return entry.second->totals().count == allocation.instance_count;
  });
  if (is_even) {
    uneven_since_ = kForever;
  } else {
    uneven_since_ = earlier_of(uneven_since_, now());
    if (now() - uneven_since_ < options_.instance_timeout) return;
  }
  std::string message = allocation_message(options_.instance, allocation);
  if (message == announced_) return;
  const std::string channel = allocations_channel(options_.prefix);
  const std::array<std::string_view, 3> words = {"PUBLISH", channel, message};
  client_->send(words, [](const Answer&) {});
  announced_ = std::move(message);
}

PoolModel* PoolCore::find(std::string_view model) {
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : found->second.get();
}

void PoolCore::acquire(std::string_view model, const Amounts& estimate, AcquireCallback answered) {
  const auto refuse = [&](Refused reason, std::string message) {
    answered(now(), Refusal{reason, Dimension::kConcurrency, kForever, std::move(message)});
  };
  if (!is_running_) return refuse(Refused::kStopped, "stopped: the coordinator is not running");
  PoolModel* const found = find(model);
  if (found == nullptr) {
    return refuse(Refused::kUnknownModel,
                  fmt::format("unknown_model: there is no model {}", in_quotes(model)));
  }
  found->acquire(estimate, std::move(answered));
}

void PoolCore::adopt(const std::string& model, const Amounts& estimate, Instant since,
                     AcquireCallback answered) {
  PoolModel* const found = is_running_ ? find(model) : nullptr;
  if (found == nullptr) return acquire(model, estimate, std::move(answered));
  found->adopt(estimate, since, std::move(answered));
}

void PoolCore::release(const Grant& grant, const Amounts& used, ReleaseCallback released) {
  if (!is_running_) return released(now(), Released::kStopped);
  PoolModel* const found = find(grant.model);
  if (found == nullptr) return released(now(), Released::kNotHeld);
  found->release(grant, used, std::move(released));
}

void PoolCore::replay(const std::string& model, const Amounts& used, Instant used_at,
                      const StatusCallback& replayed) {
  PoolModel* const found = is_running_ ? find(model) : nullptr;
  if (found == nullptr) {
    return replayed(
        now(), Error{ErrorCode::kNotFound, fmt::format("there is no model {}", in_quotes(model))});
  }
  found->replay(used, used_at, replayed);
}

void PoolCore::update(const Registration& registration, StatusCallback updated) {
  if (!is_running_) {
    return updated(now(), Error{ErrorCode::kUnavailable, "the coordinator is not running"});
  }
  if (Status valid = validate(registration); !valid) return updated(now(), std::move(valid));
  if (!unenrolled_.empty()) {
    return updated(now(), Error{ErrorCode::kUnavailable,
                                "the instance is still registering what it was given before"});
  }
  const Registration before = std::exchange(registration_, registration);
  enrolling_ = std::make_shared<PoolGathering>(
      registration.limits.size(), [this, before, updated = std::move(updated)](Status status) {
        if (!status) registration_ = before;
        drop_strangers();
        // An error changes nothing: what has the new limits already goes back.
        if (!status) apply_registration();
        updated(now(), std::move(status));
      });
  bool has_new = false;
  for (const auto& [name, limits] : registration.limits) {
    if (find(name) != nullptr) continue;
    add_model(name, registration);
    has_new = true;
  }
  if (has_new) listen();
  for (const auto& [name, limits] : registration.limits) unenrolled_.push_back(find(name));
  apply_registration();
}

void PoolCore::apply_registration() {
  // A copy: a Redis that is away may end the update, and bring the former one back, at once.
  const Registration registration = registration_;
  for (const auto& [name, limits] : registration.limits) {
    if (PoolModel* const model = find(name)) {
      model->change({limits, registration.average, registration.version});
    }
  }
}

// Models that are not in the registration.
void PoolCore::drop_strangers() {
  for (auto at = models_.begin(); at != models_.end();) {
    if (registration_.limits.contains(at->first)) {
      ++at;
      continue;
    }
    at->second->unregister([](const Status&) {});
    at->second->close();
    former_.push_back(std::move(at->second));
    at = models_.erase(at);
  }
}

void PoolCore::report(ReportCallback reported) {
  if (!is_running_) {
    return reported(now(), Error{ErrorCode::kUnavailable, "the coordinator is not running"});
  }
  auto report = std::make_shared<CoordinatorReport>();
  report->kind = "redis";
  report->instance = options_.instance;
  report->is_reachable = is_reachable_.value_or(false);
  report->epoch = epoch_;
  auto gathering = std::make_shared<PoolGathering>(
      models_.size(), [this, report, reported = std::move(reported)](const Status& status) {
        if (!status) return reported(now(), status.error());
        reported(now(), std::move(*report));
      });
  for (const auto& [name, model] : models_) {
    const std::string numbers =
        packed(model->marker(), us_of(options_.minute), us_of(options_.day), kInstancesReportedMax);
    const std::array<std::string_view, 2> keys = {model->keys().books, model->keys().leases};
    const std::array<std::string_view, 1> arguments = {numbers};
    client_->call(pool_scripts().report, keys, arguments,
                  [this, report, gathering, model = model.get()](const Answer& answer) {
                    if (!answer.ok()) return gathering->end(to_error(answer.failure()));
                    add_to_report(*report, model->name(), model->rules().limits, options_,
                                  answer.reply());
                    gathering->end(Done{});
                  });
  }
}

void PoolCore::stop(StatusCallback stopped) {
  if (!is_running_) return stopped(now(), Done{});
  is_running_ = false;
  heartbeat_.stop();
  allocate_.stop();
  auto gathering = std::make_shared<PoolGathering>(
      models_.size(), [self = shared_from_this(), stopped = std::move(stopped)](Status status) {
        // Not on the stack of a callback of the client that is about to go.
        self->loop_.post([self, stopped, status = std::move(status)] {
          self->close();
          stopped(self->now(), status);
        });
      });
  for (const auto& [name, model] : models_) {
    model->unregister([gathering](const Status& status) { gathering->end(status); });
  }
}

void PoolCore::close() {
  is_running_ = false;
  heartbeat_.stop();
  allocate_.stop();
  for (const auto& [name, model] : models_) model->close();
  if (subscriber_) subscriber_->close();
  if (client_) client_->close();
}

}  // namespace weir::store::redis
