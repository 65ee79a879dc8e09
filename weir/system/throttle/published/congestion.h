// Congestion pricing: fee multipliers by how full buckets have been, and for how long.
//
// A tier is a percentage and a multiplier. While some watched bucket is at least that
// full, the tier is on; once it has been on for the minimum period, its multiplier counts,
// and the highest that counts is the fee's. Two multipliers are independent: the generic
// one watches the normal buckets that list CryptoTransfer, the other one gas.
//
//   Congestion congestion(*parse_tiers("90,10x,95,25x,99,100x"), /*period_s=*/60);
//   congestion.refresh(consensus, now);  // after every tracked transaction
//   congestion.generic().multiplier();
//
// Levels are the stored ones: they are not leaked to `now` first.
//
// Thread safety: none; the owner orders the calls.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/throttle/published/moment.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {

struct Tier {
  std::int32_t percent = 0;  // 0 to 100
  std::int64_t multiplier = 1;

  friend bool operator==(const Tier&, const Tier&) = default;
};

// `90,10x,95,25x`: alternating percentages and multipliers, both rising.
Result<std::vector<Tier>> parse_tiers(std::string_view text);

struct Level {
  std::int64_t used = 0;
  std::int64_t capacity = 0;
};

// When each tier went on; none: it is off.
using TierStarts = std::vector<std::optional<Moment>>;

class Multiplier {
 public:
  explicit Multiplier(std::vector<Tier> tiers) : tiers_(std::move(tiers)), starts_(tiers_.size()) {}

  // Other tiers than before switch all of them off first.
  void refresh(std::span<const Tier> tiers, std::int64_t period_s, std::span<const Level> watched,
               Moment now);

  // The buckets are new: no tier has been on. The multiplier stays until it is refreshed.
  void forget(std::span<const Tier> tiers);

  std::int64_t multiplier() const noexcept { return multiplier_; }
  const TierStarts& starts() const noexcept { return starts_; }
  // Ignores starts of another number of tiers than there are.
  void restore(const TierStarts& starts);

 private:
  std::vector<Tier> tiers_;
  TierStarts starts_;
  std::int64_t multiplier_ = 1;
};

class Congestion {
 public:
  Congestion(std::vector<Tier> tiers, std::int64_t period_s)
      : tiers_(std::move(tiers)), period_s_(period_s), generic_(tiers_), gas_(tiers_) {}

  void refresh(const ThrottleSet& consensus, Moment now);

  // Takes effect at the next refresh().
  void configure(std::vector<Tier> tiers, std::int64_t period_s);
  void forget();

  std::int64_t period_s() const noexcept { return period_s_; }
  const Multiplier& generic() const noexcept { return generic_; }
  const Multiplier& gas() const noexcept { return gas_; }
  void restore(const TierStarts& generic, const TierStarts& gas);

 private:
  std::vector<Tier> tiers_;
  std::int64_t period_s_;
  Multiplier generic_;
  Multiplier gas_;
  std::vector<Level> watched_;  // kept, so that a refresh allocates nothing
};

}  // namespace weir::system::throttle
