#include "weir/server/pool.h"

#include <fmt/format.h>

#include <condition_variable>
#include <random>
#include <utility>

#include "weir/store/redis/pool/coordinator.h"
#include "weir/system/pool/local_coordinator.h"

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
Status wait_for(Begin begin) {
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
  if (!shared->told.wait_for(lock, kAnswerMax, [&] { return shared->status.has_value(); })) {
    return Error{ErrorCode::kUnavailable, "the coordinator of the pools does not answer"};
  }
  return std::move(*shared->status);
}

}  // namespace

Result<std::unique_ptr<pool::Coordinator>> Pool::make_coordinator(
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

Result<std::unique_ptr<Pool>> Pool::start(const config::PoolSettings& settings, Clock& clock) {
  std::unique_ptr<Pool> made(new Pool(clock));
  Result<std::unique_ptr<pool::Coordinator>> coordinator = made->make_coordinator(settings);
  if (!coordinator) return std::move(coordinator).error();
  Result<std::unique_ptr<pool::Pools>> pools =
      pool::Pools::create(settings.settings, std::move(*coordinator));
  if (!pools) return std::move(pools).error();
  made->jobs_ = std::make_unique<pool::HeldJobs>(std::move(*pools), settings.hold, random_owner());
  Status started = wait_for(
      [&](pool::StatusCallback told) { made->jobs_->pools().start(clock.now(), std::move(told)); });
  if (!started && started.error().code != ErrorCode::kUnavailable) {
    return bad_argument(fmt::format("pools: {}", started.error().message));
  }
  return made;
}

Status Pool::change(const config::PoolSettings& settings) {
  pool::Settings next = settings.settings;
  const pool::Settings now = jobs_->pools().settings();
  if (address_.empty()) {
    // Alone there is nobody to agree with on a version.
    next.version = now.version;
    if (registration_of(next) != registration_of(now)) next.version += 1;
  }
  Status changed = wait_for([&](pool::StatusCallback told) {
    jobs_->pools().change(std::move(next), clock_.now(), std::move(told));
  });
  if (!changed) {
    return Error{changed.error().code, fmt::format("pools: {}", changed.error().message)};
  }
  jobs_->change(settings.hold);
  return Done{};
}

Pool::~Pool() { stop(); }

std::string Pool::trouble() const {
  if (address_.empty() || jobs_->pools().is_reachable()) return {};
  return fmt::format("{} cannot be asked for the limits of the pools; check that it runs there",
                     address_);
}

std::optional<pool::OutageReading> Pool::outage() const {
  return outage_ == nullptr ? std::nullopt : std::optional(outage_->reading());
}

void Pool::stop() {
  if (jobs_ == nullptr || std::exchange(is_stopped_, true)) return;
  // Whether it could unregister changes nothing here: its lease ends.
  static_cast<void>(wait_for([&](pool::StatusCallback told) {
                      jobs_->pools().stop(clock_.now(), std::move(told));
                    }).ok());
}

}  // namespace weir::server
