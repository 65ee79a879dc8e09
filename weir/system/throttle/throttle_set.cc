// What holds after every call:
//
//  1. operations_, listing_ and buckets_ are made together: an id of the first is a place in the
//     second, which names places in the third. Normal buckets come first, normal_count_ of them.
//  2. A decision that was refused has taken nothing of gas and of operation buckets, though those
//     it asked have leaked and moved their clocks. Bytes stay taken, as published.
//  3. With clamp_clock, no transaction is decided at an earlier moment than latest_.
//  4. An item of Claims is given back only to buckets of the generation it names, which are those
//     it was taken from: making buckets anew begins another generation.
//  5. decide() and peek() go the same way (decision_order.h). The short way of decide() is for
//     claims that only one plain operation concerns; a refusal takes the long way after it.

#include "weir/system/throttle/throttle_set.h"

#include <algorithm>
#include <utility>

#include "weir/base/assert.h"
#include "weir/system/throttle/decision_order.h"
#include "weir/system/throttle/published/numbers.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {
namespace {

ScalarBucket scalar_of(std::int64_t per_second) {
  const std::optional<ScalarBucket> made = ScalarBucket::make(per_second);
  WEIR_ASSERT(made.has_value());
  return *made;
}

std::int64_t gas_per_second(const ThrottleOptions& options) {
  return options.role == SetRole::kConsensus ? options.settings.consensus_gas_per_second
                                             : options.settings.front_end_gas_per_second;
}

Instant after(Moment now, std::optional<std::int64_t> ns) noexcept {
  return ns ? instant_of(now) + Duration{*ns} : kForever;
}

}  // namespace

ThrottleSet::ThrottleSet(const Definitions& definitions, ThrottleOptions options)
    : options_(std::move(options)),
      gas_(scalar_of(gas_per_second(options_))),
      duration_(options_.settings.duration_capacity, options_.settings.duration_per_second) {
  WEIR_ASSERT(options_.nodes >= 1);
  make_scalars();
  rebuild(definitions);
}

void ThrottleSet::make_scalars() {
  const NetworkSettings& settings = options_.settings;
  gas_ = scalar_of(gas_per_second(options_));
  bytes_.reset();
  if (options_.role != SetRole::kConsensus) bytes_ = scalar_of(settings.jumbo_bytes_per_second);
  duration_ = DurationBucket(settings.duration_capacity, settings.duration_per_second);
  scalar_generation_ += 1;
}

void ThrottleSet::configure(NetworkSettings settings) {
  options_.settings = std::move(settings);
  make_scalars();
}

void ThrottleSet::rebuild(const Definitions& definitions) {
  std::vector<BuiltBucket> built = build(definitions, options_.nodes);
  std::stable_partition(built.begin(), built.end(),
                        [](const BuiltBucket& bucket) { return !bucket.high_volume; });
  operations_ = Operations();
  buckets_.clear();
  dropped_.clear();
  normal_count_ = 0;
  std::vector<Listing::Entry> entries;
  for (BuiltBucket& bucket : built) {
    if (!bucket.is_live()) {
      dropped_.push_back({std::move(bucket.name), bucket.high_volume, bucket.finding});
      continue;
    }
    const Family family = bucket.high_volume ? Family::kHighVolume : Family::kNormal;
    for (const Need& need : bucket.needs) {
      const OperationId operation = operations_.add(need.operation);
      if (operation == kNoOperation) continue;  // beyond the bound: refused as unlisted
      entries.push_back(
          {operation, family, {static_cast<std::uint32_t>(buckets_.size()), need.logical}});
    }
    normal_count_ += bucket.high_volume ? 0 : 1;
    buckets_.push_back(
        {std::move(bucket.name), bucket.high_volume, bucket.burst_ms, *bucket.bucket, 0});
  }
  listing_ = Listing(operations_.size(), entries);
  generation_ += 1;
}

void ThrottleSet::rebuild(const Definitions& definitions, std::int32_t nodes) {
  WEIR_ASSERT(nodes >= 1);
  options_.nodes = nodes;
  rebuild(definitions);
}

Moment ThrottleSet::clamped(Moment now) noexcept {
  if (!options_.clamp_clock) return now;
  latest_ = std::max(latest_, now);
  return latest_;
}

bool ThrottleSet::is_query(const Transaction& transaction) const noexcept {
  return options_.knows_queries && throttle::is_query(transaction.operation);
}

Claim ThrottleSet::claim_for(const Transaction& transaction) const {
  if (!is_query(transaction)) {
    return claim_of(transaction, options_.settings, options_.role, listing_);
  }
  return claim_of(Query{.operation = transaction.operation,
                        .payer = transaction.payer,
                        .gas = transaction.gas < 0 ? kMax : transaction.gas,
                        .associations = transaction.associations,
                        .count = transaction.count},
                  options_.settings, listing_);
}

// --- decisions

Answered<Admission> ThrottleSet::decide(const Transaction& transaction, Moment now,
                                        Claims* claims) {
  if (options_.role == SetRole::kAlwaysAllow) return Admission{};
  last_by_gas_ = false;
  now = clamped(now);
  if (claims == nullptr && is_plain(transaction, options_.settings) && !is_query(transaction)) {
    const Answer granted = claim_plainly(transaction.operation, now);
    if (!granted.ok()) return granted.anomaly();
    if (*granted) return Admission{};
  }
  const Claim claim = claim_for(transaction);
  const Answered<Admission> said = run(claim, now, claims);
  last_by_gas_ = said.ok() && said->by_gas();
  return said;
}

Answered<Admission> ThrottleSet::decide(const Query& query, Moment now) {
  if (options_.role == SetRole::kAlwaysAllow) return Admission{};
  return run(claim_of(query, options_.settings, listing_), clamped(now), nullptr);
}

Answered<Admission> ThrottleSet::decide(OperationId operation, std::int32_t count, Moment now) {
  if (options_.role == SetRole::kAlwaysAllow) return Admission{};
  return run(claim_of(operation, count, listing_), now, nullptr);
}

// The short way of most decisions. A refusal gives back what it has claimed and goes the
// long way at the same instant, where nothing leaks any more and the answer is the same.
Answer ThrottleSet::claim_plainly(OperationId operation, Moment now) {
  const std::span<const Requirement> requirements = listing_.of(operation, Family::kNormal);
  bool granted = !requirements.empty();
  for (const Requirement& requirement : requirements) {
    OperationBucket& bucket = buckets_[requirement.bucket].bucket;
    bucket.mark();
    const Answer said = bucket.claim(requirement.logical, now);
    if (!said.ok()) return said;
    granted &= *said;
  }
  if (!granted) {
    for (const Requirement& requirement : requirements) {
      buckets_[requirement.bucket].bucket.reclaim();
    }
  }
  return granted;
}

struct ThrottleSet::Taking {
  ThrottleSet& set;
  Moment now;
  Claims* claims;
  Admission& admission;
  bool asked_operations = false;

  void note(Claims::Kind kind, std::uint32_t bucket, std::int64_t amount) {
    if (claims == nullptr) return;
    const bool is_bucket = kind == Claims::Kind::kBucket;
    claims->items_.push_back(
        {kind, bucket, is_bucket ? set.generation_ : set.scalar_generation_, amount});
  }
  Answer gas(const Claim& claim) {
    const Answer said = set.gas_.claim(claim.gas, now);
    if (said.ok() && *said) note(Claims::Kind::kGas, 0, claim.gas);
    return said;
  }
  Anomaly leak_gas() { return set.gas_.leak_until(now); }
  Answer bytes(const Claim& claim) {
    const Answer said = set.bytes_->claim(claim.bytes, now);
    if (said.ok() && *said) note(Claims::Kind::kBytes, 0, claim.bytes);
    return said;
  }
  // All buckets are visited even after one has refused: each leaks and moves its clock.
  Answer operations(const Claim& claim) {
    asked_operations = true;
    bool granted = true;
    for (const Requirement& requirement : claim.requirements) {
      OperationBucket& bucket = set.buckets_[requirement.bucket].bucket;
      bucket.mark();
      const Answered<std::int32_t> logical = logical_of(claim, requirement);
      if (!logical.ok()) return logical.anomaly();
      const Answer said = bucket.claim(*logical, now);
      if (!said.ok()) return said.anomaly();
      if (*said) {
        note(Claims::Kind::kBucket, requirement.bucket, *logical);
      } else {
        if (granted) admission.bucket = requirement.bucket;
        granted = false;
      }
    }
    return granted;
  }
};

Answered<Admission> ThrottleSet::run(const Claim& claim, Moment now, Claims* claims) {
  Admission admission;
  if (claim.touches_nothing) return admission;
  const std::size_t noted = claims != nullptr ? claims->items_.size() : 0;
  gas_.mark();
  Taking taking{*this, now, claims, admission};
  const Answered<Refuser> decided = first_refuser(claim, taking);
  if (!decided.ok()) return decided.anomaly();
  if (*decided == Refuser::kNone) return admission;

  // Bytes are not given back: published so.
  gas_.reclaim();
  if (taking.asked_operations) {
    for (const Requirement& requirement : claim.requirements) {
      buckets_[requirement.bucket].bucket.reclaim();
    }
  }
  if (claims != nullptr) claims->items_.resize(noted);
  admission.allowed = false;
  admission.refuser = *decided;
  admission.fits_at = kForever;
  if (options_.explain) explain(claim, now, admission);
  count_refusal(admission);
  return admission;
}

void ThrottleSet::count_refusal(const Admission& admission) noexcept {
  switch (admission.refuser) {
    case Refuser::kNone:
      return;
    case Refuser::kGas:
      other_refusals_.gas += 1;
      return;
    case Refuser::kBytes:
      other_refusals_.bytes += 1;
      return;
    case Refuser::kBucket:
      buckets_[admission.bucket].refusals += 1;
      return;
    case Refuser::kUnlisted:
    case Refuser::kMalformed:
      other_refusals_.unlisted += 1;
      return;
    case Refuser::kSchedule:
      other_refusals_.schedule += 1;
      return;
    case Refuser::kDuration:
      other_refusals_.duration += 1;
      return;
  }
}

// --- what it would say, and why it refused: nothing here changes the set

// Of buckets that have refused at `now`: by how much, and until when.
void ThrottleSet::explain(const Claim& claim, Moment now, Admission& admission) const {
  switch (admission.refuser) {
    case Refuser::kGas:
      admission.never = claim.gas > gas_.capacity();
      admission.missing = claim.gas - gas_.free_at(now);
      admission.fits_at = after(now, gas_.fits_after_ns(claim.gas, now));
      return;
    case Refuser::kBytes:
      admission.never = claim.bytes > bytes_->capacity();
      admission.missing = claim.bytes - bytes_->free_at(now);
      admission.fits_at = after(now, bytes_->fits_after_ns(claim.bytes, now));
      return;
    case Refuser::kUnlisted:
    case Refuser::kMalformed:
      admission.never = true;
      return;
    case Refuser::kBucket:
      break;
    case Refuser::kNone:
    case Refuser::kSchedule:
    case Refuser::kDuration:
      return;
  }
  admission.fits_at = instant_of(now);
  for (const Requirement& requirement : claim.requirements) {
    const OperationBucket& bucket = buckets_[requirement.bucket].bucket;
    const Answered<std::int32_t> logical = logical_of(claim, requirement);
    if (!logical.ok()) continue;
    const std::optional<std::int64_t> ns = bucket.fits_after_ns(*logical, now);
    const Instant fits = after(now, ns);
    if (fits <= admission.fits_at) continue;
    admission.fits_at = fits;
    admission.bucket = requirement.bucket;
    admission.never = !ns;
    admission.missing =
        saturate(Wide{*logical} * kUnitsPerOperation - bucket.capacity() + bucket.used_at(now));
  }
}

// On copies: nothing is claimed, leaked or moved.
struct ThrottleSet::Looking {
  const ThrottleSet& set;
  Moment now;

  Answer gas(const Claim& claim) const {
    ScalarBucket gas = set.gas_;
    return gas.claim(claim.gas, now);
  }
  Anomaly leak_gas() const {
    ScalarBucket gas = set.gas_;
    return gas.leak_until(now);
  }
  Answer bytes(const Claim& claim) const {
    ScalarBucket bytes = *set.bytes_;
    return bytes.claim(claim.bytes, now);
  }
  Answer operations(const Claim& claim) const {
    bool granted = true;
    for (const Requirement& requirement : claim.requirements) {
      OperationBucket bucket = set.buckets_[requirement.bucket].bucket;
      const Answered<std::int32_t> logical = logical_of(claim, requirement);
      if (!logical.ok()) return logical.anomaly();
      const Answer said = bucket.claim(*logical, now);
      if (!said.ok()) return said.anomaly();
      granted &= *said;
    }
    return granted;
  }
};

Answered<Admission> ThrottleSet::look(const Claim& claim, Moment now) const {
  Admission admission;
  if (claim.touches_nothing) return admission;
  Looking looking{*this, now};
  const Answered<Refuser> decided = first_refuser(claim, looking);
  if (!decided.ok()) return decided.anomaly();
  if (*decided == Refuser::kNone) return admission;
  admission.allowed = false;
  admission.refuser = *decided;
  admission.fits_at = kForever;
  explain(claim, now, admission);
  return admission;
}

Answered<Admission> ThrottleSet::peek(const Transaction& transaction, Moment now) const {
  if (options_.role == SetRole::kAlwaysAllow) return Admission{};
  const Moment at = options_.clamp_clock ? std::max(latest_, now) : now;
  return look(claim_for(transaction), at);
}

Instant ThrottleSet::fits_from(const Transaction& transaction, Instant from) const {
  // Gas, bytes and operations bind one after the other, and none closes again by itself.
  for (int round = 0; round < 3; ++round) {
    const Answered<Admission> said = peek(transaction, moment_of(from));
    if (!said.ok()) return kForever;
    if (said->allowed || said->fits_at == kForever) return said->allowed ? from : kForever;
    from = said->fits_at;
  }
  return from;
}

template <typename OfBucket, typename OfGas>
std::int64_t ThrottleSet::least(const Transaction& transaction, OfBucket&& of_bucket,
                                OfGas&& of_gas) const {
  if (options_.role == SetRole::kAlwaysAllow) return kTermMax;
  Transaction one = transaction;
  one.count = 1;
  const Claim claim = claim_for(one);
  if (claim.touches_nothing) return kTermMax;
  if (claim.objection != Objection::kNone || claim.schedule_is_full) return 0;
  std::int64_t least = kTermMax;
  for (const Requirement& requirement : claim.requirements) {
    const Answered<std::int32_t> logical = logical_of(claim, requirement);
    if (!logical.ok() || *logical > kOperationsMax) return 0;
    // A requirement cut to 32 bits may have become 0.
    if (*logical < 1) continue;
    least = std::min(least, of_bucket(buckets_[requirement.bucket].bucket) / units_of(*logical));
  }
  if (claim.gas_use == GasUse::kClaim && claim.gas > 0) {
    least = std::min(least, of_gas(gas_) / claim.gas);
  }
  return least;
}

std::int64_t ThrottleSet::room_for(const Transaction& transaction, Moment at) const {
  return least(
      transaction,
      [&](const OperationBucket& bucket) { return bucket.capacity() - bucket.used_at(at); },
      [&](const ScalarBucket& gas) { return gas.free_at(at); });
}

std::int64_t ThrottleSet::capacity_for(const Transaction& transaction) const {
  return least(
      transaction, [](const OperationBucket& bucket) { return bucket.capacity(); },
      [](const ScalarBucket& gas) { return gas.capacity(); });
}

std::optional<std::vector<Requirement>> ThrottleSet::taken_by(
    const Transaction& transaction) const {
  std::vector<Requirement> taken;
  if (options_.role == SetRole::kAlwaysAllow) return taken;
  const Claim claim = claim_for(transaction);
  if (claim.touches_nothing || !claim.claims_operations) return taken;
  if (claim.objection != Objection::kNone || claim.schedule_is_full) return std::nullopt;
  for (const Requirement& requirement : claim.requirements) {
    const Answered<std::int32_t> logical = logical_of(claim, requirement);
    if (!logical.ok()) return std::nullopt;
    // A requirement cut to 32 bits may have become 0: then the bucket binds nothing.
    if (*logical > 0) taken.push_back({requirement.bucket, *logical});
  }
  return taken;
}

// --- giving back

Anomaly ThrottleSet::undo(OperationId operation, std::int32_t count) {
  if (options_.role == SetRole::kAlwaysAllow) return Anomaly::kNone;
  const std::span<const Requirement> requirements = listing_.of(operation, Family::kNormal);
  if (requirements.empty()) return Anomaly::kUnknownOperation;
  for (const Requirement& requirement : requirements) {
    const Anomaly anomaly = buckets_[requirement.bucket].bucket.give_back(
        wrapping_product32(count, requirement.logical));
    if (anomaly != Anomaly::kNone) return anomaly;
  }
  return Anomaly::kNone;
}

void ThrottleSet::refund_operations(const Claims& claims, std::int64_t part, std::int64_t whole) {
  WEIR_ASSERT(0 <= part && part <= whole && whole > 0);
  for (const Claims::Item& item : claims.items_) {
    if (item.kind != Claims::Kind::kBucket || item.generation != generation_) continue;
    // Not more than the amount, which 32 bits hold.
    const Wide back = Wide{item.amount} * part / whole;
    (void)buckets_[item.bucket].bucket.give_back(static_cast<std::int32_t>(back));
  }
}

bool ThrottleSet::refund_gas(const Claims& claims, std::int64_t used) {
  bool any = false;
  for (const Claims::Item& item : claims.items_) {
    if (item.kind != Claims::Kind::kGas || item.generation != scalar_generation_) continue;
    if (used >= item.amount) continue;
    (void)gas_.give_back(item.amount - std::max<std::int64_t>(0, used));
    any = true;
  }
  return any;
}

void ThrottleSet::refund(const Claims& claims) {
  for (const Claims::Item& item : claims.items_) {
    // Every amount was granted once, so none of them is negative.
    switch (item.kind) {
      case Claims::Kind::kBucket:
        if (item.generation != generation_) break;
        (void)buckets_[item.bucket].bucket.give_back(static_cast<std::int32_t>(item.amount));
        break;
      case Claims::Kind::kGas:
        if (item.generation == scalar_generation_) (void)gas_.give_back(item.amount);
        break;
      case Claims::Kind::kBytes:
        if (item.generation == scalar_generation_) (void)bytes_->give_back(item.amount);
        break;
    }
  }
}

Anomaly ThrottleSet::return_gas(std::int64_t gas, std::optional<std::int64_t> payer) {
  if (options_.role == SetRole::kAlwaysAllow || is_exempt(options_.settings, payer)) {
    return Anomaly::kNone;
  }
  return gas_.give_back(gas);
}

// --- duration of operations

std::int64_t ThrottleSet::free_duration(Moment at) const noexcept {
  return options_.role == SetRole::kAlwaysAllow ? kMax : duration_.free_at(at);
}

Anomaly ThrottleSet::use_duration(std::int64_t units, Moment now) noexcept {
  return options_.role == SetRole::kAlwaysAllow ? Anomaly::kNone : duration_.use(units, now);
}

bool ThrottleSet::lacks_duration(const Transaction& transaction, Moment at) const noexcept {
  const NetworkSettings& settings = options_.settings;
  return settings.throttle_by_duration && takes_gas(transaction.operation) &&
         !is_exempt(settings, transaction.payer) && free_duration(at) == 0;
}

Admission ThrottleSet::without_duration(Moment at) const noexcept {
  const std::optional<std::int64_t> free_after = duration_.free_after_ns(at);
  return {.allowed = false,
          .refuser = Refuser::kDuration,
          .fits_at = free_after ? instant_of(at) + Duration{*free_after} : kForever,
          .never = duration_.capacity() == 0,
          .missing = saturate(Wide{duration_.used_at(at)} - duration_.capacity() + 1)};
}

Admission ThrottleSet::refuse_without_duration(Claims& claims, Moment at) {
  refund(claims);
  claims.clear();
  const Admission admission = without_duration(at);
  count_refusal(admission);
  return admission;
}

Answered<std::int32_t> ThrottleSet::high_volume_utilization(OperationId operation, Moment now) {
  std::int32_t fullest = 0;
  for (const Requirement& requirement : listing_.of(operation, Family::kHighVolume)) {
    OperationBucket& bucket = buckets_[requirement.bucket].bucket;
    const Anomaly anomaly = bucket.leak_until(now);
    if (anomaly != Anomaly::kNone) return anomaly;
    fullest = std::max(fullest, bucket.basis_points_now());
  }
  return std::min(fullest, 10'000);
}

// --- for claims that are kept

std::vector<ThrottleSet::KeptItem> ThrottleSet::kept_items(const Claims& claims) const {
  std::vector<KeptItem> kept;
  for (const Claims::Item& item : claims.items_) {
    const bool is_bucket = item.kind == Claims::Kind::kBucket;
    if (item.generation != (is_bucket ? generation_ : scalar_generation_)) continue;
    kept.push_back({item.kind, item.bucket, item.amount});
  }
  return kept;
}

bool ThrottleSet::bring_back(const std::vector<KeptItem>& items, bool same_shape,
                             Claims& claims) const {
  std::vector<Claims::Item> made;
  for (const KeptItem& item : items) {
    const bool is_bucket = item.kind == Claims::Kind::kBucket;
    if (item.amount < 0 || (is_bucket && item.amount > kMax32)) return false;
    // Of the first generation nothing was ever claimed, since making the buckets ended it.
    Claims::Item back{item.kind, item.bucket, 0, item.amount};
    if (same_shape) {
      if (is_bucket && item.bucket >= buckets_.size()) return false;
      if (item.kind == Claims::Kind::kBytes && !bytes_) return false;
      back.generation = is_bucket ? generation_ : scalar_generation_;
    }
    made.push_back(back);
  }
  claims.items_ = std::move(made);
  return true;
}

std::uint64_t ThrottleSet::shape() const noexcept {
  // FNV-1a: it tells apart what an operator changes, and nobody gains by making two alike.
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&](std::uint64_t word) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (word >> (8 * i) & 0xff)) * 0x100000001b3;
  };
  for (const LiveBucket& live : buckets_) {
    for (const char c : live.name) mix(static_cast<unsigned char>(c));
    mix(live.high_volume ? 1 : 0);
    mix(static_cast<std::uint64_t>(live.bucket.capacity()));
    mix(static_cast<std::uint64_t>(live.bucket.milli_ops()));
  }
  mix(static_cast<std::uint64_t>(gas_.capacity()));
  mix(bytes_ ? static_cast<std::uint64_t>(bytes_->capacity()) : 0);
  mix(static_cast<std::uint64_t>(duration_.capacity()));
  return hash;
}

// --- for snapshots

Anomaly ThrottleSet::restore_bucket(std::size_t bucket, const Usage& usage) {
  return buckets_[bucket].bucket.restore(usage);
}

Anomaly ThrottleSet::restore_bytes(const Usage& usage) {
  return bytes_ ? bytes_->restore(usage) : Anomaly::kNone;
}

}  // namespace weir::system::throttle
