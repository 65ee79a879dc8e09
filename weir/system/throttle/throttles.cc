// What holds whenever the lock is free:
//
//  1. Both sets are built of the same definitions: at the front end a node's share of them, at
//     consensus the whole.
//  2. congestion_ looks at buckets of consensus. Whenever those are made anew, it forgets which
//     tiers were on.
//  3. kept_ has claims of transactions that were allowed and have not ended. settle() and cancel()
//     take a claim out, so each ends once; an error leaves it.
//  4. Numbers of claims rise, so the first in kept_ is the oldest: it goes when there are
//     kClaimsKeptMax of them. A claim is known by the word beside its number alone, and keeps it
//     over a restart. Each has a place on a sheet, and a sheet is marked whenever a claim comes to
//     it or leaves it.
//  5. What is read from outside (definitions, snapshots, settings) is judged before anything
//     changes. An error has changed nothing.

#include "weir/system/throttle/throttles.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "weir/base/hold_text.h"
#include "weir/base/keyed_word.h"
#include "weir/engine/quantity.h"
#include "weir/system/throttle/validate.h"

namespace weir::system::throttle {
namespace {

ThrottleOptions options_of(const ThrottlesSpec& spec, SetRole role) {
  return {.role = role,
          .nodes = role == SetRole::kConsensus ? 1 : spec.nodes,
          .clamp_clock = role != SetRole::kConsensus,
          .explain = true,
          .knows_queries = role != SetRole::kConsensus,
          .settings = spec.settings};
}

Transaction named(const ThrottleSet& set, const Submission& submission) {
  Transaction transaction = submission.transaction;
  transaction.operation = set.operations().find(submission.operation);
  if (transaction.scheduled) {
    transaction.scheduled->operation = set.operations().find(submission.scheduled_operation);
  }
  return transaction;
}

// Claims of different processes have different words: a late word about a claim of an earlier
// process ends no other one.
std::uint64_t fresh_claims_owner() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

SetReading read(const ThrottleSet& set, Moment at) {
  SetReading reading;
  for (const LiveBucket& live : set.buckets()) {
    reading.buckets.push_back({live.name, live.high_volume, live.burst_ms, live.bucket.milli_ops(),
                               live.bucket.used_at(at), live.bucket.capacity(),
                               live.bucket.percent_used(at), live.refusals});
  }
  reading.dropped.assign(set.dropped().begin(), set.dropped().end());
  const OtherRefusals& others = set.other_refusals();
  const auto scalar = [&](std::string name, const ScalarBucket& bucket, std::uint64_t refusals) {
    return BucketReading{.name = std::move(name),
                         .burst_ms = 1000,
                         .used = bucket.capacity() - bucket.free_at(at),
                         .capacity = bucket.capacity(),
                         .percent_used = bucket.percent_used(at),
                         .refusals = refusals};
  };
  reading.gas = scalar("gas", set.gas(), others.gas);
  if (set.bytes()) reading.bytes = scalar("bytes", *set.bytes(), others.bytes);
  reading.duration = {.name = "duration",
                      .used = set.duration().used_at(at),
                      .capacity = set.duration().capacity(),
                      .percent_used = set.duration().percent_used(at),
                      .refusals = others.duration};
  reading.schedule_refusals = others.schedule;
  reading.unlisted_refusals = others.unlisted;
  return reading;
}

}  // namespace

Verdict verdict_of(const Submitted& said) noexcept {
  if (said.admission.allowed) return Verdict::kAllowed;
  return said.admission.never ? Verdict::kNever : Verdict::kDenied;
}

Instant earliest_of(const Submitted& said, Instant at) noexcept {
  if (said.admission.allowed) return at;
  return said.admission.never ? kForever : said.admission.fits_at;
}

std::string_view refused_by(const Submitted& said) noexcept {
  switch (said.admission.refuser) {
    case Refuser::kUnlisted:
      return "unlisted";
    case Refuser::kMalformed:
      return "malformed";
    default:
      return said.bucket;
  }
}

Status check(const ThrottlesSpec& spec) {
  const auto negative = [](std::string_view what, std::int64_t found) {
    return bad_argument(fmt::format(
        "throttles: {} is {}, but it must not be negative; write 0 or more", what, found));
  };
  if (spec.nodes < 1) {
    return bad_argument(
        fmt::format("throttles: nodes is {}, but there must be 1 or more; write the network's size",
                    spec.nodes));
  }
  if (spec.ahead && spec.ahead->count() < 0) return negative("ahead", spec.ahead->count());
  const NetworkSettings& settings = spec.settings;
  if (settings.front_end_gas_per_second < 0) {
    return negative("the front end's gas limit", settings.front_end_gas_per_second);
  }
  if (settings.consensus_gas_per_second < 0) {
    return negative("the consensus gas limit", settings.consensus_gas_per_second);
  }
  if (settings.jumbo_bytes_per_second < 0) {
    return negative("the limit of excess bytes", settings.jumbo_bytes_per_second);
  }
  if (settings.duration_capacity < 0) {
    return negative("the capacity for duration", settings.duration_capacity);
  }
  if (settings.duration_per_second < 0) {
    return negative("the duration that leaks in a second", settings.duration_per_second);
  }
  return Done{};
}

// cppcheck-suppress passedByValue  ; its members are moved
Throttles::Throttles(ThrottlesSpec spec)
    : Guarded(std::in_place, ThrottleSet(spec.definitions, options_of(spec, SetRole::kFrontEnd)),
              ThrottleSet(spec.definitions, options_of(spec, SetRole::kConsensus))),
      nodes_(spec.nodes),
      ahead_(spec.ahead),
      congestion_(std::move(spec.tiers), spec.congestion_period_s),
      owner_(spec.owner ? *spec.owner : fresh_claims_owner()) {}

Result<std::shared_ptr<Throttles>> Throttles::create(ThrottlesSpec spec) {
  if (Status status = check(spec); !status) return std::move(status).error();
  return std::shared_ptr<Throttles>(new Throttles(std::move(spec)));
}

Result<Submitted> Throttles::submitted(SetRole role, const Answered<Admission>& said) const {
  if (!said.ok()) {
    return bad_argument(fmt::format(
        "throttles: {}: {}", to_string(said.anomaly()),
        said.anomaly() == Anomaly::kTimeWentBackwards
            ? "the instant is before the last decision; give consensus instants in their order"
            : "the numbers of this transaction cannot be used; write smaller ones"));
  }
  Submitted result;
  result.admission = *said;
  result.status = status_of(role, *said);
  switch (said->refuser) {
    case Refuser::kGas:
      result.bucket = "gas";
      break;
    case Refuser::kBytes:
      result.bucket = "bytes";
      break;
    case Refuser::kSchedule:
      result.bucket = "schedule";
      break;
    case Refuser::kDuration:
      result.bucket = "duration";
      break;
    case Refuser::kBucket:
      result.bucket = locked().of(role).buckets()[said->bucket].name;
      break;
    case Refuser::kNone:
    case Refuser::kUnlisted:
    case Refuser::kMalformed:
      break;
  }
  if (role == SetRole::kConsensus) {
    result.multiplier =
        std::max(congestion_.generic().multiplier(), congestion_.gas().multiplier());
  }
  return result;
}

Result<Submitted> Throttles::submit(SetRole role, const Submission& submission, Instant now) {
  const std::scoped_lock lock(*this);
  ThrottleSet& set = locked().of(role);
  const Transaction transaction = named(set, submission);
  const Moment at = moment_of(now);
  Claims claims;
  Answered<Admission> said = set.decide(transaction, at, &claims);
  if (said.ok() && role == SetRole::kConsensus) {
    refresh_congestion(at);
    if (said->allowed && set.lacks_duration(transaction, at)) {
      said = set.refuse_without_duration(claims, at);
    }
  }
  Result<Submitted> result = submitted(role, said);
  if (result && result->admission.allowed) {
    result->claim = keep(role, std::move(claims), at);
  }
  return result;
}

// Requires the lock.
void Throttles::refresh_congestion(Moment at) {
  const std::int64_t generic = congestion_.generic().multiplier();
  const std::int64_t gas = congestion_.gas().multiplier();
  congestion_.refresh(locked().consensus, at);
  const auto note = [&](bool of_gas, std::int64_t from, std::int64_t to, std::uint64_t& count) {
    if (from == to) return;
    count += 1;
    if (tier_changes_.size() == kTierChangesKept) tier_changes_.erase(tier_changes_.begin());
    tier_changes_.push_back({of_gas, from, to, at});
  };
  note(false, generic, congestion_.generic().multiplier(), generic_changes_);
  note(true, gas, congestion_.gas().multiplier(), gas_changes_);
}

std::vector<TierChange> Throttles::take_tier_changes() {
  const std::scoped_lock lock(*this);
  return std::exchange(tier_changes_, {});
}

Result<Submitted> Throttles::peek(SetRole role, const Submission& submission, Instant now) const {
  const std::scoped_lock lock(*this);
  const ThrottleSet& set = locked().of(role);
  const Transaction transaction = named(set, submission);
  const Moment at = moment_of(now);
  Answered<Admission> said = set.peek(transaction, at);
  if (role == SetRole::kConsensus && said.ok() && said->allowed &&
      set.lacks_duration(transaction, at)) {
    said = set.without_duration(at);
  }
  return submitted(role, said);
}

// Requires the lock.
Status Throttles::check_ahead(std::string_view what, Moment latest, Instant now) const {
  if (!ahead_ || latest <= moment_of(now + *ahead_)) return Done{};
  return bad_argument(fmt::format(
      "{} is at second {}, but it must be at most {} after the server's clock, which is at second "
      "{}; correct one of the two, or write 'throttles: {{ ahead: off }}' for a replay",
      what, latest.seconds, engine::duration_text(*ahead_), moment_of(now).seconds));
}

Status Throttles::check_instant(Instant at, Instant now) const {
  const std::scoped_lock lock(*this);
  return check_ahead("the instant", moment_of(at), now);
}

Throttles::KeptClaims::const_iterator Throttles::find_claim(HoldId claim) const {
  const auto found = kept_.find(claim.number);
  if (found == kept_.end() || claim.is_shared) return kept_.end();
  return found->second.word == claim.owner ? found : kept_.end();
}

void Throttles::insert_claim(std::uint64_t number, std::uint64_t word, SetRole role, Claims claims,
                             Moment at) {
  auto place = static_cast<std::uint32_t>(places_.size());
  if (free_places_.empty()) {
    places_.push_back(number);
  } else {
    place = free_places_.back();
    free_places_.pop_back();
    places_[place] = number;
  }
  changed_sheets_[place / kClaimsOfSheet] = true;
  kept_.emplace(number, Kept{role, std::move(claims), at, word, place});
}

void Throttles::erase_claim(KeptClaims::const_iterator claim) {
  const std::uint32_t place = claim->second.place;
  places_[place] = 0;
  free_places_.push_back(place);
  changed_sheets_[place / kClaimsOfSheet] = true;
  kept_.erase(claim);
}

std::optional<SetRole> Throttles::role_of(HoldId claim) const {
  const std::scoped_lock lock(*this);
  const auto found = find_claim(claim);
  return found == kept_.end() ? std::nullopt : std::optional(found->second.role);
}

HoldId Throttles::keep(SetRole role, Claims claims, Moment at) {
  if (kept_.size() == kClaimsKeptMax) erase_claim(kept_.begin());
  const HoldId claim{owned_word(owner_, last_claim_ + 1), last_claim_ + 1};
  insert_claim(claim.number, claim.owner, role, std::move(claims), at);
  last_claim_ = claim.number;
  return claim;
}

void Throttles::forget_claims(SetRole role) {
  for (auto each = kept_.cbegin(); each != kept_.cend();) {
    const auto claim = each++;
    if (claim->second.role == role) erase_claim(claim);
  }
  locked().of(role).forget_claims();
}

Result<ClaimEnd> Throttles::settle(HoldId claim, const Used& used) {
  const std::scoped_lock lock(*this);
  const auto found = find_claim(claim);
  if (found == kept_.end()) return ClaimEnd::kUnknown;
  const Kept& kept = found->second;
  ThrottleSet& set = locked().of(kept.role);
  if (used.duration && kept.role != SetRole::kConsensus) {
    return bad_argument(fmt::format(
        "claim {}: duration is {}, but the claim is the front end's, and work is counted at "
        "consensus; leave it out",
        hold_text(claim), *used.duration));
  }
  // Exempt payers have claimed nothing, and have used nothing.
  if (used.duration && !kept.claims.empty()) {
    const Moment at = std::max(kept.at, set.duration().usage().decided.value_or(kept.at));
    if (set.use_duration(*used.duration, at) != Anomaly::kNone) {
      return bad_argument(
          fmt::format("claim {}: its instant is too far from the last one; give consensus "
                      "instants in their order",
                      hold_text(claim)));
    }
  }
  const bool any = set.refund_gas(kept.claims, used.gas);
  erase_claim(found);
  return any ? ClaimEnd::kRoom : ClaimEnd::kSame;
}

ClaimEnd Throttles::cancel(HoldId claim) {
  const std::scoped_lock lock(*this);
  const auto found = find_claim(claim);
  if (found == kept_.end()) return ClaimEnd::kUnknown;
  locked().of(found->second.role).refund(found->second.claims);
  erase_claim(found);
  return ClaimEnd::kRoom;
}

Status Throttles::set_definitions(std::string_view text, std::string_view file) {
  // Read without the lock, because that may take a while; again, should the network have
  // grown meanwhile.
  std::int32_t nodes = 0;
  for (;;) {
    {
      const std::scoped_lock lock(*this);
      nodes = nodes_;
    }
    const Result<Definitions> definitions = load_definitions(text, file, nodes);
    if (!definitions) return definitions.error();
    const std::scoped_lock lock(*this);
    if (nodes != nodes_) continue;
    locked().front_end.rebuild(*definitions);
    locked().consensus.rebuild(*definitions);
    congestion_.forget();
    return Done{};
  }
}

void Throttles::change(const ThrottlesSpec& before, const ThrottlesSpec& after) {
  WEIR_ASSERT(check(after).ok());
  const std::scoped_lock lock(*this);
  ahead_ = after.ahead;
  if (before.settings != after.settings) {
    locked().front_end.configure(after.settings);
    locked().consensus.configure(after.settings);
    congestion_.forget();
  }
  // Consensus is not split, so the number of nodes is nothing to it.
  const bool other_definitions = before.definitions != after.definitions;
  if (other_definitions || before.nodes != after.nodes) {
    nodes_ = after.nodes;
    locked().front_end.rebuild(after.definitions, after.nodes);
  }
  if (other_definitions) {
    locked().consensus.rebuild(after.definitions);
    congestion_.forget();
  }
  if (before.tiers != after.tiers || before.congestion_period_s != after.congestion_period_s) {
    congestion_.configure(after.tiers, after.congestion_period_s);
  }
}

Reading Throttles::reading(Instant now) const {
  const std::scoped_lock lock(*this);
  const Moment at = moment_of(now);
  return {nodes_,
          read(locked().front_end, at),
          read(locked().consensus, at),
          congestion_.generic().multiplier(),
          congestion_.gas().multiplier(),
          generic_changes_,
          gas_changes_};
}

std::string Throttles::snapshot(SetRole role) const {
  const std::scoped_lock lock(*this);
  return to_json(
      snapshot_of(locked().of(role), role == SetRole::kConsensus ? &congestion_ : nullptr));
}

ThrottlesState Throttles::state_to_keep() {
  const std::scoped_lock lock(*this);
  const ThrottleSets& sets = locked();
  ThrottlesState state{.front_end = to_json(snapshot_of(sets.front_end, nullptr)),
                       .consensus = to_json(snapshot_of(sets.consensus, &congestion_))};
  ClaimSheet sheet{.front_end_shape = sets.front_end.shape(),
                   .consensus_shape = sets.consensus.shape()};
  for (std::size_t i = 0; i < kClaimSheets; ++i) {
    if (!changed_sheets_[i]) continue;
    changed_sheets_[i] = false;
    sheet.claims.clear();
    const std::size_t end = std::min(places_.size(), (i + 1) * kClaimsOfSheet);
    for (std::size_t place = i * kClaimsOfSheet; place < end; ++place) {
      if (places_[place] == 0) continue;
      const Kept& kept = kept_.at(places_[place]);
      sheet.claims.push_back({places_[place], kept.word, kept.role, kept.at,
                              sets.of(kept.role).kept_items(kept.claims)});
    }
    state.sheets.emplace_back(i, to_text(sheet));
  }
  return state;
}

void Throttles::mark_sheet(std::size_t sheet) {
  const std::scoped_lock lock(*this);
  if (sheet < kClaimSheets) changed_sheets_[sheet] = true;
}

void Throttles::bring_back(const ClaimSheet& sheet) {
  const std::scoped_lock lock(*this);
  for (const KeptClaim& claim : sheet.claims) {
    // Numbers go on behind all that are known.
    if (claim.number >= std::uint64_t{1} << 62) continue;
    const ThrottleSet& set = locked().of(claim.role);
    const bool same_shape =
        set.shape() ==
        (claim.role == SetRole::kConsensus ? sheet.consensus_shape : sheet.front_end_shape);
    Claims claims;
    if (kept_.size() == kClaimsKeptMax || kept_.contains(claim.number)) continue;
    if (!set.bring_back(claim.items, same_shape, claims)) continue;
    insert_claim(claim.number, claim.word, claim.role, std::move(claims), claim.at);
    last_claim_ = std::max(last_claim_, claim.number);
  }
}

std::string Throttles::positional_snapshot() const {
  const std::scoped_lock lock(*this);
  return to_json(positional_snapshot_of(locked().consensus, &congestion_));
}

Result<RestoreReport> Throttles::restore(SetRole role, std::string_view text, Instant now) {
  const Result<Snapshot> snapshot = parse_snapshot(text);
  if (!snapshot) return snapshot.error();
  if (role != SetRole::kConsensus && snapshot->clock > moment_of(now)) {
    return bad_argument(fmt::format(
        "snapshot: its clock is at second {}, but now is second {}; correct the clock of one of "
        "the two machines, or wait",
        snapshot->clock.seconds, moment_of(now).seconds));
  }
  const std::scoped_lock lock(*this);
  if (Status status = check_ahead("the snapshot", latest_of(*snapshot), now); !status) {
    return std::move(status).error();
  }
  return restore(role, *snapshot);
}

// Requires the lock.
Result<RestoreReport> Throttles::restore(SetRole role, const Snapshot& snapshot) {
  Result<RestoreReport> report = throttle::restore(
      snapshot, locked().of(role), role == SetRole::kConsensus ? &congestion_ : nullptr);
  if (report) forget_claims(role);
  return report;
}

Result<RestoreReport> Throttles::bring_back(SetRole role, std::string_view text, Instant now) {
  Result<Snapshot> snapshot = parse_snapshot(text);
  if (!snapshot) return std::move(snapshot).error();
  const std::scoped_lock lock(*this);
  const Moment at = moment_of(now);
  const Moment latest = latest_of(*snapshot);
  // Instants of consensus are not our clock's, and may be ahead of it as far as we let them.
  const bool is_ahead =
      role == SetRole::kConsensus ? !check_ahead("the snapshot", latest, now) : latest > at;
  if (is_ahead) {
    const std::optional<std::int64_t> by_ns = elapsed_ns(at, latest);
    if (!by_ns) {
      return bad_argument(fmt::format(
          "snapshot: it is of second {}, and now is second {}, centuries before; set the clock",
          latest.seconds, at.seconds));
    }
    shift_back(*snapshot, Duration{*by_ns});
  }
  return restore(role, *snapshot);
}

Status Throttles::restore_positional(std::string_view text, Instant now) {
  const Result<PositionalSnapshot> snapshot = parse_positional_snapshot(text);
  if (!snapshot) return snapshot.error();
  const std::scoped_lock lock(*this);
  if (Status status = check_ahead("the snapshot", latest_of(*snapshot), now); !status) {
    return status;
  }
  // Tried on copies first: the published way leaves half of what does not fit.
  ThrottleSet set = locked().consensus;
  Congestion congestion = congestion_;
  const Anomaly anomaly = throttle::restore(*snapshot, RestorePolicy::kFailFast, set, &congestion);
  if (anomaly != Anomaly::kNone) {
    return bad_argument(fmt::format(
        "snapshot: {}: it has {} buckets, and there are {} ({} without the high-volume ones), or a "
        "level is outside its bucket; write one of the same definitions, or one with names",
        to_string(anomaly), snapshot->buckets.size(), locked().consensus.buckets().size(),
        locked().consensus.normal_buckets()));
  }
  locked().consensus = std::move(set);
  congestion_ = std::move(congestion);
  forget_claims(SetRole::kConsensus);
  return Done{};
}

}  // namespace weir::system::throttle
