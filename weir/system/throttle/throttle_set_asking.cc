// What a throttle set would say, and why it refused. Nothing here changes it.

#include <algorithm>

#include "weir/system/throttle/logical.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {
namespace {

Instant after(Moment now, std::optional<std::int64_t> ns) noexcept {
  return ns ? instant_of(now) + Duration{*ns} : kForever;
}

}  // namespace

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
    case Refuser::kNobody:
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

// The same decision on copies.
Answered<Admission> ThrottleSet::look(const Claim& claim, Moment now) const {
  Admission admission;
  if (claim.touches_nothing) return admission;
  const auto refused = [&](Refuser refuser) {
    admission.allowed = false;
    admission.refuser = refuser;
    admission.fits_at = kForever;
    explain(claim, now, admission);
    return admission;
  };
  if (claim.gas_use == GasUse::kClaim) {
    ScalarBucket gas = gas_;
    const Answer said = gas.claim(claim.gas, now);
    if (!said.ok()) return said.fault();
    if (!*said) return refused(Refuser::kGas);
  }
  if (claim.claims_bytes) {
    ScalarBucket bytes = *bytes_;
    const Answer said = bytes.claim(claim.bytes, now);
    if (!said.ok()) return said.fault();
    if (!*said) return refused(Refuser::kBytes);
  }
  if (!claim.claims_operations) return admission;
  if (claim.objection == Objection::kUnlisted) return refused(Refuser::kUnlisted);
  if (claim.objection == Objection::kMalformed) return refused(Refuser::kMalformed);
  bool granted = true;
  for (const Requirement& requirement : claim.requirements) {
    OperationBucket bucket = buckets_[requirement.bucket].bucket;
    const Answered<std::int32_t> logical = logical_of(claim, requirement);
    if (!logical.ok()) return logical.fault();
    const Answer said = bucket.claim(*logical, now);
    if (!said.ok()) return said.fault();
    granted &= *said;
  }
  if (!granted) return refused(Refuser::kBucket);
  return claim.schedule_is_full ? refused(Refuser::kSchedule) : admission;
}

Answered<Admission> ThrottleSet::peek(const Transaction& transaction, Moment now) const {
  if (options_.role == Role::kAlwaysAllow) return Admission{};
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
  if (options_.role == Role::kAlwaysAllow) return kTermMax;
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

}  // namespace weir::system::throttle
