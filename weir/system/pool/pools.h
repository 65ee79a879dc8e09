// Pools: the life of a job that calls a model.
//
// A job takes a slot of its type. It waits for the first model of the escalation order that has
// room for its estimate, here and at the coordinator. It runs, and is settled with what it used:
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
// model. How is in job_life.h; here are the lock, the coordinator and the callbacks.
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

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/job.h"
#include "weir/system/pool/job_life.h"
#include "weir/system/pool/reading.h"
#include "weir/system/pool/settings.h"
#include "weir/system/pool/wakeup.h"

namespace weir::system::pool {

class Pools final : private CoordinatorListener, private JobLife::Outside {
 public:
  // Refused, with a message, if the settings are not valid.
  static Result<std::unique_ptr<Pools>> create(PoolsSettings settings,
                                               std::unique_ptr<Coordinator> coordinator);
  ~Pools() override;
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;

  // Registers with the coordinator. Jobs may be submitted at once; they wait for the first
  // allocation. An error that is kUnavailable does not end it: the coordinator goes on trying;
  // after another one (limits that differ from the fleet's) no job is taken.
  void start(Instant now, StatusCallback started);
  // Jobs that wait are refused; those that run may still be finished. The callback comes last.
  void stop(Instant now, StatusCallback stopped);

  // Asks for a place. The callback is called once: with a start, or with why there is none. An
  // error (unknown type, too many jobs) calls nothing and changes nothing.
  Result<JobId> submit(const JobRequest& request, Instant now, JobCallback callback);

  // True: the job waited, and has left; its callback will not be called. False: it does not wait.
  bool withdraw(JobId job, Instant now);

  // --- The end of a job that runs. An error (it does not run, usage is negative) changes
  // nothing.
  Result<Settlement> finish(JobId job, const Used& used, Instant now);
  // It broke off. If what it used is not known, its estimate stays counted.
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
  void change(PoolsSettings settings, Instant now, StatusCallback changed);

  // --- Time.
  void advance(Instant now);
  Instant next_instant() const;
  // `hook` is told when next_instant() becomes earlier; none: forget it. Returns when no call
  // of the former one is running any more, so it must not be called from there.
  void set_wakeup(std::function<void(Instant)> hook);

  // --- What is told. To be set before start(); called as callbacks are.
  void on_allocation(std::function<void(Instant, const Allocation&)> told);
  void on_overage(std::function<void(Instant, std::string_view model, const Overage&)> told);

  PoolsSettings settings() const;
  bool is_reachable() const;  // whether the coordinator can be asked
  std::string why_unreachable() const { return is_reachable() ? std::string() : trouble(); }
  Reading reading(Instant now) const;
  // The same of the fleet, as the coordinator sees it.
  void report(Instant now, ReportCallback reported) {
    coordinator_->report(now, std::move(reported));
  }

 private:
  using Lock = std::unique_lock<std::mutex>;

  Pools(PoolsSettings settings, std::unique_ptr<Coordinator> coordinator,
        const std::vector<double>& ratios);

  // CoordinatorListener.
  void allocated(Instant now, const Allocation& allocation) override;
  void freed(Instant now, std::string_view model) override;
  void reachable(Instant now, bool is_reachable) override;
  // JobLife::Outside.
  void ask(JobId job, std::size_t model, const Amounts& estimate, Instant now) override;
  void release(const Grant& grant, std::size_t model, const Amounts& used, Instant now) override;
  std::string trouble() const override { return coordinator_->trouble(); }
  void tell_overage(std::size_t model, const Overage& overage, Instant now) override;

  // What one call does, with the lock held: act(work) gives the answer.
  template <typename Act>
  auto call(Instant now, const Act& act);
  // Releases the lock and does what is left to do.
  void conclude(Lock& lock, Work& work);
  Result<Settlement> end(JobId job, JobLife::Ending ending, const std::optional<Used>& used,
                         const std::optional<Used>& counted, Instant now);
  void apply(const PoolsSettings& settings, Instant now);

  std::function<void(Instant, const Allocation&)> allocation_told_;
  std::function<void(Instant, std::string_view, const Overage&)> overage_told_;

  mutable std::mutex lock_;
  Instant last_{};  // guarded by lock_; time that goes back counts as standing still
  JobLife life_;    // guarded by lock_, but for names and places
  Wakeup wakeup_;   // guarded by lock_

  std::unique_ptr<Coordinator> coordinator_;  // first to go: nothing is called after it
};

}  // namespace weir::system::pool
