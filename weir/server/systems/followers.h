// Followers: the accounts of a server that follow a service, each on a thread of its own.
//
// The log has a line when a service begins to fail, when it answers again, and when it
// has other policies. Readiness does not depend on any of it. How old the values are is
// shown by the account's view.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weir/base/clock.h"
#include "weir/server/log.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/follower.h"

namespace weir::server {

struct FollowedAccount {
  std::shared_ptr<system::contract::Account> account;
  system::contract::FollowerOptions options;
};

class Followers {
 public:
  // `on_fetched` is called after each round of fetches, by the thread that made it: an
  // account may have more room than before.
  Followers(Clock& clock, std::function<void()> on_fetched)
      : clock_(clock), on_fetched_(std::move(on_fetched)) {}

  // Follows these accounts, and no others. Those that are followed already, in the same way, are
  // left alone; one that is followed in another way is not followed in both at any time. An
  // account for which there is no thread is not followed, and the log says so.
  void follow(const std::vector<FollowedAccount>& accounts, const Log& log);
  // For good: cancels what is being fetched, and follows no account afterwards.
  void stop();

 private:
  using Follower = system::contract::Follower;

  std::shared_ptr<Follower> start(const FollowedAccount& followed, const Log& log) const;

  Clock& clock_;
  const std::function<void()> on_fetched_;
  std::mutex lock_;
  bool has_stopped_ = false;
  std::vector<std::shared_ptr<Follower>> followers_;
};

// Writes the events of a follower to a log.
system::contract::Follower::Listener log_follower(const Log& log);

}  // namespace weir::server
