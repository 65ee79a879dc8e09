// Syncer: keeps an account in step with the service it is a guard of.
//
// What to fetch and when, and what to make of the answer, without a socket: next()
// names the request that is due, finish() takes what came of it, and next_instant()
// says when to ask again. A client over HTTP does the fetching; step() does a round
// with one.
//
//   token ──► contract ──► token counts ──► wait `refresh` ──► contract ──► ...
//     ▲           └──► contract types, where the user has no contract: their defaults
//     └ renewed before it ends, at a random point, so that many do not renew at once
//
// Other policies take effect together with the counts that follow them, so that a new
// one is not taken for full in between; where counts cannot be had, without them.
//
// Whatever fails, the last good values stay in force, and status() says how old they
// are. A fetch that fails is repeated after `retry`, doubled each time up to `refresh`,
// or when the service's Retry-After is over, and the others go on; only without a token
// nothing else is asked for. Where the service has no such endpoint (404, 410), the
// account works from its configuration and from the refusals its workers report
// (Account::feedback).
//
// Thread safety: none; one thread drives it. The account may be used meanwhile.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/contract/account.h"
#include "weir/system/contract/document.h"

namespace weir::system::contract {

struct SyncerOptions {
  std::string user_id{};      // in the documents; empty: the only one there is
  bool asks_token = false;    // the user is the one that an access token names, if it names one
  bool authenticates = true;  // fetches an access token first
  Duration refresh = std::chrono::minutes{5};
  Duration retry = std::chrono::seconds{5};         // after the first failure
  Duration token_margin = std::chrono::minutes{5};  // renew this long before the end
  std::uint64_t seed = 0;                           // of the jitter
};

enum class Fetch : std::uint8_t {
  kToken,          // POST, client credentials
  kContract,       // GET /aux/ratelimit/contract?userId=eq:ID
  kContractTypes,  // GET /aux/ratelimit/contract/types
  kTokenCounts,    // GET /aux/ratelimit/statistics/tokenCounts/ID
};

constexpr std::size_t kFetches = 4;

constexpr std::string_view to_string(Fetch fetch) noexcept {
  switch (fetch) {
    case Fetch::kToken:
      return "token";
    case Fetch::kContract:
      return "contract";
    case Fetch::kContractTypes:
      return "contract types";
    case Fetch::kTokenCounts:
      return "token counts";
  }
  return "unknown";
}

// What came of a fetch.
struct Fetched {
  int status = 0;      // of HTTP; 0: no answer
  std::string body{};  // or why there is no answer
  std::optional<Duration> retry_after{};
};

// Does the fetching; a call may take long, and must end.
class Fetcher {
 public:
  virtual ~Fetcher() = default;
  virtual Fetched fetch(Fetch what, const std::string& access_token) = 0;
  // Ends the fetch that runs, and every later one at once. From any thread.
  virtual void cancel() noexcept {}
};

struct SyncerStatus {
  std::optional<Duration> contract_age{};  // of the last good values; none yet
  std::optional<Duration> counts_age{};
  bool has_token = false;
  bool endpoint_missing = false;        // of the contract or the counts
  bool contract_missing = false;        // the endpoint of the contract
  std::uint64_t failures_in_a_row = 0;  // of the fetch that has most
  std::uint64_t failures = 0;
  std::uint64_t fetches = 0;
  std::string last_error{};  // what could not be had the last time it was asked for; empty: nothing
  LeftOut left_out{};        // types that the service names and nobody here knows
};

class Syncer {
 public:
  Syncer(std::shared_ptr<Account> account, SyncerOptions options, Instant now);

  // What is to be fetched at `now`; nothing: wait until next_instant().
  std::optional<Fetch> next(Instant now) const;
  Instant next_instant() const;
  const std::string& access_token() const noexcept { return token_; }

  // Before a fetch: notes what the service cannot have counted when it answers.
  void begin(Fetch what, Instant now);
  // The answer to the fetch that next() named. An error says what was wrong with it;
  // the account is as before.
  Status finish(Fetch what, const Fetched& fetched, Instant now);

  // Fetches all that is due at `now`, at most once each. Returns the last error, if
  // there was one.
  Status step(Fetcher& fetcher, Instant now);

  SyncerStatus status(Instant now) const;

 private:
  // One of the fetches.
  struct Task {
    Instant due{};
    std::uint64_t failures_in_a_row = 0;
    std::string trouble{};  // the last time it was asked for; empty: none
    bool missing = false;   // the service said that it has no such endpoint
  };

  bool needs_token() const noexcept { return options_.authenticates && token_.empty(); }
  Status take(Fetch what, const std::string& body, Instant now);
  Status take_token(const std::string& body, Instant now);
  Status take_contract(const std::string& body, Instant now);
  Status take_contract_types(const std::string& body, Instant now);
  Status take_counts(const std::string& body, Instant now);
  // Whose contract it is.
  std::string user_id() const;
  Status adopt(std::vector<Policy> policies, Instant now);
  void adopt_without_counts(Instant now);
  void failed(Fetch what, const Fetched& fetched, Instant now);
  Task& task(Fetch what) { return tasks_[static_cast<std::size_t>(what)]; }
  Duration random_up_to(Duration most);

  std::shared_ptr<Account> account_;
  SyncerOptions options_;
  std::uint64_t random_;
  std::string token_;
  Instant token_ends_{};
  std::array<Task, kFetches> tasks_;            // by Fetch
  std::optional<std::vector<Policy>> awaited_;  // policies that wait for their counts
  std::optional<Totals> finals_before_;         // the fetch of counts
  LeftOut left_out_of_contract_;
  LeftOut left_out_of_types_;
  LeftOut left_out_of_counts_;
  std::optional<Instant> contract_at_;
  std::optional<Instant> counts_at_;
  std::uint64_t failures_ = 0;
  std::uint64_t fetches_ = 0;
};

}  // namespace weir::system::contract
