#include "weir/system/throttle/throttles.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/system/throttle/validate.h"

namespace weir::system::throttle {
namespace {

ThrottleOptions options_of(const ThrottlesSpec& spec, Role role) {
  return {.role = role,
          .nodes = role == Role::kConsensus ? 1 : spec.nodes,
          .clamp_clock = role != Role::kConsensus,
          .explain = true,
          .settings = spec.settings};
}

Transaction named(const ThrottleSet& set, const Submission& submission) {
  Transaction transaction = submission.transaction;
  transaction.operation = set.operations().find(submission.operation);
  return transaction;
}

// What was claimed of the gas bucket.
std::int64_t claimed_gas(const ThrottleSet& set, const Transaction& transaction) {
  const Claim claim = claim_of(transaction, set.settings(), set.options().role, set.listing());
  return claim.gas_use == GasUse::kClaim ? claim.gas : 0;
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
                      .used = set.duration().used(),
                      .capacity = set.duration().capacity(),
                      .percent_used = set.duration().percent_used_now()};
  reading.schedule_refusals = others.schedule;
  reading.unlisted_refusals = others.unlisted;
  return reading;
}

std::optional<Error> check(const ThrottlesSpec& spec) {
  const auto negative = [](std::string_view what, std::int64_t found) {
    return bad_argument(fmt::format(
        "throttles: {} is {}, but it must not be negative; write 0 or more", what, found));
  };
  if (spec.nodes < 1) {
    return bad_argument(
        fmt::format("throttles: nodes is {}, but there must be 1 or more; write the network's size",
                    spec.nodes));
  }
  const Settings& settings = spec.settings;
  if (settings.front_end_gas_per_second < 0) {
    return negative("the front end's gas limit", settings.front_end_gas_per_second);
  }
  if (settings.consensus_gas_per_second < 0) {
    return negative("the consensus gas limit", settings.consensus_gas_per_second);
  }
  if (settings.jumbo_bytes_per_second < 0) {
    return negative("the limit of excess bytes", settings.jumbo_bytes_per_second);
  }
  return std::nullopt;
}

}  // namespace

Throttles::Throttles(ThrottlesSpec spec)
    : nodes_(spec.nodes),
      front_end_(spec.definitions, options_of(spec, Role::kFrontEnd)),
      consensus_(spec.definitions, options_of(spec, Role::kConsensus)),
      congestion_(std::move(spec.tiers), spec.congestion_period_s) {}

Result<std::shared_ptr<Throttles>> Throttles::create(ThrottlesSpec spec) {
  if (auto error = check(spec)) return std::move(*error);
  return std::shared_ptr<Throttles>(new Throttles(std::move(spec)));
}

Result<Submitted> Throttles::submitted(Role role, const Answered<Admission>& said) const {
  if (!said.ok()) {
    return bad_argument(fmt::format(
        "throttles: {}: {}", to_string(said.fault()),
        said.fault() == Fault::kTimeWentBackwards
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
    case Refuser::kBucket:
      result.bucket = set_of(role).buckets()[said->bucket].name;
      break;
    case Refuser::kNobody:
    case Refuser::kUnlisted:
    case Refuser::kMalformed:
      break;
  }
  if (role == Role::kConsensus) {
    result.multiplier =
        std::max(congestion_.generic().multiplier(), congestion_.gas().multiplier());
  }
  return result;
}

Result<Submitted> Throttles::submit(Role role, const Submission& submission, Instant now) {
  const std::scoped_lock lock(lock_);
  ThrottleSet& set = set_of(role);
  const Transaction transaction = named(set, submission);
  Claims claims;
  const Answered<Admission> said = set.decide(transaction, moment_of(now), &claims);
  if (said.ok() && role == Role::kConsensus) congestion_.refresh(consensus_, moment_of(now));
  Result<Submitted> result = submitted(role, said);
  if (result && result->admission.allowed) {
    result->claim = keep(role, std::move(claims), transaction);
  }
  return result;
}

Result<Submitted> Throttles::peek(Role role, const Submission& submission, Instant now) const {
  const std::scoped_lock lock(lock_);
  const ThrottleSet& set = set_of(role);
  return submitted(role, set.peek(named(set, submission), moment_of(now)));
}

std::uint64_t Throttles::keep(Role role, Claims claims, const Transaction& transaction) {
  if (kept_.size() == kClaimsKeptMax) kept_.erase(kept_.begin());
  kept_.emplace(++last_claim_, Kept{role, std::move(claims), claimed_gas(set_of(role), transaction),
                                    transaction.payer});
  return last_claim_;
}

bool Throttles::settle(std::uint64_t claim, std::int64_t gas_used) {
  const std::scoped_lock lock(lock_);
  const auto found = kept_.find(claim);
  if (found == kept_.end()) return false;
  const Kept kept = std::move(found->second);
  kept_.erase(found);
  if (const std::int64_t unused = kept.gas - std::max<std::int64_t>(0, gas_used); unused > 0) {
    (void)set_of(kept.role).return_gas(unused, kept.payer);  // not negative: no fault
  }
  return true;
}

bool Throttles::cancel(std::uint64_t claim) {
  const std::scoped_lock lock(lock_);
  const auto found = kept_.find(claim);
  if (found == kept_.end()) return false;
  set_of(found->second.role).refund(found->second.claims);
  kept_.erase(found);
  return true;
}

Status Throttles::set_definitions(std::string_view text, std::string_view file) {
  // Read without the lock, because that may take a while; again, should the network have
  // grown meanwhile.
  std::int32_t nodes = 0;
  for (;;) {
    {
      const std::scoped_lock lock(lock_);
      nodes = nodes_;
    }
    const Result<Definitions> definitions = load_definitions(text, file, nodes);
    if (!definitions) return definitions.error();
    const std::scoped_lock lock(lock_);
    if (nodes != nodes_) continue;
    front_end_.rebuild(*definitions);
    consensus_.rebuild(*definitions);
    congestion_.forget();
    return Done{};
  }
}

Status Throttles::change(const ThrottlesSpec& before, const ThrottlesSpec& after) {
  if (auto error = check(after)) return std::move(*error);
  const std::scoped_lock lock(lock_);
  if (before.settings != after.settings) {
    front_end_.configure(after.settings);
    consensus_.configure(after.settings);
  }
  if (before.nodes != after.nodes || before.definitions != after.definitions) {
    nodes_ = after.nodes;
    front_end_.rebuild(after.definitions, after.nodes);
    consensus_.rebuild(after.definitions);
    congestion_.forget();
  }
  if (before.tiers != after.tiers || before.congestion_period_s != after.congestion_period_s) {
    congestion_.configure(after.tiers, after.congestion_period_s);
  }
  return Done{};
}

Reading Throttles::reading(Instant now) const {
  const std::scoped_lock lock(lock_);
  const Moment at = moment_of(now);
  return {nodes_, read(front_end_, at), read(consensus_, at), congestion_.generic().multiplier(),
          congestion_.gas().multiplier()};
}

std::string Throttles::snapshot(Role role) const {
  const std::scoped_lock lock(lock_);
  return to_json(snapshot_of(set_of(role), role == Role::kConsensus ? &congestion_ : nullptr));
}

std::string Throttles::positional_snapshot() const {
  const std::scoped_lock lock(lock_);
  return to_json(positional_snapshot_of(consensus_, &congestion_));
}

Result<RestoreReport> Throttles::restore(Role role, std::string_view text) {
  const Result<Snapshot> snapshot = parse_snapshot(text);
  if (!snapshot) return snapshot.error();
  const std::scoped_lock lock(lock_);
  return throttle::restore(*snapshot, set_of(role),
                           role == Role::kConsensus ? &congestion_ : nullptr);
}

Status Throttles::restore_positional(std::string_view text) {
  const Result<PositionalSnapshot> snapshot = parse_positional_snapshot(text);
  if (!snapshot) return snapshot.error();
  const std::scoped_lock lock(lock_);
  // Tried on copies first: the published way leaves half of what does not fit.
  ThrottleSet set = consensus_;
  Congestion congestion = congestion_;
  const Fault fault = throttle::restore(*snapshot, RestorePolicy::kFailFast, set, &congestion);
  if (fault != Fault::kNone) {
    return bad_argument(fmt::format(
        "snapshot: {}: it has {} buckets, and there are {} ({} without the high-volume ones), or a "
        "level is outside its bucket; write one of the same definitions, or one with names",
        to_string(fault), snapshot->buckets.size(), consensus_.buckets().size(),
        consensus_.normal_buckets()));
  }
  consensus_ = std::move(set);
  congestion_ = std::move(congestion);
  return Done{};
}

}  // namespace weir::system::throttle
