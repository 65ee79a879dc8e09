#include "weir/store/redis/pool/coordinator.h"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/store/redis/pool/core.h"

namespace weir::store::redis {
namespace {

using namespace system::pool;

class RedisCoordinator final : public Coordinator {
 public:
  RedisCoordinator(Loop& loop, Clock& clock, PoolCoordinatorOptions options)
      : loop_(loop), core_(std::make_shared<PoolCore>(loop, clock, std::move(options))) {}
  // On the loop, where a timer of the core may be about to look whether it is still wanted.
  ~RedisCoordinator() override {
    loop_.run([this] {
      core_->close();
      core_.reset();
    });
  }

  void start(Registration registration, CoordinatorListener& listener, Instant,
             StatusCallback started) override {
    post([registration = std::move(registration), &listener, started = std::move(started)](
             PoolCore& core) mutable { core.start(registration, listener, std::move(started)); });
  }
  void stop(Instant, StatusCallback stopped) override {
    post([stopped = std::move(stopped)](PoolCore& core) mutable { core.stop(std::move(stopped)); });
  }
  void acquire(std::string_view model, const Amounts& estimate, Instant,
               AcquireCallback answered) override {
    if (loop_.is_here()) return core_->acquire(model, estimate, std::move(answered));
    post([model = std::string(model), estimate, answered = std::move(answered)](
             PoolCore& core) mutable { core.acquire(model, estimate, std::move(answered)); });
  }
  void adopt(std::string_view model, const Amounts& estimate, Instant since, Instant,
             AcquireCallback answered) override {
    post([model = std::string(model), estimate, since, answered = std::move(answered)](
             PoolCore& core) mutable { core.adopt(model, estimate, since, std::move(answered)); });
  }
  void release(const Grant& grant, const Amounts& used, Instant,
               ReleaseCallback released) override {
    if (loop_.is_here()) return core_->release(grant, used, std::move(released));
    post([grant, used, released = std::move(released)](PoolCore& core) mutable {
      core.release(grant, used, std::move(released));
    });
  }
  void replay(std::string_view model, const Amounts& used, Instant used_at, Instant,
              StatusCallback replayed) override {
    post([model = std::string(model), used, used_at, replayed = std::move(replayed)](
             PoolCore& core) { core.replay(model, used, used_at, replayed); });
  }
  void update(Registration registration, Instant, StatusCallback updated) override {
    post([registration = std::move(registration), updated = std::move(updated)](
             PoolCore& core) mutable { core.update(registration, std::move(updated)); });
  }
  void report(Instant, ReportCallback reported) override {
    post([reported = std::move(reported)](PoolCore& core) mutable {
      core.report(std::move(reported));
    });
  }
  std::string trouble() const override { return core_->trouble(); }
  Amounts uncertain() const override { return core_->uncertain(); }

 private:
  template <typename Work>
  void post(Work work) {
    loop_.post([core = core_, work = std::move(work)]() mutable { work(*core); });
  }

  Loop& loop_;
  std::shared_ptr<PoolCore> core_;
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
    if (Status valid = validate_name("instance", options.instance); !valid) return valid;
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
  if (Status valid = validate_options(options); !valid) return std::move(valid).error();
  return std::unique_ptr<Coordinator>(
      std::make_unique<RedisCoordinator>(loop, clock, std::move(options)));
}

}  // namespace weir::store::redis
