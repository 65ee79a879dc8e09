// Follower: keeps an account in step with its service, on a thread of its own.
//
//   Follower follower(account, options, clock, [](const FollowerEvent& event) { ... });
//
// It fetches at once and then whenever its Syncer says so. The listener is told when the
// service begins to fail, when it answers again, when it has other policies, and after
// each round of fetches. The account's view shows how old its values are. The end cancels
// a fetch that runs.
//
// Thread safety: status() from any thread. The listener is called from the follower's.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weir/base/clock.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/service_client.h"
#include "weir/system/contract/syncer.h"

namespace weir::system::contract {

constexpr std::size_t kFollowersMax = 64;  // of one process: each has a thread

struct FollowerOptions {
  ServiceOptions service{};
  Duration refresh = std::chrono::minutes{5};
  Duration retry = std::chrono::seconds{5};
  Duration token_margin = std::chrono::minutes{5};

  friend bool operator==(const FollowerOptions&, const FollowerOptions&) = default;
};

struct FollowerEvent {
  enum class Kind : std::uint8_t {
    kLost,      // something could not be fetched; `error` says what
    kFound,     // everything is fetched again
    kPolicies,  // the service has other policies than were in force
    kLeftOut,   // the service names types that are not known: status.left_out
    kRound,     // fetches were made; said after each round
  };

  Kind kind = Kind::kRound;
  const Account& account;
  std::string error{};
  SyncerStatus status{};
};

class Follower {
 public:
  using Listener = std::function<void(const FollowerEvent&)>;

  // Requires a clock that outlives it. Throws std::system_error if there is no thread to be had.
  Follower(std::shared_ptr<Account> account, const FollowerOptions& options, Clock& clock,
           Listener listener);
  // With another client than one over HTTP.
  Follower(std::shared_ptr<Account> account, FollowerOptions options,
           std::unique_ptr<Fetcher> fetcher, Clock& clock, Listener listener);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  const std::shared_ptr<Account>& account() const noexcept { return account_; }
  const FollowerOptions& options() const noexcept { return options_; }
  // With ages as of now.
  SyncerStatus status() const;

 private:
  void run();
  void fetch_what_is_due();
  void note() const;
  void tell(const std::vector<Policy>& before);

  const std::shared_ptr<Account> account_;
  const FollowerOptions options_;
  Clock& clock_;
  const Listener listener_;
  const std::unique_ptr<Fetcher> fetcher_;

  mutable std::mutex lock_;  // for what follows; not held during a fetch
  std::condition_variable wake_;
  Syncer syncer_;
  bool is_ending_ = false;

  std::string trouble_;  // as last told; the thread's own
  LeftOut left_out_;     // likewise
  std::thread thread_;
};

}  // namespace weir::system::contract
