// Transaction rules: what one submitted transaction or query claims.
//
// The rules of the published network, apart from the buckets they claim from. They weigh
// mints by the number of tokens, transfers that create accounts or associations,
// scheduled transactions, balances by weight, and the high-volume family.
//
// claim_of() only looks. The set that holds the buckets does the claiming
// (throttle_set.h).
//
// Thread safety: every function is pure.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weir/system/throttle/answer.h"
#include "weir/system/throttle/listing.h"
#include "weir/system/throttle/operations.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {

enum class SetRole : std::uint8_t {
  kFrontEnd,     // each node's admission control; rates divided by the number of nodes
  kConsensus,    // one for the network, in consensus time, undivided
  kAlwaysAllow,  // nothing is ever refused or counted
};

// Properties of the network, with their published defaults but for the last one.
struct NetworkSettings {
  std::int64_t exempt_payer_max = 100;  // accounts from 1 to this one are never throttled
  bool throttle_by_gas = false;
  std::int64_t front_end_gas_per_second = 15'000'000;
  std::int64_t consensus_gas_per_second = 15'000'000;
  bool throttle_by_duration = true;  // of the work that contracts were found to have done
  std::int64_t duration_capacity = 500'000'000;
  std::int64_t duration_per_second = 500'000'000;
  ScaleFactor mint_scale{5, 2};
  bool unlimited_associations = true;
  bool jumbo = true;  // transactions larger than transaction_bytes_max are possible
  std::vector<OperationId> jumbo_operations{operation::kEthereumTransaction};
  std::int64_t jumbo_bytes_per_second = 133'120;
  std::int64_t transaction_bytes_max = 6'144;
  bool long_term_schedules = true;
  std::int64_t schedules_per_second_max = 100;
  std::int64_t schedule_lifetime_s = 1'800;
  bool high_volume = true;
  bool balance_by_weight = true;
  std::int32_t balance_weight_max = 1'000;
  // Whether ContractCallLocal fills the buckets that list it, as the network's design says. Its
  // code counts that query by gas alone.
  bool local_calls_by_buckets = true;

  friend bool operator==(const NetworkSettings&, const NetworkSettings&) = default;
};

// The transaction inside a ScheduleCreate.
struct ScheduledTransaction {
  OperationId operation = kNoOperation;
  bool uses_aliases = false;
  std::int32_t creations = 0;
};

struct Transaction {
  OperationId operation = kNoOperation;
  std::int32_t count = 1;               // several at once are claimed as such, by no other rule
  std::optional<std::int64_t> payer{};  // an account number
  std::int64_t gas = 0;                 // its limit; negative counts as more than there is
  std::int64_t bytes = 0;
  std::int32_t nfts = 0;          // that a mint makes
  std::int32_t creations = 0;     // accounts that it would create
  std::int32_t associations = 0;  // that it would make
  bool high_volume = false;
  bool always_by_gas = false;                       // whatever the settings say
  std::optional<ScheduledTransaction> scheduled{};  // of a ScheduleCreate; none: malformed
  std::int64_t scheduled_then = 0;  // transactions that expire in the second it expires in
};

struct Query {
  OperationId operation = kNoOperation;
  std::optional<std::int64_t> payer{};
  std::int64_t gas = 0;
  std::int32_t associations = 0;  // of the account whose balance is asked for
  std::int32_t count = 1;         // several at once
};

// The second in which a scheduled transaction expires.
constexpr std::int64_t expiry_second(const NetworkSettings& settings, bool waits_for_expiry,
                                     std::int64_t stated_s, std::int64_t valid_start_s) noexcept {
  return waits_for_expiry ? stated_s : valid_start_s + settings.schedule_lifetime_s;
}

enum class GasUse : std::uint8_t { kNone, kLeak, kClaim };

// Why an operation is refused before any bucket of its own is asked.
enum class Objection : std::uint8_t { kNone, kUnlisted, kMalformed };

// In this order: gas, bytes, operations; then what can be refused only afterwards.
struct Claim {
  bool touches_nothing = false;  // allowed without a look at any bucket
  GasUse gas_use = GasUse::kNone;
  std::int64_t gas = 0;
  bool claims_bytes = false;
  std::int64_t bytes = 0;
  bool claims_operations = true;
  Objection objection = Objection::kNone;
  std::span<const Requirement> requirements{};
  bool is_plain = true;  // one operation; otherwise `count` at once, scaled
  std::int32_t count = 1;
  bool wraps = true;  // the product of count and requirement, to 32 bits, as published
  ScaleFactor scale{};
  bool schedule_is_full = false;
};

// How many logical operations the claim takes of one bucket that lists its operation.
constexpr Answered<std::int32_t> logical_of(const Claim& claim,
                                            const Requirement& requirement) noexcept {
  if (claim.is_plain) return requirement.logical;
  if (!claim.wraps) {
    const std::int64_t product = std::int64_t{claim.count} * requirement.logical;
    return static_cast<std::int32_t>(std::min<std::int64_t>(product, kMax32));
  }
  return scaled(claim.scale, wrapping_product32(claim.count, requirement.logical));
}

inline bool is_exempt(const NetworkSettings& settings, std::optional<std::int64_t> payer) noexcept {
  return payer && *payer >= 1 && *payer <= settings.exempt_payer_max;
}

// Whether no rule but the buckets of its own operation can concern it: what claim_of()
// would then say is one plain operation.
inline bool is_plain(const Transaction& transaction, const NetworkSettings& settings) noexcept {
  const OperationId asked = transaction.operation;
  if (settings.throttle_by_gas || transaction.always_by_gas || transaction.high_volume ||
      transaction.count != 1 || asked == operation::kTokenMint ||
      asked == operation::kScheduleCreate || asked == operation::kEthereumTransaction) {
    return false;
  }
  if (asked == operation::kCryptoTransfer &&
      (transaction.creations > 0 || transaction.associations > 0)) {
    return false;
  }
  for (const OperationId jumbo : settings.jumbo_operations) {
    if (jumbo == asked) return false;
  }
  return !is_exempt(settings, transaction.payer);
}

Claim claim_of(const Transaction& transaction, const NetworkSettings& settings, SetRole role,
               const Listing& listing) noexcept;
Claim claim_of(const Query& query, const NetworkSettings& settings,
               const Listing& listing) noexcept;

// `count` operations at once, unscaled, by the normal buckets alone.
Claim claim_of(OperationId operation, std::int32_t count, const Listing& listing) noexcept;

}  // namespace weir::system::throttle
