// Job life: how a job goes from one state to the next, and who is looked at when.
//
//   submitted ─► for each model in order: room here, memory, the coordinator
//                       │ none of them in time         │
//                       ▼                              ▼
//                    refused                    runs ─► finished, failed,
//                       ▲                         │     expired, cancelled
//                       └── the next model ◄── delegated
//
// By the published rules it takes a slot of its type first, over all models, or waits for one, and
// keeps it until its end.
//
// What may have become free (a job ended, a window turned, an allocation came) is noted, and
// drain() looks at those who wait for it before the owner's lock is released.
//
// What leaves this instance, and every callback, goes to `Work::after`: the owner does it without
// the lock.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/catalog.h"
#include "weir/system/pool/coordinator.h"
#include "weir/system/pool/job.h"
#include "weir/system/pool/live_job.h"
#include "weir/system/pool/reading.h"
#include "weir/system/pool/room.h"
#include "weir/system/pool/waiting_jobs.h"

namespace weir::system::pool {

// One call from outside: its instant, and what to do once the lock is released.
struct Work {
  Instant now;
  std::vector<std::function<void()>> after{};
};

class JobLife {
 public:
  // What is beyond this instance. Called without the lock.
  class Outside {
   public:
    virtual ~Outside() = default;

    // Asks the coordinator; answered() follows, once.
    virtual void ask(JobId job, std::size_t model, const Amounts& estimate, Instant now) = 0;
    // Settles with it; freed() follows, once.
    virtual void release(const Grant& grant, std::size_t model, const Amounts& used,
                         Instant now) = 0;
    // Why the coordinator cannot be asked, if it said so. The only one called with the lock.
    virtual std::string trouble() const = 0;
    // A job has used more than its estimate.
    virtual void tell_overage(std::size_t model, const Overage& overage, Instant now) = 0;
  };
  enum class Ending : std::uint8_t { kFinished, kFailed, kExpired };

  // Requires valid settings, and a ratio for each type.
  JobLife(PoolsSettings settings, const std::vector<double>& ratios, Outside& outside);
  JobLife(const JobLife&) = delete;
  JobLife& operator=(const JobLife&) = delete;

  // The clock starts.
  void start(Instant now);
  // The coordinator will not have this instance: no job is taken.
  void refuse_all(std::string why) { start_error_ = std::move(why); }
  // Those who wait are refused, and no job is taken any more.
  void stop(Work& work);

  // As Pools has them. What they refuse has changed nothing.
  Result<JobId> submit(std::size_t type, const JobRequest& request, JobCallback callback,
                       Work& work);
  bool withdraw(JobId id, Work& work);
  // `used` goes to the bill and `counted` to the windows.
  Result<Settlement> end(JobId id, Ending ending, const std::optional<Used>& used,
                         const std::optional<Used>& counted, Work& work);
  Status delegate(JobId id, const Used& used, JobCallback callback, Work& work);
  Status cancel(JobId id, Work& work);
  Result<Instant> renew(JobId id, Duration hold, Work& work);

  // What the coordinator says.
  void answered(JobId id, Acquired answer, Work& work);
  void freed(std::size_t model, Work& work);
  void set_reachable(bool is_reachable, Work& work);
  // Whether it is news: an allocation of an older epoch is not.
  bool allocate(const Allocation& allocation, Work& work);

  // Requires catalog().allows(settings).
  void change(const PoolsSettings& settings, Work& work);
  void advance(Work& work);
  // When to advance() next.
  Instant earliest() const;

  const Catalog& catalog() const noexcept { return catalog_; }
  bool is_reachable() const noexcept { return is_reachable_.value_or(false); }
  Reading reading(Instant now) const;

 private:
  // How jobs come to ask for a model.
  struct Model {
    std::uint64_t changes = 0;  // of what the coordinator may refuse for
    // While the waiters of a window are spread: the time between two of them.
    Duration gap{};
    Instant next_start{};
    ModelTally tally{};
  };
  // For what something may have become free.
  struct Touched {
    void model(std::size_t place) { models[place] = is_any = true; }
    void type(std::size_t place) { types[place] = is_any = true; }
    void all();

    std::vector<bool> models;
    std::vector<bool> types;
    bool is_any = false;
  };

  Instant& blocked_until(std::size_t model, std::size_t type) noexcept {
    return blocked_until_[model * catalog_.type_count() + type];
  }
  const Instant& blocked_until(std::size_t model, std::size_t type) const noexcept {
    return blocked_until_[model * catalog_.type_count() + type];
  }
  Result<LiveJob*> running(JobId id);

  // --- From one state to the next.
  void begin(LiveJob& job, Work& work);
  void next_model(LiveJob& job, Work& work);
  bool try_in_turn(LiveJob& job, Work& work);
  bool attempt(LiveJob& job, Work& work);
  void ask(LiveJob& job, Work& work);
  void start_running(LiveJob& job, Grant grant, Work& work);
  void give_up(LiveJob& job, const Refusal& refusal, Work& work);
  void undo(LiveJob& job, Work& work);
  void stop_waiting_for_memory(LiveJob& job, Work& work);
  void refuse(LiveJob& job, JobRefused reason, Work& work);
  Overage leave_model(LiveJob& job, const std::optional<Used>& used, const Amounts& reported,
                      Work& work);
  Settlement settle(LiveJob& job, Ending ending, const std::optional<Used>& used,
                    const std::optional<Used>& counted, Work& work);
  void bill(LiveJob& job, const std::optional<Used>& used);
  void release(const LiveJob& job, const Grant& grant, const Amounts& used, Work& work);
  void remove(LiveJob& job, Work& work);

  // --- Who is looked at, and when.
  void serve(std::size_t model, Work& work);
  void admit(std::size_t type, Work& work);
  void drain(Work& work);
  void forget_refusals(std::size_t model) noexcept;
  void forget_all_refusals() noexcept;
  void turn_windows(Work& work);
  void unblock(Work& work);
  void expire(Work& work);
  void adjust(Work& work);
  void probe_memory(Work& work);
  void ask_granted(const std::vector<JobId>& granted, Work& work);

  Catalog catalog_;
  Outside& outside_;
  bool is_stopped_ = false;
  std::optional<std::string> start_error_{};
  std::optional<bool> is_reachable_{};  // nothing: not known
  Room room_;
  std::vector<Model> models_;
  // Of each queue: the coordinator refused, and nothing changed since. See blocked_until().
  std::vector<Instant> blocked_until_;
  WaitingJobs waiting_;
  Touched touched_;
  std::map<JobId, std::unique_ptr<LiveJob>> jobs_;
  JobId next_job_ = 1;
  Instant next_minute_{};  // when the current window ends
  Instant next_adjustment_ = kForever;
  Instant next_probe_ = kForever;
  Instant last_adjusted_{};
  JobTally tally_{};
};

}  // namespace weir::system::pool
