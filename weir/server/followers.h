// Followers: the accounts of a server that follow a service, each on a thread of its own.
//
// The log has a line when a service begins to fail, when it answers again, and when it
// has other policies. Decisions and readiness do not depend on any of it. How old the
// values are is shown by the account's view.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "weir/base/clock.h"
#include "weir/config/config.h"
#include "weir/server/log.h"
#include "weir/system/contract/follower.h"

namespace weir::server {

class Followers {
 public:
  explicit Followers(Clock& clock) : clock_(clock) {}

  // Follows the accounts that have `sync`, and no others. Those that are followed already,
  // in the same way, are left alone.
  void follow(const std::vector<config::ContractSettings>& contracts, const Log& log);
  // For good: cancels what is being fetched, and follows nobody afterwards.
  void stop();

 private:
  using Follower = system::contract::Follower;

  Clock& clock_;
  std::mutex lock_;
  bool has_stopped_ = false;
  std::vector<std::shared_ptr<Follower>> followers_;
};

// Writes the events of a follower to a log.
system::contract::Follower::Listener log_follower(const Log& log);

}  // namespace weir::server
