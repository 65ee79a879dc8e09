// A tier starts when a watched bucket reaches it and counts once it has lasted the period; a
// refresh below it takes the start away.

#include "weir/system/throttle/published/congestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weir/base/in_quotes.h"
#include "weir/system/throttle/published/numbers.h"

namespace weir::system::throttle {
namespace {

std::optional<std::int64_t> parse_multiplier(std::string_view text) {
  if (text.ends_with('x')) text.remove_suffix(1);
  const auto multiplier = parse_whole<std::int64_t>(before_point(text));
  return multiplier && *multiplier > 0 ? multiplier : std::nullopt;
}

// Whole seconds, rounded down.
std::int64_t seconds_between(Moment from, Moment to) noexcept {
  const Wide seconds = Wide{to.seconds} - from.seconds - (to.nanos < from.nanos ? 1 : 0);
  return saturate(seconds);
}

}  // namespace

Result<std::vector<Tier>> parse_tiers(std::string_view text) {
  std::vector<Tier> tiers;
  const bool good = parse_triggers(text, [&](std::int32_t percent, std::string_view value) {
    const std::optional<std::int64_t> multiplier = parse_multiplier(value);
    if (!multiplier) return false;
    if (!tiers.empty() && *multiplier <= tiers.back().multiplier) return false;
    tiers.push_back({percent, *multiplier});
    return true;
  });
  if (good) return tiers;
  return bad_argument(fmt::format(
      "congestion multipliers are {}, but they must be percentages from 0 to 100 and multipliers "
      "in turn, both rising, without spaces; write such as '90,10x,95,25x'",
      in_quotes(text)));
}

void Multiplier::forget(std::span<const Tier> tiers) {
  tiers_.assign(tiers.begin(), tiers.end());
  starts_.assign(tiers_.size(), std::nullopt);
}

void Multiplier::restore(const TierStarts& starts) {
  if (starts.size() == starts_.size()) starts_ = starts;
}

void Multiplier::refresh(std::span<const Tier> tiers, std::int64_t period_s,
                         std::span<const Level> watched, Moment now) {
  if (!std::equal(tiers.begin(), tiers.end(), tiers_.begin(), tiers_.end())) forget(tiers);
  std::int64_t reached = 1;
  for (const Level& level : watched) {
    for (const Tier& tier : tiers_) {
      // Divided first, as published; at most the capacity, so it cannot overflow.
      if (level.used >= level.capacity / 100 * tier.percent) {
        reached = std::max(reached, tier.multiplier);
      }
    }
  }
  multiplier_ = 1;
  for (std::size_t i = 0; i < tiers_.size(); ++i) {
    if (reached < tiers_[i].multiplier) {
      starts_[i].reset();
      continue;
    }
    if (!starts_[i]) starts_[i] = now;
    if (seconds_between(*starts_[i], now) >= period_s) multiplier_ = tiers_[i].multiplier;
  }
}

void Congestion::refresh(const ThrottleSet& consensus, Moment now) {
  watched_.assign(1, {consensus.gas().used(), consensus.gas().capacity()});
  gas_.refresh(tiers_, period_s_, watched_, now);
  watched_.clear();
  for (const Requirement& requirement :
       consensus.listing().of(operation::kCryptoTransfer, Family::kNormal)) {
    const OperationBucket& bucket = consensus.buckets()[requirement.bucket].bucket;
    watched_.push_back({bucket.used(), bucket.capacity()});
  }
  generic_.refresh(tiers_, period_s_, watched_, now);
}

void Congestion::configure(std::vector<Tier> tiers, std::int64_t period_s) {
  tiers_ = std::move(tiers);
  period_s_ = period_s;
}

void Congestion::forget() {
  generic_.forget(tiers_);
  gas_.forget(tiers_);
}

void Congestion::restore(const TierStarts& generic, const TierStarts& gas) {
  generic_.restore(generic);
  gas_.restore(gas);
}

}  // namespace weir::system::throttle
