// Held jobs: pools for clients that may go away.
//
// A client over a wire gets a job with a name and a hold. A job that its client does not end in
// time ends by itself, as one that failed: its slots are free again, and what it may have used
// stays counted. The name tells which process gave it, so that one from before a restart
// ends nothing.
//
//   HeldJobs jobs(std::move(pools), {.hold = 10min});
//   auto turn = jobs.acquire({.type = "summary"}, now, answered);
//   if (turn && turn->answer) tell(*turn->answer);       // at once
//   // else: `answered` is called later, unless give_up(turn->ticket) comes first
//   jobs.finish(job, {.requests = 1, .input_tokens = 4'100, .output_tokens = 900}, now);
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <variant>

#include "weir/base/decision.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/pool/job.h"
#include "weir/system/pool/pools.h"

namespace weir::system::pool {

constexpr Duration kHoldLeast = std::chrono::seconds{1};
constexpr Duration kHoldMost = std::chrono::hours{24 * 7};

struct HoldSettings {
  Duration hold = std::chrono::minutes{10};  // of a job that names none
  Duration hold_max = std::chrono::hours{1};

  friend bool operator==(const HoldSettings&, const HoldSettings&) = default;
};
// Refused, with a message, unless both are kHoldLeast to kHoldMost and hold <= hold_max.
Status validate_hold_settings(const HoldSettings& settings);

struct JobAsk {
  std::string_view type{};
  std::optional<Duration> wait{};  // see JobRequest::patience
  std::optional<Duration> hold{};
};

struct HeldStart {
  HoldId id{};
  Start start{};
};
using JobAnswer = std::variant<HeldStart, JobRefusal>;
using JobAnswered = std::function<void(Instant now, const JobAnswer& answer)>;

// What asking came to.
struct JobTurn {
  std::optional<JobAnswer> answer{};  // nothing: it waits, and the callback will be called
  std::uint64_t ticket = 0;           // of one that waits
};

class HeldJobs {
 public:
  // Requires valid settings. `owner` is in the names of all jobs.
  HeldJobs(std::unique_ptr<Pools> pools, const HoldSettings& settings, std::uint64_t owner);
  HeldJobs(const HeldJobs&) = delete;
  HeldJobs& operator=(const HeldJobs&) = delete;

  // An error calls nothing. The callback is not called if the answer is returned; it may come
  // from another thread before this returns.
  Result<JobTurn> acquire(const JobAsk& ask, Instant now, JobAnswered answered);
  // On to the next model; told as of acquire(), with a new hold and the same name.
  Result<JobTurn> delegate(HoldId job, const Used& used, Instant now, JobAnswered answered);

  // The client that waits goes away. True: its callback will not be called. False: it has been, or
  // will be.
  bool give_up(std::uint64_t ticket, Instant now);
  // The client that was to be told of a start has gone: as if it had not been. A job that has ended
  // stays as it is.
  void discard(HoldId job, Instant now);

  // --- The end of a job; see Pools. An error (it has ended, its hold is over, another process
  // gave it, usage is negative) changes nothing.
  Result<Settlement> finish(HoldId job, const Used& used, Instant now);
  Result<Settlement> fail(HoldId job, const std::optional<Used>& used, Instant now);
  Result<Settlement> reject(HoldId job, const Used& used, Instant now);

  // A job that runs needs longer: its hold begins anew, as long as it would be now if it names
  // none. The instant at which it expires.
  Result<Instant> renew(HoldId job, const std::optional<Duration>& hold, Instant now);

  Pools& pools() noexcept { return *pools_; }
  HoldSettings settings() const;
  // Of holds that begin from now on. Requires valid settings.
  void change(const HoldSettings& settings);

 private:
  struct Turn;
  JobCallback callback_of(const std::shared_ptr<Turn>& turn) const;
  static JobTurn begin(const std::shared_ptr<Turn>& turn, JobId job);
  Status check(HoldId job) const;
  Result<Duration> hold_of(const std::optional<Duration>& asked) const;

  mutable std::mutex lock_;
  HoldSettings settings_;  // guarded by the lock
  const std::uint64_t owner_;
  std::unique_ptr<Pools> pools_;  // first to go: nothing is called after it
};

}  // namespace weir::system::pool
