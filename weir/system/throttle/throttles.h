// Throttles: the front end and consensus of one network, together and for many threads.
//
// What a server keeps: both sets of buckets, the congestion multipliers, and the claims of
// transactions that may still be settled or cancelled. Definitions change as a whole, or
// not at all.
//
//   auto throttles = Throttles::create({.definitions = *definitions, .nodes = 31});
//   Result<Submitted> said = throttles->submit(
//       SetRole::kFrontEnd, {.operation = "ContractCall", .transaction = {.gas = 50'000}}, now);
//   said->status;                         // `OK`, or `BUSY`
//   throttles->settle(said->claim, {.gas = 21'000});
//
// The front end's clock never goes back; consensus time that does is an error.
//
// Thread safety: every function may be called from any number of threads.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weir/base/decision.h"
#include "weir/base/guarded.h"
#include "weir/base/result.h"
#include "weir/base/time.h"
#include "weir/system/throttle/definitions.h"
#include "weir/system/throttle/kept_claims.h"
#include "weir/system/throttle/published/congestion.h"
#include "weir/system/throttle/snapshot.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {

constexpr std::size_t kClaimsKeptMax = 65'536;  // beyond it the oldest is final
constexpr std::size_t kClaimSheets = kClaimsKeptMax / kClaimsOfSheet;

struct ThrottlesSpec {
  Definitions definitions{};
  std::int32_t nodes = 1;
  NetworkSettings settings{};
  std::vector<Tier> tiers{{90, 10}, {95, 25}, {99, 100}};
  std::int64_t congestion_period_s = 60;
  // How far ahead of the clock an instant from outside may be; none: any is taken, for replays.
  std::optional<Duration> ahead = std::chrono::seconds{10};
  std::optional<std::uint64_t> owner{};  // key of the ids of claims; none: a fresh one
};

// Whether throttles can be made of it, or change to it. An error if a limit is negative or there
// are no nodes.
Status check(const ThrottlesSpec& spec);

struct Submission {
  std::string_view operation;
  Transaction transaction{};               // its operations are ignored: they are named here
  std::string_view scheduled_operation{};  // where transaction.scheduled has something
};

struct Submitted {
  Admission admission{};
  std::string_view status{};    // the network's own word
  std::string bucket{};         // that refused: a name, or `gas`, `bytes`, `duration`, `schedule`
  std::int64_t multiplier = 1;  // of the fee, before entity scaling; consensus only
  HoldId claim{};               // for settle() and cancel(); none: refused
};

// In the words of an ordinary decision. When it fits, of what was decided at `at`; kForever:
// unknown, or never.
Verdict verdict_of(const Submitted& said) noexcept;
Instant earliest_of(const Submitted& said, Instant at) noexcept;
// A bucket's name, `gas`, `bytes`, `duration`, `schedule`, `unlisted`, `malformed`; empty: it was
// let through.
std::string_view refused_by(const Submitted& said) noexcept;

// A fee's multiplier is another one than before.
struct TierChange {
  bool of_gas = false;  // otherwise the generic one
  std::int64_t from = 1;
  std::int64_t to = 1;
  Moment at{};  // of consensus
};
constexpr std::size_t kTierChangesKept = 8;  // beyond it the oldest is only counted

struct BucketReading {
  std::string name;
  bool high_volume = false;
  std::int64_t burst_ms = 0;
  std::int64_t milli_ops = 0;
  std::int64_t used = 0;  // leaked up to the instant asked for
  std::int64_t capacity = 0;
  double percent_used = 0;
  std::uint64_t refusals = 0;  // since it was built
};

struct SetReading {
  std::vector<BucketReading> buckets{};
  std::vector<DroppedBucket> dropped{};
  BucketReading gas{};
  std::optional<BucketReading> bytes{};
  BucketReading duration{};
  std::uint64_t schedule_refusals = 0;
  std::uint64_t unlisted_refusals = 0;
};

struct Reading {
  std::int32_t nodes = 1;
  SetReading front_end{};
  SetReading consensus{};
  std::int64_t generic_multiplier = 1;
  std::int64_t gas_multiplier = 1;
  std::uint64_t generic_changes = 0;  // of the multipliers, since these throttles were made
  std::uint64_t gas_changes = 0;
};

// What a transaction really took.
struct Used {
  std::int64_t gas = 0;
  std::optional<std::int64_t> duration{};  // units of a contract's work; of consensus only
};

// What the end of a claim did.
enum class ClaimEnd : std::uint8_t {
  kUnknown,  // it has ended already, is too old, or was made elsewhere
  kSame,     // there is no more room than before
  kRoom,     // something was given back
};

// What outlives the process, as of one instant.
struct ThrottlesState {
  std::string front_end{};  // snapshots
  std::string consensus{};
  // Sheets of claims that may have changed, by their places.
  std::vector<std::pair<std::size_t, std::string>> sheets{};
};

// The front end's buckets and those of consensus.
struct ThrottleSets {
  ThrottleSet front_end;
  ThrottleSet consensus;

  ThrottleSets(ThrottleSet at_front, ThrottleSet at_consensus)
      : front_end(std::move(at_front)), consensus(std::move(at_consensus)) {}

  ThrottleSet& of(SetRole role) noexcept {
    return role == SetRole::kConsensus ? consensus : front_end;
  }
  const ThrottleSet& of(SetRole role) const noexcept {
    return role == SetRole::kConsensus ? consensus : front_end;
  }
};

// A gate holds the lock from check to charge, and uses the sets meanwhile (guarded.h).
class Throttles : public Guarded<ThrottleSets> {
 public:
  // Fails as check() does.
  static Result<std::shared_ptr<Throttles>> create(ThrottlesSpec spec);

  Result<Submitted> submit(SetRole role, const Submission& submission, Instant now);
  // What submit() would say. Changes nothing.
  Result<Submitted> peek(SetRole role, const Submission& submission, Instant now) const;

  // Whether consensus may be decided at `at`, an instant from outside: an error if that is more
  // than the spec's `ahead` after `now`, because every decision after it must be later still.
  Status check_instant(Instant at, Instant now) const;

  // Whose the claim is; none: settle() would not know it.
  std::optional<SetRole> role_of(HoldId claim) const;

  // The work is done: gas that was claimed and not used is given back, and its duration is
  // charged, at the transaction's instant or when some was charged last, whichever is later.
  // Fails, and the claim goes on, if a duration is said of a transaction at the front end.
  Result<ClaimEnd> settle(HoldId claim, const Used& used);
  // It was not done: everything is given back.
  ClaimEnd cancel(HoldId claim);

  // Read strictly and judged for this network; on an error the old ones stay in force.
  Status set_definitions(std::string_view text, std::string_view file);

  // Puts what differs between two specs in force. With other nodes or definitions all
  // operation buckets are built anew and empty; with other settings gas, bytes and duration.
  // Requires that check() finds nothing in `after`.
  void change(const ThrottlesSpec& before, const ThrottlesSpec& after);

  Reading reading(Instant now) const;
  // What has changed since this was asked before, the oldest first.
  std::vector<TierChange> take_tier_changes();

  std::string snapshot(SetRole role) const;
  std::string positional_snapshot() const;  // of consensus, which alone is saved
  // Claims of that role that were made before can no longer be given back. The front end's
  // clock must not be ahead of `now`, because nothing would leak until then; consensus' clocks
  // not by more than the spec's `ahead`.
  Result<RestoreReport> restore(SetRole role, std::string_view text, Instant now);
  Status restore_positional(std::string_view text, Instant now);
  // The same as restore() for what we have kept ourselves. If its clocks are ahead, ours was when
  // it was kept, and is right now: they are shifted back, so that what has to leak still takes as
  // long.
  Result<RestoreReport> bring_back(SetRole role, std::string_view text, Instant now);

  // --- claims over a restart
  // The levels, and the sheets that changed since the last call.
  ThrottlesState state_to_keep();
  // It was not written, or it is of another process: state_to_keep() returns it again.
  void mark_sheet(std::size_t sheet);
  // Claims of an earlier process go on, with the ids that they had; after bring_back() of the
  // levels, which forgets claims. With other buckets than then nothing of them can be given back.
  // One that cannot be of these buckets, or has come before, or is beyond the bound, is left out.
  void bring_back(const ClaimSheet& sheet);

 private:
  explicit Throttles(ThrottlesSpec spec);

  Result<Submitted> submitted(SetRole role, const Answered<Admission>& said) const;
  Result<RestoreReport> restore(SetRole role, const Snapshot& snapshot);
  Status check_ahead(std::string_view what, Moment latest, Instant now) const;
  HoldId keep(SetRole role, Claims claims, Moment at);
  void forget_claims(SetRole role);
  void refresh_congestion(Moment at);

  struct Kept {
    SetRole role;
    Claims claims;
    Moment at;
    std::uint64_t word;
    std::uint32_t place;  // in places_
  };
  using KeptClaims = std::map<std::uint64_t, Kept>;  // by number
  // The end: it has ended, is too old, or was never made here.
  KeptClaims::const_iterator find_claim(HoldId claim) const;
  void insert_claim(std::uint64_t number, std::uint64_t word, SetRole role, Claims claims,
                    Moment at);
  void erase_claim(KeptClaims::const_iterator claim);

  // With the sets, under one lock:
  std::int32_t nodes_;
  std::optional<Duration> ahead_;
  Congestion congestion_;
  std::vector<TierChange> tier_changes_;  // not taken yet
  std::uint64_t generic_changes_ = 0;
  std::uint64_t gas_changes_ = 0;
  KeptClaims kept_;
  // Which claim stands in which place of which sheet: its number, or 0.
  std::vector<std::uint64_t> places_;
  std::vector<std::uint32_t> free_places_;
  std::vector<bool> changed_sheets_ = std::vector<bool>(kClaimSheets);
  std::uint64_t owner_;
  std::uint64_t last_claim_ = 0;
};

}  // namespace weir::system::throttle
