// Parameters: what the rules of a ledger are told.
//
// The defaults are the source document's: at least 10,000 tokens are locked, a token is a
// unit per epoch of 100 blocks before boost (mana 10), a cluster has at most 10 portals.
//
// Thread safety: plain values.

#pragma once

#include <cstdint>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/compute/epoch_clock.h"
#include "weir/system/compute/strategy.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {

constexpr std::int64_t kEpochLengthMin = 2;
constexpr std::int64_t kEpochLengthMax = 99'999;
constexpr std::int64_t kPortalsMax = 10'000;         // of one cluster, whatever is set
constexpr std::int64_t kBlockTimeMax = kDaySeconds;  // seconds of one block
constexpr std::int64_t kPoolManaMax = 100'000'000;   // basis points
constexpr std::size_t kBoostStepsMax = 64;

struct Parameters {
  Amount min_lock = 10'000 * kToken;
  Amount supply = 1'337'000'000 * kToken;  // of all tokens: all locks together are at most this
  std::int64_t mana = 10;                  // units per token and 1000 blocks before boost
  std::int64_t block_time_s = 12;
  std::int64_t max_lock_s = std::int64_t{3} * 360 * kDaySeconds;
  std::int64_t max_portals = 10;
  std::vector<BoostStep> boost{std::begin(kPublishedBoost), std::end(kPublishedBoost)};
  EpochClock clock{};
  // Of pools: below it one is not active; what counts of its stake at most; basis points of a unit
  // for a token in an epoch; tokens that may leave in a block.
  Amount min_stake = 1'000'000 * kToken;
  Amount pool_capacity = 1'000'000 * kToken;
  std::int64_t pool_mana_bp = 1'000;
  Amount exit_rate = 12 * kToken;
  Remainder remainder = Remainder::kRotate;
  // Keeps the published contract's faults: automatic extension without a lock, and
  // subsets counted by list lengths.
  bool published_faults = false;

  friend bool operator==(const Parameters&, const Parameters&) = default;
};

// Refused unless every term is within its bound and no cluster can have 2^62 units or
// more in an epoch, so that shares and rates fit in 63 bits.
Status validate(const Parameters& parameters);

}  // namespace weir::system::compute
