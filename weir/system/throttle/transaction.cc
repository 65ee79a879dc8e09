// The published rules that make a claim of a transaction, in the network's order: exempt payers,
// gas, bytes, listed operations, and what one operation implies of another.

#include "weir/system/throttle/transaction.h"

#include <algorithm>

#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

// Creations and associations are claimed instead of the operation that implies them.
void claim_instead(Claim& claim, std::span<const Requirement> requirements, std::int32_t count) {
  claim.requirements = requirements;
  claim.is_plain = false;
  claim.count = count;
  if (requirements.empty()) claim.objection = Objection::kUnlisted;
}

Family family_of(const Transaction& transaction, const NetworkSettings& settings) noexcept {
  const bool wanted =
      transaction.high_volume && settings.high_volume && may_be_high_volume(transaction.operation);
  // A transfer profits only if it creates accounts.
  const bool profits =
      transaction.operation != operation::kCryptoTransfer || transaction.creations > 0;
  return wanted && profits ? Family::kHighVolume : Family::kNormal;
}

void claim_scheduled(Claim& claim, const Transaction& transaction, const NetworkSettings& settings,
                     SetRole role, std::span<const Requirement> creation) {
  if (!transaction.scheduled) {
    claim.objection = Objection::kMalformed;
    return;
  }
  if (settings.long_term_schedules) {
    claim.schedule_is_full = role == SetRole::kFrontEnd &&
                             transaction.scheduled_then >= settings.schedules_per_second_max;
    return;
  }
  const ScheduledTransaction& inner = *transaction.scheduled;
  if (inner.operation == operation::kCryptoTransfer && inner.uses_aliases && inner.creations > 0) {
    claim_instead(claim, creation, inner.creations);
  }
}

bool is_jumbo(const NetworkSettings& settings, OperationId operation) noexcept {
  return settings.jumbo &&
         std::find(settings.jumbo_operations.begin(), settings.jumbo_operations.end(), operation) !=
             settings.jumbo_operations.end();
}

}  // namespace

Claim claim_of(const Transaction& transaction, const NetworkSettings& settings, SetRole role,
               const Listing& listing) noexcept {
  Claim claim;
  if (role == SetRole::kAlwaysAllow || is_exempt(settings, transaction.payer)) {
    claim.touches_nothing = true;
    return claim;
  }
  if (settings.throttle_by_gas || transaction.always_by_gas) {
    claim.gas_use = takes_gas(transaction.operation) ? GasUse::kClaim : GasUse::kLeak;
    claim.gas = transaction.gas < 0 ? kMax : transaction.gas;
  }
  if (role != SetRole::kConsensus && is_jumbo(settings, transaction.operation)) {
    claim.claims_bytes = true;
    claim.bytes = std::max<std::int64_t>(0, transaction.bytes - settings.transaction_bytes_max);
  }
  const Family family = family_of(transaction, settings);
  claim.requirements = listing.choose(transaction.operation, family);
  if (claim.requirements.empty()) {
    claim.objection = Objection::kUnlisted;
    return claim;
  }
  if (transaction.count != 1) {
    // What it implies is known of one transaction, not of several.
    if (transaction.nfts > 0 || transaction.creations > 0 || transaction.associations > 0) {
      claim.objection = Objection::kMalformed;
    }
    claim.is_plain = false;
    claim.count = transaction.count;
    claim.wraps = false;
    return claim;
  }
  const auto creation = [&] { return listing.choose(operation::kCryptoCreate, family); };
  switch (transaction.operation) {
    case operation::kTokenMint:
      if (transaction.nfts > 0) {
        claim.is_plain = false;
        claim.count = transaction.nfts;
        claim.scale = settings.mint_scale;
      }
      break;
    case operation::kCryptoTransfer:
      if (transaction.creations > 0) {
        claim_instead(claim, creation(), transaction.creations);
      } else if (settings.unlimited_associations && transaction.associations > 0) {
        claim_instead(claim, listing.choose(operation::kTokenAssociate, family),
                      transaction.associations);
      }
      break;
    case operation::kEthereumTransaction:
      if (transaction.creations > 0) claim_instead(claim, creation(), transaction.creations);
      break;
    case operation::kScheduleCreate:
      claim_scheduled(claim, transaction, settings, role, creation());
      break;
    default:
      break;
  }
  return claim;
}

Claim claim_of(const Query& query, const NetworkSettings& settings,
               const Listing& listing) noexcept {
  Claim claim;
  if (is_exempt(settings, query.payer)) {
    claim.touches_nothing = true;
    return claim;
  }
  if (takes_gas(query.operation)) {
    claim.gas_use = settings.throttle_by_gas ? GasUse::kClaim : GasUse::kNone;
    claim.gas = query.gas;
    if (!settings.local_calls_by_buckets) {
      claim.claims_operations = false;
      return claim;
    }
  }
  claim.requirements = listing.of(query.operation, Family::kNormal);
  if (claim.requirements.empty()) claim.objection = Objection::kUnlisted;
  std::int64_t count = query.count;
  if (query.operation == operation::kCryptoGetAccountBalance && settings.balance_by_weight) {
    count *= std::clamp(query.associations, 1, settings.balance_weight_max);
    claim.is_plain = false;
  }
  if (query.count != 1) {
    claim.is_plain = false;
    claim.wraps = false;
  }
  claim.count = static_cast<std::int32_t>(std::min<std::int64_t>(count, kMax32));
  return claim;
}

Claim claim_of(OperationId operation, std::int32_t count, const Listing& listing) noexcept {
  Claim claim;
  claim.requirements = listing.of(operation, Family::kNormal);
  claim.is_plain = false;
  claim.count = count;
  if (claim.requirements.empty()) claim.objection = Objection::kUnlisted;
  return claim;
}

}  // namespace weir::system::throttle
