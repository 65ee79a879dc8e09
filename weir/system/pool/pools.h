// Pools: the life of a job that calls a model.
//
// A job takes a slot of its type, waits for the first model of the escalation order that has
// room for its estimate, here and at the coordinator, runs, and is settled with what it used:
//
//   auto pools = Pools::create(settings, std::make_unique<LocalCoordinator>(fleet));
//   (*pools)->start(now, started);
//   (*pools)->submit({.type = "summary"}, now, [&](Instant at, const JobOutcome& outcome) {
//     if (auto* start = std::get_if<Start>(&outcome)) call(start->model, start->job);
//   });
//   (*pools)->finish(job, {.requests = 1, .input_tokens = 4'100, .output_tokens = 900}, now);
//
// Waiters stand in one queue for each (model, job type), first come first served; a type that
// is full holds up no other. They are looked at whenever something may have changed: a job
// ends, a window turns, an allocation comes, ratios or memory change, the coordinator frees
// something. At the end of its patience a job is tried once more, and then goes to the next
// model.
//
// Time: functions take `now`. Call advance() at next_instant(); set_wakeup() tells when that
// became earlier. driver.h does it with a thread, a server with its timers.
//
// Callbacks run after all locks are released, on the thread whose call led to them or on one of
// the coordinator's, and may run before submit() returns.
//
// Thread safety: every function may be called from any thread. No thread may be inside a call
// when it is destroyed.

#pragma once

#include <bitset>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/job.h"
#include "weir/system/pool/memory.h"
#include "weir/system/pool/model_limiter.h"
#include "weir/system/pool/reading.h"
#include "weir/system/pool/settings.h"
#include "weir/system/pool/type_meter.h"
#include "weir/system/pool/type_shares.h"

namespace weir::system::pool {

class Pools final : private CoordinatorListener {
 public:
  // Refused, with a message, if the settings are not valid.
  static Result<std::unique_ptr<Pools>> create(Settings settings,
                                               std::unique_ptr<Coordinator> coordinator);
  ~Pools() override;
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // Registers with the coordinator. Jobs may be submitted at once; they wait for the first
  // allocation. An error that is kUnavailable does not end it: the coordinator goes on trying;
  // after another one (limits that differ from the fleet's) no job is taken.
  void start(Instant now, StatusCallback started);
  // Whoever waits is refused; what runs may still be finished. The callback comes last.
  void stop(Instant now, StatusCallback stopped);

  // Asks for a place. The callback is called once: with a start, or with why there is none. An
  // error (unknown type, too many jobs) calls nothing and changes nothing.
  Result<JobId> submit(const JobRequest& request, Instant now, JobCallback callback);

  // A job that waits leaves; its callback will not be called. False: it does not wait.
  bool withdraw(JobId job, Instant now);

  // --- The end of a job that runs. An error (it does not run, usage is negative) changes
  // nothing.
  Result<Settlement> finish(JobId job, const Used& used, Instant now);
  // It broke off. If nobody knows what it used, its estimate stays counted.
  Result<Settlement> fail(JobId job, const std::optional<Used>& used, Instant now);
  // The model did not do it: on to the next one, with the same slot of its type. The callback is
  // told as of submit(). Refused after delegations_max of them.
  Status delegate(JobId job, const Used& used, Instant now, JobCallback callback);
  // The model did not do it and no other shall. As finish(); the published rules count
  // it as a failure.
  Result<Settlement> reject(JobId job, const Used& used, Instant now);
  // It was started and never ran: as if it had not been. Nothing is billed.
  Status cancel(JobId job, Instant now);
  // It needs longer than it said: its hold begins anew. The instant at which it expires.
  Result<Instant> renew(JobId job, Duration hold, Instant now);

  // New limits, prices, estimates, waits and ratios for the same models and job types; jobs go on.
  // A change of limits or estimates needs a higher version, and the coordinator's consent. An
  // error changes nothing.
  void change(Settings settings, Instant now, StatusCallback changed);

  // --- Time.
  void advance(Instant now);
  Instant next_instant() const;
  // `hook` is told when next_instant() becomes earlier; none: forget it. Returns when no call
  // of the former one is running any more, so it must not be called from there.
  void set_wakeup(std::function<void(Instant)> hook);

  // --- What is told. To be set before start(); called as callbacks are.
  void on_allocation(std::function<void(Instant, const Allocation&)> told);
  void on_overage(std::function<void(Instant, std::string_view model, const Overage&)> told);

  Settings settings() const;
  bool is_reachable() const;  // whether the coordinator can be asked
  Reading reading(Instant now) const;
  // The same of the fleet, as the coordinator sees it.
  void report(Instant now, ReportCallback reported) {
    coordinator_->report(now, std::move(reported));
  }

 private:
  struct Job;
  // One model of this instance.
  struct Model {
    ModelLimiter limiter;
    std::optional<Pool> pool{};
    std::uint64_t changes = 0;  // of what the coordinator may refuse for
    // While the waiters of a window are spread: the time between two of them.
    Duration gap{};
    Instant next_start{};
    ModelTally tally{};
  };
  // Who waits for a model with a type, and what that type started there.
  struct Queue {
    TypeMeter meter;
    std::map<JobId, Job*> waiting{};
    Instant blocked_until{};  // the coordinator refused, and nothing changed since
  };
  // One call from outside: its instant, and what to do once the lock is released.
  struct Work {
    Instant now;
    std::vector<std::function<void()>> after{};
  };
  using Lock = std::unique_lock<std::mutex>;

  Pools(Settings settings, std::unique_ptr<Coordinator> coordinator, std::vector<double> ratios);

  // CoordinatorListener.
  void allocated(Instant now, const Allocation& allocation) override;
  void freed(Instant now, std::string_view model) override;
  void reachable(Instant now, bool is_reachable) override;

  bool is_strict() const noexcept { return settings_.rule == CountRule::kStrict; }
  std::size_t place(std::size_t model, std::size_t type) const noexcept {
    return model * settings_.types.size() + type;
  }
  Queue& queue_of(const Job& job) noexcept;
  Duration max_wait(std::size_t type, std::size_t model, Instant now) const;
  Result<Job*> running(JobId job);
  void apply(const Settings& settings, Instant now);

  // --- pools_life.cc: from one state to the next. With the lock held.
  void begin(Job& job, Work& work);
  void next_model(Job& job, Work& work);
  bool try_in_turn(Job& job, Work& work);
  bool attempt(Job& job, Work& work);
  void ask(Job& job, Work& work);
  void answered(JobId id, Instant now, Acquired answer);
  void start_running(Job& job, Grant grant, Work& work);
  void give_up(Job& job, const Refusal& refusal, Work& work);
  void undo(Job& job, Work& work);
  void refuse(Job& job, JobRefused reason, Work& work);
  Overage leave_model(Job& job, const std::optional<Used>& used, const Amounts& reported,
                      Work& work);
  // `used` goes to the bill and `counted` to the windows.
  enum class Ending : std::uint8_t { kFinished, kFailed, kExpired };
  Result<Settlement> end_running(JobId id, Ending ending, const std::optional<Used>& used,
                                 const std::optional<Used>& counted, Instant now);
  Settlement end(Job& job, Ending ending, const std::optional<Used>& used,
                 const std::optional<Used>& counted, Work& work);
  void bill(Job& job, const std::optional<Used>& used);
  void release(const Grant& grant, std::size_t model, const Amounts& used, Work& work);
  void remove(Job& job, Work& work);

  // --- pools_waiting.cc: who is looked at, and when. With the lock held.
  void enqueue(Job& job);
  void wait_for_slot(Job& job);
  void dequeue(Job& job);
  void serve(std::size_t model, Work& work);
  void admit(std::size_t type, Work& work);
  void drain(Work& work);
  void touch(std::size_t model) noexcept;  // something may have become free
  void touch_all() noexcept;
  void forget_refusals(std::size_t model) noexcept;
  void turn_windows(Work& work);
  void unblock(Work& work);
  void expire(Work& work);
  void adjust(Work& work);
  void probe_memory(Work& work);
  void apply_ratios(Work& work);
  void ask_granted(const std::vector<JobId>& granted, Work& work);
  Instant earliest() const;
  // Time that goes back counts as standing still.
  Work work_at(Instant now) { return {last_ = later_of(last_, now)}; }
  // Releases the lock and does what is left to do.
  void conclude(Lock& lock, Work& work);

  Settings settings_;                    // names never change; the rest is guarded by the lock
  std::vector<std::size_t> escalation_;  // places of models
  std::map<std::string, std::size_t, std::less<>> model_places_;
  std::map<std::string, std::size_t, std::less<>> type_places_;
  std::function<void(Instant, const Allocation&)> allocation_told_;
  std::function<void(Instant, std::string_view, const Overage&)> overage_told_;

  mutable std::mutex lock_;
  Instant last_{};
  bool is_stopped_ = false;
  std::optional<std::string> start_error_{};  // the coordinator will not have this instance
  Allocation allocation_{};
  std::optional<bool> is_reachable_{};  // nothing: not known
  TypeShares shares_;
  std::optional<MemoryBudgets> memory_;
  std::vector<Model> models_;
  std::vector<Queue> queues_;                        // see place()
  std::set<std::size_t> active_;                     // queues with waiters
  std::vector<std::map<JobId, Job*>> slot_waiting_;  // by type
  std::map<JobId, std::unique_ptr<Job>> jobs_;
  std::set<std::pair<Instant, JobId>> deadlines_;
  std::vector<bool> touched_models_;
  std::vector<bool> touched_types_;
  bool is_touched_ = false;
  JobId next_job_ = 1;
  Instant next_minute_{};  // when the current window ends
  Instant next_adjustment_ = kForever;
  Instant next_probe_ = kForever;
  Instant last_adjusted_{};
  JobTally tally_{};
  std::shared_ptr<const std::function<void(Instant)>> wakeup_;
  Instant told_ = kForever;  // the last instant that the hook knows of
  int hook_calls_ = 0;       // that are running
  std::condition_variable hook_returned_;

  std::unique_ptr<Coordinator> coordinator_;  // first to go: nothing is called after it
};

}  // namespace weir::system::pool
