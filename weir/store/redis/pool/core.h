// Pool core: what a Redis coordinator is on the thread of its loop.
//
// Internal to this folder.
//
// Thread safety: none. Everything happens on the thread of its loop, callbacks too.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/store/redis/link/subscriber.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/store/redis/pool/model.h"

namespace weir::store::redis {

// Gathers the ends of several things, and goes on when the last has come.
class PoolGathering {
 public:
  PoolGathering(std::size_t count, std::function<void(Status)> done)
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
using PoolGatheringRef = std::shared_ptr<PoolGathering>;

class PoolCore final : public PoolHost, public std::enable_shared_from_this<PoolCore> {
 public:
  PoolCore(Loop& loop, Clock& clock, PoolCoordinatorOptions options)
      : loop_(loop),
        clock_(clock),
        options_(std::move(options)),
        heartbeat_(loop),
        allocate_(loop) {}

  void start(const system::pool::Registration& registration,
             system::pool::CoordinatorListener& listener, system::pool::StatusCallback started);
  void stop(system::pool::StatusCallback stopped);
  void close();
  void acquire(std::string_view model, const system::pool::Amounts& estimate,
               system::pool::AcquireCallback answered);
  void adopt(const std::string& model, const system::pool::Amounts& estimate, Instant since,
             system::pool::AcquireCallback answered);
  void release(const system::pool::Grant& grant, const system::pool::Amounts& used,
               system::pool::ReleaseCallback released);
  void replay(const std::string& model, const system::pool::Amounts& used, Instant used_at,
              const system::pool::StatusCallback& replayed);
  void update(const system::pool::Registration& registration, system::pool::StatusCallback updated);
  void report(system::pool::ReportCallback reported);

  Loop& loop() override { return loop_; }
  Instant now() override { return clock_.now(); }
  Client& client() override { return *client_; }
  const PoolCoordinatorOptions& options() const override { return options_; }
  std::uint64_t next_grant() override { return ++last_grant_; }
  void post(std::function<void()> work) override {
    loop_.post([self = shared_from_this(), work = std::move(work)] { work(); });
  }
  std::string_view alive_channel() override {
    return hears_ ? std::string_view(alive_) : std::string_view();
  }
  void on_doubt() override;
  void on_enrolled(PoolModel& model, const Status& status) override;
  void on_totals(PoolModel& model, bool is_fleet) override;

  // From any thread, both.
  std::string trouble() const {
    const std::scoped_lock lock(trouble_lock_);
    return trouble_;
  }
  system::pool::Amounts uncertain() const noexcept {
    return {uncertain_tokens_.load(std::memory_order_relaxed),
            uncertain_requests_.load(std::memory_order_relaxed)};
  }

 private:
  void connect();
  void listen();
  void beat();
  Duration beat_distance() const;
  void hear(std::string_view channel, std::string_view news);
  void set_reachable(bool is_reachable);
  void blame(std::string why);
  void allocate();
  void announce(const system::pool::Allocation& allocation);
  void apply_registration();
  void drop_strangers();
  void add_model(const std::string& name, const system::pool::Registration& registration);
  PoolModel* find(std::string_view model);

  Loop& loop_;
  Clock& clock_;
  PoolCoordinatorOptions options_;
  system::pool::CoordinatorListener* listener_ = nullptr;
  bool is_running_ = false;
  system::pool::Registration registration_;
  std::optional<bool> is_reachable_;
  std::uint64_t last_grant_ = 0;
  std::uint64_t epoch_ = 0;
  std::map<std::string, std::unique_ptr<PoolModel>, std::less<>> models_;
  std::vector<std::unique_ptr<PoolModel>> former_;  // not in the registration any more
  std::unique_ptr<Client> client_;
  std::unique_ptr<Subscriber> subscriber_;
  std::string alive_;  // the channel that is this process's own
  bool hears_ = false;
  Timer heartbeat_;
  Timer allocate_;
  bool is_allocating_ = false;
  std::string announced_;            // the last message; empty: none since Redis is there
  Instant uneven_since_ = kForever;  // the models disagree on the number of instances
  mutable std::mutex trouble_lock_;
  std::string trouble_;  // guarded by its lock; empty: Redis answers
  std::atomic<std::int64_t> uncertain_tokens_ = 0;
  std::atomic<std::int64_t> uncertain_requests_ = 0;
  // Ends when each of these has been registered or refused.
  PoolGatheringRef enrolling_;
  std::vector<const PoolModel*> unenrolled_;
};

}  // namespace weir::store::redis
