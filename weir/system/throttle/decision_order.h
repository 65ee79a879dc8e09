// Decision order: what a claim asks, one after the other, until something refuses it.
//
//   gas -> bytes -> listed, well-formed -> all of its operation buckets -> schedule
//
// A decision that takes and a look that takes nothing go this one way; they differ in their
// `Buckets`:
//
//   Answer gas(const Claim&);          // is the gas granted
//   Anomaly leak_gas();                  // not claimed, but the bucket leaks
//   Answer bytes(const Claim&);
//   Answer operations(const Claim&);   // every bucket is asked, even after one has refused
//
// An anomaly ends it where it is met.

#pragma once

#include "weir/system/throttle/admission.h"
#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/transaction.h"

namespace weir::system::throttle {

template <typename Buckets>
Answered<Refuser> first_refuser(const Claim& claim, Buckets& buckets) {
  if (claim.gas_use == GasUse::kClaim) {
    const Answer said = buckets.gas(claim);
    if (!said.ok()) return said.anomaly();
    if (!*said) return Refuser::kGas;
  } else if (claim.gas_use == GasUse::kLeak) {
    const Anomaly anomaly = buckets.leak_gas();
    if (anomaly != Anomaly::kNone) return anomaly;
  }
  if (claim.claims_bytes) {
    const Answer said = buckets.bytes(claim);
    if (!said.ok()) return said.anomaly();
    if (!*said) return Refuser::kBytes;
  }
  if (!claim.claims_operations) return Refuser::kNone;
  if (claim.objection == Objection::kUnlisted) return Refuser::kUnlisted;
  if (claim.objection == Objection::kMalformed) return Refuser::kMalformed;
  const Answer said = buckets.operations(claim);
  if (!said.ok()) return said.anomaly();
  if (!*said) return Refuser::kBucket;
  return claim.schedule_is_full ? Refuser::kSchedule : Refuser::kNone;
}

}  // namespace weir::system::throttle
