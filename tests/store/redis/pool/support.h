// What tests of the Redis coordinator share: an instance whose answers can be waited for.

#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "tests/store/redis/support.h"
#include "weir/base/clock.h"
#include "weir/store/redis/pool/coordinator.h"
#include "weir/testing/redis_server.h"

namespace weir::store::redis {

using system::pool::Acquired;
using system::pool::Allocation;
using system::pool::Amounts;
using system::pool::Coordinator;
using system::pool::CoordinatorReport;
using system::pool::Dimension;
using system::pool::Grant;
using system::pool::ModelLimits;
using system::pool::Refusal;
using system::pool::Refused;
using system::pool::Registration;
using system::pool::Released;

constexpr system::pool::ModelLimits kTenRequests{.rates = {.requests_per_minute = 10}};

inline PoolCoordinatorOptions options_for(const std::string& url, std::string prefix) {
  PoolCoordinatorOptions options;
  options.address = *parse_address(url);
  options.prefix = std::move(prefix);
  options.connect_timeout = kPatience;
  options.silence = kPatience;
  options.timeout = std::chrono::seconds{10};
  options.heartbeat = std::chrono::milliseconds{100};
  options.instance_timeout = std::chrono::seconds{3};
  options.retry_most = std::chrono::milliseconds{50};
  options.trusts_empty = true;
  // Windows that do not end while a test runs.
  options.minute = std::chrono::hours{24 * 100};
  options.day = std::chrono::hours{24 * 300};
  return options;
}

class Instance final : public system::pool::CoordinatorListener {
 public:
  Instance(PoolCoordinatorOptions options, Registration registration)
      : Instance(std::move(options), std::move(registration), nullptr) {}
  // By another clock than the machine's.
  Instance(PoolCoordinatorOptions options, Registration registration, Clock* clock)
      : clock_(clock != nullptr ? *clock : machine_clock_) {
    auto made = make_pool_coordinator(loop_, clock_, std::move(options));
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
    coordinator_ = std::move(*made);
    started_ = wait_status([&](auto done) {
      coordinator_->start(std::move(registration), *this, clock_.now(), std::move(done));
    });
  }

  const Status& started() const { return started_; }
  Coordinator& coordinator() { return *coordinator_; }
  Instant now() { return clock_.now(); }

  std::future<Acquired> acquire_later(const std::string& model, const Amounts& estimate) {
    auto answer = std::make_shared<std::promise<Acquired>>();
    coordinator_->acquire(model, estimate, clock_.now(), [answer](Instant, Acquired acquired) {
      answer->set_value(std::move(acquired));
    });
    return answer->get_future();
  }
  Acquired acquire_once(const std::string& model, const Amounts& estimate) {
    return acquire_later(model, estimate).get();
  }
  // Through a recovery, which a young Redis begins with.
  Acquired acquire(const std::string& model, const Amounts& estimate) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      Acquired acquired = acquire_once(model, estimate);
      const auto* refusal = std::get_if<Refusal>(&acquired);
      if (refusal == nullptr || refusal->reason != Refused::kRecovering) return acquired;
      if (std::chrono::steady_clock::now() > until) return acquired;
      std::this_thread::sleep_for(5ms);
    }
  }
  Grant granted(const std::string& model, const Amounts& estimate) {
    Acquired acquired = acquire(model, estimate);
    const auto* refusal = std::get_if<Refusal>(&acquired);
    EXPECT_EQ(refusal, nullptr) << refusal->message;
    return refusal == nullptr ? std::get<Grant>(acquired) : Grant{};
  }
  Refusal refused(const std::string& model, const Amounts& estimate) {
    Acquired acquired = acquire(model, estimate);
    EXPECT_TRUE(std::holds_alternative<Refusal>(acquired));
    const auto* refusal = std::get_if<Refusal>(&acquired);
    return refusal != nullptr ? *refusal : Refusal{};
  }
  Acquired adopt(const std::string& model, const Amounts& estimate, Instant since) {
    auto answer = std::make_shared<std::promise<Acquired>>();
    coordinator_->adopt(model, estimate, since, clock_.now(), [answer](Instant, Acquired acquired) {
      answer->set_value(std::move(acquired));
    });
    return answer->get_future().get();
  }
  std::future<Released> release_later(const Grant& grant, const Amounts& used) {
    auto answer = std::make_shared<std::promise<Released>>();
    coordinator_->release(grant, used, clock_.now(),
                          [answer](Instant, Released result) { answer->set_value(result); });
    return answer->get_future();
  }
  Released release(const Grant& grant, const Amounts& used) {
    return release_later(grant, used).get();
  }
  Status update(Registration registration) {
    return wait_status([&](auto done) {
      coordinator_->update(std::move(registration), clock_.now(), std::move(done));
    });
  }
  Status replay(const std::string& model, const Amounts& used, Instant used_at) {
    return wait_status([&](auto done) {
      coordinator_->replay(model, used, used_at, clock_.now(), std::move(done));
    });
  }
  Status stop() {
    return wait_status([&](auto done) { coordinator_->stop(clock_.now(), std::move(done)); });
  }
  CoordinatorReport report() {
    auto answer = std::make_shared<std::promise<Result<CoordinatorReport>>>();
    coordinator_->report(clock_.now(), [answer](Instant, Result<CoordinatorReport> report) {
      answer->set_value(std::move(report));
    });
    Result<CoordinatorReport> result = answer->get_future().get();
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? *result : CoordinatorReport{};
  }
  // Of the first model.
  system::pool::ModelReport books() {
    const CoordinatorReport all = report();
    EXPECT_FALSE(all.models.empty());
    return all.models.empty() ? system::pool::ModelReport{} : all.models.front();
  }

  Allocation allocation() {
    const std::lock_guard lock(mutex_);
    return allocation_;
  }
  int freed_count() const { return freed_; }
  bool is_reachable() const { return reachable_; }
  bool epochs_grew() const { return epochs_grew_; }

  void allocated(Instant, const Allocation& allocation) override {
    const std::lock_guard lock(mutex_);
    if (allocation.epoch < allocation_.epoch) epochs_grew_ = false;
    allocation_ = allocation;
  }
  void freed(Instant, std::string_view) override { ++freed_; }
  void reachable(Instant, bool is_reachable) override { reachable_ = is_reachable; }

 private:
  template <typename Call>
  static Status wait_status(Call call) {
    auto answer = std::make_shared<std::promise<Status>>();
    call([answer](Instant, Status status) { answer->set_value(std::move(status)); });
    return answer->get_future().get();
  }

  SystemClock machine_clock_;
  Clock& clock_;
  Loop loop_;
  Status started_ = Done{};
  std::mutex mutex_;
  Allocation allocation_;
  std::atomic<int> freed_{0};
  std::atomic<bool> reachable_{false};
  std::atomic<bool> epochs_grew_{true};
  std::unique_ptr<Coordinator> coordinator_;
};

inline Registration registration_of(const ModelLimits& limits, const Amounts& average = {10, 1},
                                    std::uint64_t version = 1) {
  return {.limits = {{"gpt", limits}}, .average = average, .version = version};
}

}  // namespace weir::store::redis
