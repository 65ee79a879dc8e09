// The pools of a server: an engine of their own for jobs, behind this object.
//
// With a Redis, the instance registers there before the server listens: limits that differ
// from the fleet's are refused by name, and a Redis that cannot be reached is tried again and
// again while the outage policy decides.
//
// 1. Pools are made by start() and stay: a file that begins or ends with them needs a restart.
// 2. A change of theirs is agree(): the fleet may refuse it, so it is the last step that may fail.

#include <fmt/format.h>

#include <cmath>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <utility>

#include "weir/base/timed_wait.h"
#include "weir/server/systems.h"
#include "weir/store/redis/link/loop.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/local_coordinator.h"
#include "weir/system/pool/outage.h"
#include "weir/wire/http/pool_routes.h"
#include "weir/wire/resp/pool_commands.h"

namespace weir::server {
namespace {

namespace pool = system::pool;

// A coordinator answers within its own time-out; this is for one that breaks its word.
constexpr auto kAnswerMax = std::chrono::seconds{10};

std::uint64_t random_owner() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

// Waits for the status that `begin` is to call back with.
template <typename Begin>
Status answer_to(Begin begin, Clock& clock) {
  struct Shared {
    std::mutex lock;
    std::condition_variable told;
    std::optional<Status> status;
  };
  const auto shared = std::make_shared<Shared>();
  begin([shared](Instant, const Status& status) {
    const std::scoped_lock lock(shared->lock);
    shared->status = status;
    shared->told.notify_all();
  });
  std::unique_lock lock(shared->lock);
  if (!wait_by(shared->told, lock, clock, clock.now() + kAnswerMax,
               [&] { return shared->status.has_value(); })) {
    return Error{ErrorCode::kUnavailable, "the coordinator of the pools does not answer"};
  }
  return std::move(*shared->status);
}

constexpr MetricRow kPoolMetrics[] = {
    {"weir_pool_jobs", "gauge", "state", "Jobs of the pools that wait or run."},
    {"weir_pool_jobs_total", "counter", "outcome",
     "Jobs so far: submitted, refused, withdrawn by their clients, or expired because "
     "they were not ended in time."},
    {"weir_pool_starts_total", "counter", "model", "Jobs that were started."},
    {"weir_pool_ends_total", "counter", "model, outcome",
     "How they ended: finished, failed, or delegated to the next model."},
    {"weir_pool_refusals_total", "counter", "model", "Refusals by the coordinator."},
    {"weir_pool_tokens_total", "counter", "model", "Tokens that jobs used."},
    {"weir_pool_requests_total", "counter", "model", "Requests that jobs made."},
    {"weir_pool_cost_dollars_total", "counter", "model", "What that cost."},
    {"weir_pool_in_flight", "gauge", "model", "Jobs that run here."},
    {"weir_pool_waiting", "gauge", "model", "Jobs that wait for the model here."},
    {"weir_pool_slots", "gauge", "model", "Jobs of average size that this instance's share holds."},
    {"weir_pool_type_ratio", "gauge", "type", "Share of a job type."},
    {"weir_pool_type_slots", "gauge", "type", "Jobs it may have at once."},
    {"weir_pool_type_in_flight", "gauge", "type",
     "Jobs of it that run; by the published rules those that wait for a model, too."},
    {"weir_pool_adjustments_total", "counter", "", "Times shares were adjusted."},
    {"weir_pool_instances", "gauge", "", "Instances that share the limits."},
    {"weir_pool_reachable", "gauge", "", "Whether the coordinator answers: 1 or 0."},
    {"weir_pool_outage_jobs_total", "counter", "outcome",
     "Jobs while Redis could not be asked: admitted or refused."},
    {"weir_pool_outage_unsent", "gauge", "",
     "Usage and ends of jobs that Redis has not been told yet."},
    {"weir_pool_uncertain", "gauge", "unit",
     "Tokens and requests of this day that Redis may have booked for jobs that were never started "
     "here, because its answers did not come. They are given back as soon as it tells."},
};

std::uint64_t count_of(std::int64_t number) { return static_cast<std::uint64_t>(number); }

void write_models(MetricsText& out, std::string_view name, const system::pool::Reading& reading,
                  std::uint64_t (*count)(const system::pool::ModelReading&)) {
  out.begin(name);
  for (const auto& model : reading.models) out.value("model", model.name, count(model));
}

// Dollars and ratios to millionths, to the nearest.
std::int64_t micro_of(double number) { return std::llround(number * 1e6); }

void write_pool(MetricsText& out, const system::pool::Reading& reading,
                const std::optional<system::pool::OutageReading>& outage,
                const system::pool::Amounts& uncertain) {
  using system::pool::ModelReading;
  using system::pool::TypeReading;
  std::int64_t running = 0;
  std::uint64_t expired = 0;
  for (const ModelReading& model : reading.models) {
    running += model.in_flight;
    expired += model.tally.expired;
  }
  out.begin("weir_pool_jobs");
  out.value("state", "waiting", reading.waiting);
  out.value("state", "running", count_of(running));
  out.begin("weir_pool_jobs_total");
  out.value("outcome", "submitted", reading.tally.submitted);
  out.value("outcome", "refused", reading.tally.refused);
  out.value("outcome", "withdrawn", reading.tally.withdrawn);
  out.value("outcome", "expired", expired);
  write_models(out, "weir_pool_starts_total", reading,
               [](const ModelReading& model) { return model.tally.started; });
  out.begin("weir_pool_ends_total");
  for (const ModelReading& model : reading.models) {
    out.value("model", model.name, "outcome", "finished", model.tally.finished);
    out.value("model", model.name, "outcome", "failed", model.tally.failed);
    out.value("model", model.name, "outcome", "delegated", model.tally.delegated);
  }
  write_models(out, "weir_pool_refusals_total", reading,
               [](const ModelReading& model) { return model.tally.refused; });
  write_models(out, "weir_pool_tokens_total", reading,
               [](const ModelReading& model) { return model.tally.tokens; });
  write_models(out, "weir_pool_requests_total", reading,
               [](const ModelReading& model) { return model.tally.requests; });
  out.begin("weir_pool_cost_dollars_total");
  for (const ModelReading& model : reading.models) {
    out.micro_value("model", model.name, micro_of(model.tally.cost));
  }
  write_models(out, "weir_pool_in_flight", reading,
               [](const ModelReading& model) { return count_of(model.in_flight); });
  write_models(out, "weir_pool_waiting", reading,
               [](const ModelReading& model) { return count_of(model.waiting); });
  write_models(out, "weir_pool_slots", reading, [](const ModelReading& model) {
    return count_of(model.pool ? model.pool->total_slots : 0);
  });
  out.begin("weir_pool_type_ratio");
  for (const TypeReading& type : reading.types) {
    out.micro_value("type", type.name, micro_of(type.ratio));
  }
  out.begin("weir_pool_type_slots");
  for (const TypeReading& type : reading.types) out.value("type", type.name, count_of(type.slots));
  out.begin("weir_pool_type_in_flight");
  for (const TypeReading& type : reading.types) {
    out.value("type", type.name, count_of(type.in_flight));
  }
  out.begin("weir_pool_adjustments_total");
  out.value(reading.tally.adjustments);
  out.begin("weir_pool_instances");
  out.value(count_of(reading.allocation.instance_count));
  out.begin("weir_pool_reachable");
  out.value(reading.is_reachable ? 1 : 0);
  if (!outage) return;
  out.begin("weir_pool_outage_jobs_total");
  out.value("outcome", "admitted", outage->admitted);
  out.value("outcome", "refused", outage->refused);
  out.begin("weir_pool_outage_unsent");
  out.value(outage->unsent);
  out.begin("weir_pool_uncertain");
  out.value("unit", "tokens", count_of(uncertain.tokens));
  out.value("unit", "requests", count_of(uncertain.requests));
}

class PoolSystem final : public System {
 public:
  explicit PoolSystem(const SystemGround& ground) : clock_(ground.clock) {}

  std::string_view name() const noexcept override { return "pools"; }

  Status check(const config::Config& next) override {
    next_ = next.pools;
    return Done{};
  }
  Status agree() override {
    const bool changes =
        settings_ && next_ && *settings_ != *next_ && can_change(*settings_, *next_);
    if (!changes) return Done{};
    if (Status status = change_pools(*next_); !status) return status;
    settings_ = next_;
    return Done{};
  }
  void change(Instant /*now*/) noexcept override {}

  Status start() override {
    if (!next_) return Done{};
    settings_ = next_;
    Result<std::unique_ptr<pool::Coordinator>> coordinator = make_coordinator(*settings_);
    if (!coordinator) return std::move(coordinator).error();
    Result<std::unique_ptr<pool::Pools>> pools =
        pool::Pools::create(settings_->settings, std::move(*coordinator));
    if (!pools) return std::move(pools).error();
    jobs_ = std::make_unique<pool::HeldJobs>(std::move(*pools), settings_->hold, random_owner());
    const Status started = answer_to(
        [&](pool::StatusCallback told) { jobs_->pools().start(clock_.now(), std::move(told)); },
        clock_);
    if (!started && started.error().code != ErrorCode::kUnavailable) {
      return bad_argument(fmt::format("pools: {}", started.error().message));
    }
    return Done{};
  }
  void tick(Instant now) override {
    if (jobs_ != nullptr) jobs_->pools().advance(now);
  }
  Instant next_instant() const noexcept override {
    return jobs_ == nullptr ? kForever : jobs_->pools().next_instant();
  }
  void set_wakeup(std::function<void(Instant)> hook) override {
    if (jobs_ != nullptr) jobs_->pools().set_wakeup(std::move(hook));
  }
  // Refuses the jobs that wait, and unregisters. Afterwards nothing is called back.
  Status stop() override {
    if (jobs_ == nullptr || std::exchange(is_stopped_, true)) return Done{};
    // Whether it could unregister changes nothing here: its lease ends.
    static_cast<void>(
        answer_to(
            [&](pool::StatusCallback told) { jobs_->pools().stop(clock_.now(), std::move(told)); },
            clock_)
            .ok());
    return Done{};
  }
  ~PoolSystem() override { static_cast<void>(PoolSystem::stop().ok()); }

  std::string trouble() const override {
    if (jobs_ == nullptr || address_.empty() || jobs_->pools().is_reachable()) return {};
    const std::string why = jobs_->pools().why_unreachable();
    return fmt::format("{} cannot be asked for the limits of the pools{}", address_,
                       why.empty() ? "; check that it runs there" : ": " + why);
  }
  std::string obstruction() const override {
    const bool denies = outage_ != nullptr && settings_->redis->outage == pool::OutagePolicy::kDeny;
    return denies ? trouble() : std::string();
  }
  std::span<const MetricRow> metric_rows() const noexcept override { return kPoolMetrics; }
  void write_metrics(MetricsText& out, Instant now) const override {
    if (jobs_ == nullptr) return;
    write_pool(out, jobs_->pools().reading(now),
               outage_ == nullptr ? std::nullopt : std::optional(outage_->reading()),
               outage_ == nullptr ? pool::Amounts{} : outage_->uncertain());
  }
  const wire::http::RouteTable* routes() const noexcept override { return &routes_; }
  const wire::resp::CommandTable* commands() const noexcept override { return &commands_; }

 private:
  Result<std::unique_ptr<pool::Coordinator>> make_coordinator(
      const config::PoolSettings& settings) {
    if (!settings.redis) {
      const bool is_strict = settings.settings.rule == pool::CountRule::kStrict;
      return std::unique_ptr<pool::Coordinator>(
          std::make_unique<pool::LocalCoordinator>(std::make_shared<pool::LocalFleet>(
              pool::LocalFleet::Options{.announces_usage = !is_strict})));
    }
    address_ = describe(settings.redis->address);
    loop_ = std::make_unique<store::redis::Loop>();
    Result<std::unique_ptr<pool::Coordinator>> redis = store::redis::make_pool_coordinator(
        *loop_, clock_, config::pool_coordinator_options(*settings.redis));
    if (!redis) return std::move(redis).error();
    auto outage =
        std::make_unique<pool::OutageCoordinator>(std::move(*redis), settings.redis->outage);
    outage_ = outage.get();
    return std::unique_ptr<pool::Coordinator>(std::move(outage));
  }

  // Jobs go on. An error (the fleet has other limits, the version is too low) changes nothing.
  Status change_pools(const config::PoolSettings& settings) {
    pool::PoolsSettings next = settings.settings;
    const pool::PoolsSettings now = jobs_->pools().settings();
    if (address_.empty()) {
      // Alone there is no fleet to agree with on a version.
      next.version = now.version;
      if (registration_of(next) != registration_of(now)) next.version += 1;
    }
    Status changed = answer_to(
        [&](pool::StatusCallback told) {
          jobs_->pools().change(std::move(next), clock_.now(), std::move(told));
        },
        clock_);
    if (!changed) {
      return Error{changed.error().code, fmt::format("pools: {}", changed.error().message)};
    }
    jobs_->change(settings.hold);
    return Done{};
  }

  Clock& clock_;
  std::optional<config::PoolSettings> settings_;  // in force; none: there are no pools
  std::optional<config::PoolSettings> next_;      // as checked
  std::unique_ptr<store::redis::Loop> loop_;      // outlives what speaks over it
  const pool::OutageCoordinator* outage_ = nullptr;
  std::string address_;                   // of the Redis; empty: none
  std::unique_ptr<pool::HeldJobs> jobs_;  // made by start(), and stays
  bool is_stopped_ = false;
  const wire::http::PoolRoutes routes_ = wire::http::pool_routes([this] { return jobs_.get(); });
  const wire::resp::PoolCommandTable commands_ =
      wire::resp::pool_commands([this] { return jobs_.get(); });
};

}  // namespace

std::unique_ptr<System> make_pool_system(const SystemGround& ground) {
  return std::make_unique<PoolSystem>(ground);
}

}  // namespace weir::server
