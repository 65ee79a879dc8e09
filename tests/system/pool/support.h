// What the tests of the pool system share: an instance that remembers its answers, and a
// coordinator that answers when it is told to.

#pragma once

#include <gmock/gmock.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "weir/system/pool/local_coordinator.h"
#include "weir/system/pool/pools.h"

namespace weir::system::pool {

using namespace std::chrono_literals;

constexpr Instant kStart{1'770'000'000'000'000'000};  // begins a minute

inline JobType type_of(std::string name, std::int64_t tokens, std::optional<double> ratio = {}) {
  return {.name = std::move(name), .tokens = tokens, .requests = 1, .ratio = ratio};
}

// One model with so many places and one type that shares them.
inline PoolsSettings places_of(std::int64_t places) {
  PoolsSettings settings;
  settings.models = {{.name = "m", .limits = {.concurrent = places}}};
  settings.types = {type_of("a", 100)};
  return settings;
}
inline PoolsSettings tokens_per_minute_of(std::int64_t tokens, std::int64_t estimate) {
  PoolsSettings settings;
  settings.models = {{.name = "m", .limits = {.rates = {.tokens_per_minute = tokens}}}};
  settings.types = {type_of("a", estimate)};
  return settings;
}

class Instance {
 public:
  Instance(PoolsSettings settings, std::unique_ptr<Coordinator> coordinator, Instant now = kStart) {
    Result<std::unique_ptr<Pools>> made =
        Pools::create(std::move(settings), std::move(coordinator));
    EXPECT_TRUE(made) << made.error().message;
    pools_ = *std::move(made);
    pools_->start(now, [this](Instant, Status status) { started_ = std::move(status); });
  }
  explicit Instance(PoolsSettings settings, std::shared_ptr<LocalFleet> fleet = nullptr)
      : Instance(std::move(settings),
                 std::make_unique<LocalCoordinator>(fleet ? std::move(fleet)
                                                          : std::make_shared<LocalFleet>())) {}

  Pools& operator*() { return *pools_; }
  Pools* operator->() { return pools_.get(); }
  const Status& started() const { return started_; }

  JobCallback remember() {
    return [this](Instant now, const JobOutcome& outcome) {
      const JobId id = std::visit([](const auto& answer) { return answer.job; }, outcome);
      EXPECT_FALSE(answers_.contains(id)) << "a second answer for job " << id;
      answers_.insert_or_assign(id, std::pair(now, outcome));
      order_.push_back(id);
    };
  }
  JobId submit(std::string_view type, Instant now, std::optional<Duration> patience = {}) {
    Result<JobId> job = pools_->submit({type, patience}, now, remember());
    EXPECT_TRUE(job) << job.error().message;
    return job ? *job : 0;
  }

  // nullptr: no answer yet, or another one.
  const Start* start_of(JobId job) const {
    const auto found = answers_.find(job);
    return found == answers_.end() ? nullptr : std::get_if<Start>(&found->second.second);
  }
  const JobRefusal* refusal_of(JobId job) const {
    const auto found = answers_.find(job);
    return found == answers_.end() ? nullptr : std::get_if<JobRefusal>(&found->second.second);
  }
  std::string model_of(JobId job) const {
    return start_of(job) != nullptr ? start_of(job)->model : "none";
  }
  Instant answered_at(JobId job) const { return answers_.at(job).first; }
  const std::vector<JobId>& order() const { return order_; }
  void forget(JobId job) { answers_.erase(job); }
  std::size_t started_jobs() const {
    std::size_t count = 0;
    for (const auto& [id, answer] : answers_) {
      if (std::holds_alternative<Start>(answer.second)) ++count;
    }
    return count;
  }

  // Everything that is due until then, when it is.
  void run_until(Instant until) {
    int steps = 0;
    for (Instant next = pools_->next_instant(); next <= until; next = pools_->next_instant()) {
      ASSERT_LT(++steps, 100'000) << "advance() does not come to rest at " << next.ns;
      pools_->advance(next);
    }
  }

  void finish(JobId job, Instant now, std::int64_t tokens = 100) {
    const Result<Settlement> done =
        pools_->finish(job, {.requests = 1, .input_tokens = tokens}, now);
    EXPECT_TRUE(done) << done.error().message;
  }

 private:
  Status started_ = Error{ErrorCode::kUnavailable, "no answer yet"};
  std::map<JobId, std::pair<Instant, JobOutcome>> answers_;
  std::vector<JobId> order_;
  std::unique_ptr<Pools> pools_;
};

// Keeps every call until the test answers it.
class ScriptedCoordinator final : public Coordinator {
 public:
  struct Ask {
    std::string model;
    Amounts estimate;
    AcquireCallback answered;
  };
  struct Script {
    CoordinatorListener* listener = nullptr;
    Registration registration{};
    std::deque<Ask> asks{};
    std::vector<std::pair<Grant, Amounts>> releases{};
    std::vector<std::tuple<std::string, Amounts, Instant>> replays{};
    std::vector<std::tuple<std::string, Amounts, Instant>> adopts{};  // asks, too
    Released release_result = Released::kSettled;
    Status start_status = Done{};
    std::uint64_t last = 0;

    void allocate(Instant now, std::int64_t instances = 1, std::uint64_t epoch = 1) {
      Allocation allocation{.epoch = epoch, .instance_count = instances};
      for (const auto& [name, limits] : registration.limits) {
        allocation.pools[name] = make_pool(limits, {}, registration.average, instances);
      }
      listener->allocated(now, allocation);
    }
    void grant(Instant now) {
      Ask ask = std::move(asks.front());
      asks.pop_front();
      ask.answered(now,
                   Grant{.id = ++last, .fence = 1, .model = ask.model, .estimate = ask.estimate});
    }
    void refuse(Instant now, Refused reason, Instant retry_at = kForever) {
      Ask ask = std::move(asks.front());
      asks.pop_front();
      ask.answered(now, Refusal{.reason = reason, .retry_at = retry_at, .message = "scripted"});
    }
  };

  explicit ScriptedCoordinator(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  void start(Registration registration, CoordinatorListener& listener, Instant now,
             StatusCallback started) override {
    script_->registration = std::move(registration);
    script_->listener = &listener;
    started(now, script_->start_status);
  }
  void stop(Instant now, StatusCallback stopped) override {
    while (!script_->asks.empty()) script_->refuse(now, Refused::kStopped);
    stopped(now, Done{});
  }
  void acquire(std::string_view model, const Amounts& estimate, Instant,
               AcquireCallback answered) override {
    script_->asks.push_back({std::string(model), estimate, std::move(answered)});
  }
  void adopt(std::string_view model, const Amounts& estimate, Instant since, Instant,
             AcquireCallback answered) override {
    script_->adopts.emplace_back(std::string(model), estimate, since);
    script_->asks.push_back({std::string(model), estimate, std::move(answered)});
  }
  void release(const Grant& grant, const Amounts& used, Instant now,
               ReleaseCallback released) override {
    script_->releases.emplace_back(grant, used);
    released(now, script_->release_result);
  }
  void replay(std::string_view model, const Amounts& used, Instant used_at, Instant now,
              StatusCallback replayed) override {
    script_->replays.emplace_back(std::string(model), used, used_at);
    replayed(now, Done{});
  }
  void update(Registration, Instant now, StatusCallback updated) override { updated(now, Done{}); }
  void report(Instant now, ReportCallback reported) override {
    reported(now, CoordinatorReport{.kind = "scripted"});
  }

 private:
  std::shared_ptr<Script> script_;
};

}  // namespace weir::system::pool
