#include "weir/store/redis/pool_coordinator.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool_model.h"
#include "weir/store/redis/pool_scripts.h"
#include "weir/store/redis/subscriber.h"
#include "weir/system/pool/allocation_message.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

// Beyond what the pool system itself demands.
Status validate(const Registration& registration) {
  if (Status valid = validate_registration(registration); !valid) return valid;
  if (registration.version <= static_cast<std::uint64_t>(kExactMax)) return Done{};
  return bad_argument(fmt::format("version is {}, but in Redis it may be {} at most",
                                  registration.version, kExactMax));
}

// Gathers the ends of several things, and goes on when the last has come.
class Gathering {
 public:
  Gathering(std::size_t count, std::function<void(Status)> done)
      : left_(count), done_(std::move(done)) {}

  void end(const Status& status) {
    if (status_ && !status) status_ = status;
    if (--left_ == 0) done_(std::move(status_));
  }

 private:
  std::size_t left_;
  std::function<void(Status)> done_;
  Status status_ = Done{};
};
using GatheringRef = std::shared_ptr<Gathering>;

// What lives on the loop's thread.
class Core final : public PoolHost, public std::enable_shared_from_this<Core> {
 public:
  Core(Loop& loop, Clock& clock, PoolCoordinatorOptions options)
      : loop_(loop),
        clock_(clock),
        options_(std::move(options)),
        heartbeat_(loop),
        allocate_(loop) {}

  void start(Registration registration, CoordinatorListener& listener, StatusCallback started);
  void stop(StatusCallback stopped);
  void close();
  void acquire(std::string_view model, const Amounts& estimate, AcquireCallback answered);
  void release(const Grant& grant, const Amounts& used, ReleaseCallback released);
  void replay(const std::string& model, const Amounts& used, Instant used_at,
              StatusCallback replayed);
  void update(const Registration& registration, StatusCallback updated);
  void report(ReportCallback reported);

  Loop& loop() override { return loop_; }
  Instant now() override { return clock_.now(); }
  Client& client() override { return *client_; }
  const PoolCoordinatorOptions& options() const override { return options_; }
  std::uint64_t next_grant() override { return ++last_grant_; }
  void post(std::function<void()> work) override {
    loop_.post([self = shared_from_this(), work = std::move(work)] { work(); });
  }
  void on_enrolled(PoolModel& model, const Status& status) override;
  void on_totals(PoolModel& model, bool is_fleet) override;

 private:
  void connect();
  void listen();
  void beat();
  void hear(std::string_view channel, std::string_view news);
  void set_reachable(bool is_reachable);
  void allocate();
  void add_model(const std::string& name, const Registration& registration);
  PoolModel* find(std::string_view model);
  void add_report(CoordinatorReport& report, const PoolModel& model, const Reply& reply) const;

  Loop& loop_;
  Clock& clock_;
  PoolCoordinatorOptions options_;
  CoordinatorListener* listener_ = nullptr;
  bool is_running_ = false;
  std::optional<bool> is_reachable_;
  std::uint64_t last_grant_ = 0;
  std::uint64_t epoch_ = 0;
  std::map<std::string, std::unique_ptr<PoolModel>, std::less<>> models_;
  std::vector<std::unique_ptr<PoolModel>> former_;  // not in the registration any more
  std::unique_ptr<Client> client_;
  std::unique_ptr<Subscriber> subscriber_;
  Timer heartbeat_;
  Timer allocate_;
  bool is_allocating_ = false;
  // Ends when each of these has been registered or refused.
  GatheringRef enrolling_;
  std::vector<const PoolModel*> unenrolled_;
};

void Core::start(Registration registration, CoordinatorListener& listener, StatusCallback started) {
  if (const Status valid = validate(registration); !valid) {
    return started(now(), valid);
  }
  WEIR_ASSERT(!client_);
  listener_ = &listener;
  is_running_ = true;
  connect();
  for (const auto& [name, limits] : registration.limits) add_model(name, registration);
  listen();
  enrolling_ = std::make_shared<Gathering>(
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

void Core::add_model(const std::string& name, const Registration& registration) {
  models_[name] = std::make_unique<PoolModel>(
      *this, name,
      PoolRules{registration.limits.at(name), registration.average, registration.version});
}

void Core::connect() {
  ClientOptions options;
  static_cast<LinkOptions&>(options) = options_;
  options.timeout = options_.timeout;
  const PoolScripts& scripts = pool_scripts();
  options.scripts = {&scripts.work,      &scripts.tell,   &scripts.replay,    &scripts.enrol,
                     &scripts.heartbeat, &scripts.report, &scripts.unregister};
  options.on_up = [this] {
    if (options_.on_up) options_.on_up();
    for (const auto& [name, model] : models_) model->enrol();
  };
  options.on_down = [this](const Failure& failure) {
    if (options_.on_down) options_.on_down(failure);
    for (const auto& [name, model] : models_) model->on_down();
    set_reachable(false);
  };
  client_ = make_client(loop_, std::move(options));
}

void Core::listen() {
  SubscriberOptions options;
  static_cast<LinkOptions&>(options) = options_;
  for (const auto& [name, model] : models_) options.channels.push_back(model->keys().channel);
  // What was said meanwhile is not known: look, and let everybody ask again.
  options.on_up = [this] {
    for (const auto& [name, model] : models_) {
      if (model->is_in()) model->heartbeat();
    }
    for (const auto& [name, model] : models_) {
      if (is_running_) listener_->freed(now(), name);
    }
  };
  options.on_down = nullptr;
  options.on_message = [this](std::string_view channel, std::string_view news) {
    hear(channel, news);
  };
  subscriber_ = make_subscriber(loop_, std::move(options));
}

void Core::hear(std::string_view channel, std::string_view news) {
  for (const auto& [name, model] : models_) {
    if (model->keys().channel != channel) continue;
    if (news == "fleet" && model->is_in()) model->heartbeat();
    if (is_running_) listener_->freed(now(), name);
    return;
  }
}

void Core::beat() {
  heartbeat_.start(options_.heartbeat, [this] {
    for (const auto& [name, model] : models_) model->heartbeat();
    beat();
  });
}

void Core::set_reachable(bool is_reachable) {
  if (is_reachable_ == is_reachable || !is_running_) return;
  is_reachable_ = is_reachable;
  listener_->reachable(now(), is_reachable);
}

void Core::on_enrolled(PoolModel& model, const Status& status) {
  if (status) {
    set_reachable(true);
  } else if (status.error().code == ErrorCode::kUnavailable) {
    set_reachable(false);
  }
  if (std::erase(unenrolled_, &model) == 0) return;
  const GatheringRef enrolling = enrolling_;
  enrolling->end(status);
}

void Core::on_totals(PoolModel&, bool is_fleet) {
  if (is_fleet) return allocate();
  if (is_allocating_) return;
  is_allocating_ = true;
  allocate_.start(options_.announce_every, [this] { allocate(); });
}

// The instance's share, from the totals of all models.
void Core::allocate() {
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
  if (options_.announce == Announce::kFull) {
    const std::string channel = allocations_channel(options_.prefix);
    const std::string message = allocation_message(options_.instance, allocation);
    const std::array<std::string_view, 3> words = {"PUBLISH", channel, message};
    client_->send(words, [](const Answer&) {});
  }
  listener_->allocated(now(), allocation);
}

PoolModel* Core::find(std::string_view model) {
  const auto found = models_.find(model);
  return found == models_.end() ? nullptr : found->second.get();
}

void Core::acquire(std::string_view model, const Amounts& estimate, AcquireCallback answered) {
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

void Core::release(const Grant& grant, const Amounts& used, ReleaseCallback released) {
  if (!is_running_) return released(now(), Released::kStopped);
  PoolModel* const found = find(grant.model);
  if (found == nullptr) return released(now(), Released::kNotHeld);
  found->release(grant, used, std::move(released));
}

void Core::replay(const std::string& model, const Amounts& used, Instant used_at,
                  StatusCallback replayed) {
  PoolModel* const found = is_running_ ? find(model) : nullptr;
  if (found == nullptr) {
    return replayed(
        now(), Error{ErrorCode::kNotFound, fmt::format("there is no model {}", in_quotes(model))});
  }
  found->replay(used, used_at, std::move(replayed));
}

void Core::update(const Registration& registration, StatusCallback updated) {
  if (!is_running_) {
    return updated(now(), Error{ErrorCode::kUnavailable, "the coordinator is not running"});
  }
  if (const Status valid = validate(registration); !valid) {
    return updated(now(), valid);
  }
  if (!unenrolled_.empty()) {
    return updated(now(), Error{ErrorCode::kUnavailable,
                                "the instance is still registering what it was given before"});
  }
  for (auto at = models_.begin(); at != models_.end();) {
    if (registration.limits.contains(at->first)) {
      ++at;
      continue;
    }
    at->second->unregister([](const Status&) {});
    at->second->close();
    former_.push_back(std::move(at->second));
    at = models_.erase(at);
  }
  enrolling_ = std::make_shared<Gathering>(
      registration.limits.size(),
      [this, updated = std::move(updated)](Status status) { updated(now(), std::move(status)); });
  bool has_new = false;
  for (const auto& [name, limits] : registration.limits) {
    if (find(name) != nullptr) continue;
    add_model(name, registration);
    has_new = true;
  }
  if (has_new) listen();
  for (const auto& [name, model] : models_) unenrolled_.push_back(model.get());
  for (const auto& [name, model] : models_) {
    model->change({registration.limits.at(name), registration.average, registration.version});
  }
}

void Core::report(ReportCallback reported) {
  if (!is_running_) {
    return reported(now(), Error{ErrorCode::kUnavailable, "the coordinator is not running"});
  }
  auto report = std::make_shared<CoordinatorReport>();
  report->kind = "redis";
  report->instance = options_.instance;
  report->is_reachable = is_reachable_.value_or(false);
  report->epoch = epoch_;
  auto gathering = std::make_shared<Gathering>(
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
                    add_report(*report, *model, answer.reply());
                    gathering->end(Done{});
                  });
  }
}

void Core::add_report(CoordinatorReport& report, const PoolModel& model, const Reply& reply) const {
  const auto totals = read_reply(reply).totals();
  if (!totals) return;
  report.instance_count = std::max(report.instance_count, totals->count);
  report.models.push_back({.model = model.name(),
                           .limits = model.rules().limits,
                           .minute = instant_of_us(totals->minute_us),
                           .day = instant_of_us(totals->day_us),
                           .used = totals->used,
                           .in_flight = totals->in_flight});
  for (std::size_t i = 1; i < reply.size(); ++i) {
    const Reply row = reply.at(i);
    const std::string id(row.at(0).text().value_or("?"));
    auto same = std::find_if(report.instances.begin(), report.instances.end(),
                             [&](const InstanceReport& known) { return known.id == id; });
    if (same == report.instances.end()) {
      if (report.instances.size() == kInstancesReportedMax) continue;
      report.instances.push_back({.id = id, .is_own = id == options_.instance});
      same = report.instances.end() - 1;
    }
    const std::int64_t lease_us = row.at(2).number().value_or(0);
    same->last_heard =
        later_of(same->last_heard, instant_of_us(lease_us) - options_.instance_timeout);
    same->in_flight += row.at(1).number().value_or(0);
  }
}

void Core::stop(StatusCallback stopped) {
  if (!is_running_) return stopped(now(), Done{});
  is_running_ = false;
  heartbeat_.stop();
  allocate_.stop();
  auto gathering = std::make_shared<Gathering>(
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

void Core::close() {
  is_running_ = false;
  heartbeat_.stop();
  allocate_.stop();
  for (const auto& [name, model] : models_) model->close();
  if (subscriber_) subscriber_->close();
  if (client_) client_->close();
}

class RedisCoordinator final : public Coordinator {
 public:
  RedisCoordinator(Loop& loop, Clock& clock, PoolCoordinatorOptions options)
      : loop_(loop), core_(std::make_shared<Core>(loop, clock, std::move(options))) {}
  ~RedisCoordinator() override {
    loop_.run([this] { core_->close(); });
  }

  void start(Registration registration, CoordinatorListener& listener, Instant,
             StatusCallback started) override {
    post([registration = std::move(registration), &listener,
          started = std::move(started)](Core& core) mutable {
      core.start(std::move(registration), listener, std::move(started));
    });
  }
  void stop(Instant, StatusCallback stopped) override {
    post([stopped = std::move(stopped)](Core& core) mutable { core.stop(std::move(stopped)); });
  }
  void acquire(std::string_view model, const Amounts& estimate, Instant,
               AcquireCallback answered) override {
    if (loop_.is_here()) return core_->acquire(model, estimate, std::move(answered));
    post([model = std::string(model), estimate, answered = std::move(answered)](
             Core& core) mutable { core.acquire(model, estimate, std::move(answered)); });
  }
  void release(const Grant& grant, const Amounts& used, Instant,
               ReleaseCallback released) override {
    if (loop_.is_here()) return core_->release(grant, used, std::move(released));
    post([grant, used, released = std::move(released)](Core& core) mutable {
      core.release(grant, used, std::move(released));
    });
  }
  void replay(std::string_view model, const Amounts& used, Instant used_at, Instant,
              StatusCallback replayed) override {
    post([model = std::string(model), used, used_at, replayed = std::move(replayed)](
             Core& core) mutable { core.replay(model, used, used_at, std::move(replayed)); });
  }
  void update(Registration registration, Instant, StatusCallback updated) override {
    post([registration = std::move(registration), updated = std::move(updated)](
             Core& core) mutable { core.update(registration, std::move(updated)); });
  }
  void report(Instant, ReportCallback reported) override {
    post(
        [reported = std::move(reported)](Core& core) mutable { core.report(std::move(reported)); });
  }

 private:
  template <typename Work>
  void post(Work work) {
    loop_.post([core = core_, work = std::move(work)]() mutable { work(*core); });
  }

  Loop& loop_;
  std::shared_ptr<Core> core_;
};

std::string made_up_instance() {
  std::random_device random;
  return fmt::format("weir-{:08x}{:08x}", random(), random());
}

}  // namespace

Status validate_options(const PoolCoordinatorOptions& options) {
  const auto mistake = [](std::string_view what) {
    return bad_argument(fmt::format("Redis coordinator: {}", what));
  };
  if (options.prefix.empty() || options.prefix.size() > kPrefixBytesMax ||
      options.prefix.find_first_of("{}") != std::string::npos) {
    return mistake(fmt::format("prefix {} must have 1 to {} bytes and no braces",
                               in_quotes(options.prefix), kPrefixBytesMax));
  }
  if (!options.instance.empty()) {
    if (const Status valid = validate_name("instance", options.instance); !valid) return valid;
  }
  if (options.timeout <= Duration{0}) return mistake("timeout must be longer than 0");
  if (options.heartbeat < std::chrono::milliseconds{1}) {
    return mistake("heartbeat must be at least 1ms");
  }
  if (options.instance_timeout < 2 * options.heartbeat) {
    return mistake("instance_timeout must be at least twice heartbeat, or a late one is fatal");
  }
  if (options.minute < std::chrono::milliseconds{1} || options.day < options.minute ||
      options.day > std::chrono::hours{24 * 366}) {
    return mistake(
        "windows must be at least 1ms long, and the day's at least as long as the "
        "minute's and at most 366 days");
  }
  return Done{};
}

Result<std::unique_ptr<Coordinator>> make_pool_coordinator(Loop& loop, Clock& clock,
                                                           PoolCoordinatorOptions options) {
  if (options.instance.empty()) options.instance = made_up_instance();
  if (const Status valid = validate_options(options); !valid) return valid.error();
  return std::unique_ptr<Coordinator>(
      std::make_unique<RedisCoordinator>(loop, clock, std::move(options)));
}

}  // namespace weir::store::redis
