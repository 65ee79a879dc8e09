// Account: one user's policies, and all callers that work under them.
//
// An account is a guard or a service. A guard follows the service of another party: its
// workers reserve, start when they are told, and commit with what was charged. A
// service enforces the policies itself and refuses with 429. Both keep one book, so
// reservations, consumption and an engine's limits (gate.h) see the same state.
//
//   auto account = Account::create("acme", policies, {.jitter = 100ms}, now);
//   const auto reserved = account->reserve({.costs = *parse_costs("", "0.64")}, now);
//   if (reserved && reserved->verdict == Verdict::kAllowed) ... start at reserved->start
//   account->commit(reserved->reservation, actual, now);
//
// Every call checks its costs first: an error debits nothing.
//
// Thread safety: every function may be called from any thread, without the lock. Threads may arrive
// out of order: a `now` earlier than the latest one counts as that.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/guarded.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/engine/ask.h"
#include "weir/system/contract/account_state.h"
#include "weir/system/contract/book.h"
#include "weir/system/contract/listed.h"
#include "weir/system/contract/policy.h"
#include "weir/system/contract/published.h"
#include "weir/system/contract/refusal.h"

namespace weir::system::contract {

enum class AccountRole : std::uint8_t {
  kGuard,    // keeps `jitter` in hand
  kService,  // is the one who counts: full capacity
};

enum class Rule : std::uint8_t {
  kReservation,  // book.h
  kPublished,    // published.h: as documented, refusals included; knows no deadline, no
                 // longest delay and no feedback
};

constexpr Duration kTimeMax = std::chrono::hours{24 * 366};  // of every option

struct AccountOptions {
  AccountRole role = AccountRole::kGuard;
  Rule rule = Rule::kReservation;
  Duration jitter = std::chrono::milliseconds{100};  // how late a worker may start
  Duration hold = std::chrono::minutes{10};  // so long after its start a reservation is final
  RetryAfterUnit retry_after = RetryAfterUnit::kMilliseconds;
  Duration retry_after_default = std::chrono::seconds{30};  // of a 429 that names none
  std::optional<Duration> max_delay{};                      // of an ask that names none
  std::optional<std::uint64_t> owner{};                     // key of the ids; none: a fresh one
};

struct Ask {
  Costs costs{};
  Instant deadline = kForever;          // the last start of use
  std::optional<Duration> max_delay{};  // the longest wait of use; 0: now or not at all; none:
                                        // the account's
  Duration hold{};                      // 0, or longer than the account's: the account's
  std::string who{};                    // who asks, to be shown; at most kAskNameBytesMax
  // An ask that is repeated under the same key while its reservation lasts is answered as before,
  // and debits nothing. Empty: none; at most kAskNameBytesMax.
  std::string key{};
};

constexpr std::size_t kAskNameBytesMax = 128;
constexpr std::size_t kAskKeysMax = 100'000;  // that an account remembers
constexpr std::size_t kListedMax = 1000;      // reservations in one list
constexpr std::size_t kLookedAtMax = 10'000;  // for one list

// A reservation that has not ended.
struct Listed {
  HoldId reservation{};
  Instant start{};
  Instant expires{};
  Costs costs{0, 0};
  std::string who{};  // empty: it was not said
};

struct Listing {
  std::vector<Listed> rows;
  std::optional<std::uint64_t> next{};  // what follows is after this number; none: nothing is left
};

struct Reserved {
  Verdict verdict = Verdict::kAllowed;  // kDenied: later than asked for; kNever
  Never never = Never::kNot;
  Instant start{};    // when to start, or when it could have; kForever: never
  Wide delay_ns = 0;  // from now
  std::optional<Policy> binding{};
  HoldId reservation{};
  Instant expires{};
  Costs debited{};  // what was taken, whole micro-units; zero unless allowed
};

struct Consumed {
  std::optional<Refusal> refusal{};  // 429
  std::vector<Policy> policies{};    // that it names by their place; of a refusal only
  HoldId reservation{};              // to commit with 0 processing units if the work fails
  Costs debited{};
};

// A 429 that a worker met.
struct Met {
  HoldId reservation{};                   // the one it worked under; released
  Costs costs{};                          // what it asked for, without a reservation
  std::optional<Duration> retry_after{};  // as the service said
  std::optional<Policy> violated{};       // where the service names it
};

// How a reservation stands after a commit.
struct Committed {
  engine::HoldState state = engine::HoldState::kGone;  // kGone: expired, or never was
  std::optional<Costs> debited{};                      // finally; none: it was too long ago
};

struct PolicyView {
  Policy policy;
  std::int64_t left_micro = 0;  // negative in debt
  Wide full_in_ns = 0;          // fixed quotas: -1, not by waiting
};

// How the account stands with the service it follows.
struct Followed {
  std::optional<Instant> contract_at{};  // when it was fetched last; none yet
  std::optional<Instant> counts_at{};
  std::uint64_t fetches = 0;
  std::uint64_t failures = 0;
  bool contract_missing = false;        // the service has no endpoint for it
  std::string error{};                  // what could not be had the last time; empty: nothing
  std::vector<std::string> left_out{};  // types that the service names and nobody here knows
};

struct AccountView {
  std::vector<PolicyView> policies;
  std::size_t outstanding = 0;
  Costs outstanding_costs{0, 0};
  Instant last_start{};
  std::optional<Instant> refreshed_at{};  // when the service last reported
  std::optional<Followed> followed{};     // none: it follows no service
  Totals finals{};
  Totals asked{};                      // under the published rule, which makes no reservations
  std::uint64_t overages_clipped = 0;  // commits that were not charged in full
  std::uint64_t refusals_met = 0;
  std::uint64_t granted = 0;  // reservations and consumptions
  std::uint64_t refused = 0;  // asks that were denied, never or 429
};

// What an account decides by: its book, and what the book is read with.
struct AccountBook {
  AccountOptions options;
  Book book;
  Instant latest{};                    // that a caller came at
  std::optional<Followed> followed{};  // none: it follows no service

  AccountBook(const AccountOptions& chosen, Book begun) : options(chosen), book(std::move(begun)) {}

  // A caller came at `now`. Returns the latest instant, at which it is decided.
  Instant advance(Instant now) {
    latest = later_of(latest, now);
    return latest;
  }
  // It follows a service that has not said yet which policies there are.
  bool awaits_contract() const noexcept {
    return followed && !followed->contract_at && !followed->contract_missing &&
           book.policies().empty();
  }
};

// A gate holds the lock from check to charge, and uses the book meanwhile (guarded.h).
class Account : public Guarded<AccountBook> {
 public:
  // Whether there can be such an account. Refused: more than kPoliciesMax policies, two of one
  // resource and period, times out of range.
  static Status check(std::string_view name, const std::vector<Policy>& policies,
                      const AccountOptions& options);
  // Refused as check() does.
  static Result<std::shared_ptr<Account>> create(std::string name, std::vector<Policy> policies,
                                                 const AccountOptions& options, Instant now);
  Account(const Account&) = delete;
  Account& operator=(const Account&) = delete;

  const std::string& name() const noexcept { return name_; }
  AccountOptions options() const;

  Result<Reserved> reserve(const Ask& ask, Instant now);
  Result<Committed> commit(HoldId reservation, const std::optional<Costs>& actual, Instant now);
  // How the reservation stands afterwards; kGone: expired, or never was.
  engine::HoldState release(HoldId reservation, Instant now);

  // Those that have not ended, in the order in which they were made, from the one after number
  // `after` on: of `who`, or of all if that is empty. At most `most`, and kListedMax, of the next
  // kLookedAtMax.
  Listing list(std::string_view who, std::uint64_t after, std::size_t most) const;

  // The costs of a reservation that has not ended.
  std::optional<Costs> reserved(HoldId reservation) const;

  // Refused: an account of the published rule, which never says no.
  Result<Consumed> consume(const Costs& costs, Instant now);

  // Refused: a reservation or a policy that is not the account's, and an account of the
  // published rule, which learns nothing.
  Status feedback(const Met& met, Instant now);

  // What the service reports as left, in the order of the policies.
  Status refresh(std::span<const std::optional<std::int64_t>> left_micro, Instant now);
  // What a document of the service reports: the counts it names, by resource and period.
  struct Count {
    Resource resource;
    Duration period;
    std::int64_t left_micro;
  };
  // `before`: finals() when the service was asked. What became final since, it may not have
  // counted yet; what had started by then, it has.
  void refresh(std::span<const Count> counts, const Totals& before, Instant now);
  void refresh(std::span<const Count> counts, Instant now) { refresh(counts, finals(), now); }
  Totals finals() const;
  // Other policies; what is outstanding stays. An error leaves the former ones.
  Status change(std::vector<Policy> policies, Instant now);
  // Both in one step: other policies, and what the service reports as left under them.
  Status change(std::vector<Policy> policies, std::span<const Count> counts, const Totals& before,
                Instant now);
  // Other times and units; what is outstanding stays. Role, rule and owner stay too: with
  // another role or rule it is refused.
  Status change_options(const AccountOptions& options);

  // Values and reservations as bytes, and back. restore() comes before the first ask, and
  // goes by the policies that the account has; without any, it takes those it had.
  // Reservations keep their ids. New ones get ids that no process before can have given out,
  // be it without saving them. An error leaves the account as it was.
  std::vector<std::byte> save(Instant now) const;
  Status restore(std::span<const std::byte> bytes, Instant now);
  // Grows with everything that save() would say, time apart.
  std::uint64_t changes() const;

  // How it stands with its service, as its follower says; view() shows it. An account
  // without policies that follows a service is unavailable until it has the contract, or
  // knows that there is no endpoint for it.
  void set_followed(std::optional<Followed> followed);

  // The contracts that the policies came from; none: they came from elsewhere. Shown, not applied.
  void set_given(std::vector<Contract> given);
  std::vector<Contract> given() const;

  std::uint64_t overages_clipped() const;
  std::vector<Policy> policies() const;
  AccountView view(Instant now);

  std::uint64_t owner() const noexcept { return owner_; }

 private:
  Account(std::string name, std::vector<Policy> policies, const AccountOptions& options,
          Instant now);

  bool owns(HoldId reservation) const;
  HoldId id_of(std::uint64_t number) const;
  std::optional<Error> check_contract() const;  // that it need not be awaited
  void refresh_counts_locked(std::span<const Count> counts, const Totals& before, Instant now);
  void change_locked(std::vector<Policy> policies, Instant now);
  void follow_other_rule(Instant now);
  Error wrong_rule(std::string_view what) const;
  // What the ask was answered under its key; none: nothing yet.
  Result<std::optional<Reserved>> answered_before(const Ask& ask, Instant now);
  void remember(const Ask& ask, const Reserved& reserved);
  Result<Reserved> ask_published(const Ask& ask, Instant now);
  Result<HoldId> grant(const Costs& costs, Instant start, Instant expires);
  void refresh_locked(std::span<const std::optional<std::int64_t>> left_micro, const Totals& before,
                      Instant now);

  const std::string name_;
  const std::uint64_t owner_;
  // With the book, under one lock:
  Published published_;          // the same policies under the published rule
  std::vector<Owner> former_;    // processes before this one
  std::uint64_t first_own_ = 1;  // number of the first reservation of `owner_`
  // Who made a reservation, by its number; of those that the book has, and a few before.
  std::map<std::uint64_t, std::string> names_;
  struct Answered {
    Costs costs;
    Reserved reserved;
  };
  std::map<std::string, Answered, std::less<>> answered_;  // by the key of the ask
  std::set<std::pair<Instant, std::string>> forget_at_;    // these keys
  std::vector<Contract> given_;
  std::optional<Instant> refreshed_at_;
  Totals asked_;  // under the published rule
  std::uint64_t refusals_met_ = 0;
  std::uint64_t granted_ = 0;
  std::uint64_t refused_ = 0;
};

}  // namespace weir::system::contract
