// Stake pool: a cluster of the second generation of registries.
//
// There are no locks, no boost and no epochs: what is staked, up to the capacity, yields
// mana basis points of a unit for each token, while the pool is active. It becomes active
// with a stake that brings it to the least stake, and inactive with one that is taken out
// below it; a change of the least stake alone does neither.
//
// Thread safety: none; callers share it behind a lock.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/assert.h"
#include "weir/system/compute/units.h"

namespace weir::system::compute {

struct StakePoolShape {
  Amount least = 1'000'000 * kToken;
  Amount capacity = 1'000'000 * kToken;
  std::int64_t mana_bp = 1'000;
};

class StakePool {
 public:
  // Requires amounts of at most kAmountMax and 0 <= mana_bp <= 10^8, so that no product of
  // the two reaches 2^127.
  explicit StakePool(const StakePoolShape& shape) : shape_(shape) {
    WEIR_ASSERT(shape.capacity <= kAmountMax);
    WEIR_ASSERT(shape.mana_bp >= 0 && shape.mana_bp <= 100'000'000);
  }

  void stake(Amount amount) noexcept {
    staked_ += amount;
    if (staked_ >= shape_.least) is_active_ = true;
  }
  // Whether there was as much as that.
  bool unstake(Amount amount) noexcept {
    if (amount > staked_) return false;
    staked_ -= amount;
    if (staked_ < shape_.least) is_active_ = false;
    return true;
  }
  void set_least(Amount least) noexcept { shape_.least = least; }

  bool is_active() const noexcept { return is_active_; }
  Amount staked() const noexcept { return staked_; }
  // In an epoch, at every worker alike.
  Amount units() const noexcept {
    if (!is_active_) return 0;
    return std::min(staked_, shape_.capacity) * static_cast<Amount>(shape_.mana_bp) /
           (kToken * kBasisPoints);
  }

 private:
  StakePoolShape shape_;
  Amount staked_ = 0;
  bool is_active_ = false;
};

}  // namespace weir::system::compute
