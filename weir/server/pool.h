// Pool: the pools of a server, as the configuration has them.
//
// With a Redis, the instance registers there before the server listens: limits that differ
// from the fleet's are refused by name, and a Redis that cannot be reached is tried again and
// again while the outage policy decides.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "weir/base/clock.h"
#include "weir/base/result.h"
#include "weir/config/config.h"
#include "weir/store/redis/link/loop.h"
#include "weir/system/pool/held_jobs.h"
#include "weir/system/pool/outage.h"

namespace weir::server {

class Pool {
 public:
  // Requires a clock that outlives it.
  static Result<std::unique_ptr<Pool>> start(const config::PoolSettings& settings, Clock& clock);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  system::pool::HeldJobs& jobs() noexcept { return *jobs_; }
  // Why the coordinator cannot be asked; empty if it can.
  std::string trouble() const;
  // Nothing: there is no Redis whose outage could matter.
  std::optional<system::pool::OutageReading> outage() const;
  // As the next file has them; jobs go on. Requires that config::can_change(). An error (the
  // fleet has other limits, the version is too low) changes nothing.
  Status change(const config::PoolSettings& settings);
  // Refuses who waits and unregisters. Afterwards nobody is called back.
  void stop();

 private:
  explicit Pool(Clock& clock) : clock_(clock) {}
  Result<std::unique_ptr<system::pool::Coordinator>> make_coordinator(
      const config::PoolSettings& settings);

  Clock& clock_;
  std::unique_ptr<store::redis::Loop> loop_;  // outlives what speaks over it
  const system::pool::OutageCoordinator* outage_ = nullptr;
  std::string address_{};  // of the Redis; empty: none
  std::unique_ptr<system::pool::HeldJobs> jobs_;
  bool is_stopped_ = false;
};

}  // namespace weir::server
