// Driver: a clock and a thread for pools that an application embeds, and a job as a handle.
//
//   Result<std::unique_ptr<Driver>> driver = Driver::create(*pools, clock);
//   Result<RunningJob> job = (*driver)->acquire("summary");    // waits as its type does
//   if (!job) return job.error();                              // nothing had room
//   Reply reply = call(job->model(), prompt);
//   job->finish({.requests = 1, .input_tokens = reply.input, .output_tokens = reply.output});
//
// A handle that is dropped without an end fails its job: its slots are free again, and its
// estimate stays counted.
//
// Thread safety: the driver's functions may be called from any thread; a handle belongs to one
// at a time. Handles and waiting calls must end before the driver, and that before the pools,
// which have one driver at a time.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weir/base/alarm_thread.h"
#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/system/pool/pools.h"

namespace weir::system::pool {

class RunningJob {
 public:
  RunningJob(Pools& pools, Clock& clock, Start start)
      : pools_(&pools), clock_(&clock), start_(std::move(start)) {}
  ~RunningJob() { drop(); }
  RunningJob(RunningJob&& other) noexcept;
  RunningJob& operator=(RunningJob&& other) noexcept;

  const std::string& model() const noexcept { return start_.model; }
  const Start& start() const noexcept { return start_; }

  // See Pools; after any of these the handle is empty, unless it returned an error.
  Result<Settlement> finish(const Used& used);
  Result<Settlement> fail(const std::optional<Used>& used = std::nullopt);
  Result<Settlement> reject(const Used& used);
  // Waits for the next model; the handle then stands for the run there.
  Status delegate(const Used& used);

 private:
  void drop() noexcept;
  Result<Settlement> ended(Result<Settlement> settlement);

  Pools* pools_;  // nullptr: it has ended
  Clock* clock_;
  Start start_;
};

class Driver {
 public:
  // An error if the system has no thread or memory to give.
  static Result<std::unique_ptr<Driver>> create(Pools& pools, Clock& clock) noexcept;
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Blocks until the job may run. A refusal is an error here: kUnavailable if the coordinator
  // could not be asked, else kExhausted, with the refusal's message.
  Result<RunningJob> acquire(std::string_view type,
                             std::optional<Duration> patience = std::nullopt);

 private:
  Driver(Pools& pools, Clock& clock) noexcept;

  Pools& pools_;
  Clock& clock_;
  AlarmThread thread_;
};

}  // namespace weir::system::pool
