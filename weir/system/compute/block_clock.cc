// Pushes are kept as far back as an epoch, to measure it. Where that is more than kPushesMax, every
// second one is dropped: the measure stays nearly as good.

#include "weir/system/compute/block_clock.h"

#include <algorithm>
#include <utility>

#include "weir/base/time.h"

namespace weir::system::compute {
Block BlockClock::block(Instant now) const noexcept {
  if (settings_.source == BlockSource::kPushed) {
    return std::max(settings_.genesis_block, pushed_);
  }
  if (now < settings_.genesis) return settings_.genesis_block;
  // Seconds of a block are at most a day, and instants below 2^62 ns: no product overflows.
  const std::int64_t elapsed = (now - settings_.genesis).count();
  const std::int64_t since = elapsed / (settings_.block_time_s * kNsPerSecond);
  return std::min(settings_.genesis_block + since, kBlockMax);
}

Fault BlockClock::push(Block block, Instant now, std::int64_t length) {
  if (settings_.source == BlockSource::kTime) return Fault::kBlocksFollowTime;
  if (block < this->block(now)) return Fault::kBlockWentBack;
  // The first may be anywhere: a chain is older than its ledger.
  if (block > kBlockMax || (pushed_ > 0 && block - pushed_ > kPushAheadMax)) {
    return Fault::kBlockTooFar;
  }
  pushed_ = block;
  if (pushes_.empty() || block > pushes_.back().block) pushes_.push_back({block, now});
  forget_pushes(length);
  return Fault::kNone;
}

void BlockClock::forget_pushes(std::int64_t length) {
  while (pushes_.size() > 2 && pushes_.back().block - pushes_[1].block >= length) {
    pushes_.pop_front();
  }
  if (pushes_.size() <= kPushesMax) return;
  // An epoch longer than that: every second one still tells when it began, nearly.
  std::deque<Push> thinned;
  for (std::size_t i = 0; i + 1 < pushes_.size(); i += 2) thinned.push_back(pushes_[i]);
  thinned.push_back(pushes_.back());
  pushes_ = std::move(thinned);
}

void BlockClock::resume(Block block) noexcept { pushed_ = std::max(pushed_, block); }

Duration BlockClock::epoch_time(std::int64_t length) const noexcept {
  const Duration nominal{length * settings_.block_time_s * kNsPerSecond};
  if (pushes_.empty()) return nominal;
  const Push& last = pushes_.back();
  // After the latest push that is an epoch back or more.
  auto from = std::partition_point(pushes_.begin(), pushes_.end(), [&](const Push& push) {
    return last.block - push.block >= length;
  });
  if (from == pushes_.begin()) return nominal;
  --from;
  const Wide elapsed = (last.at - from->at).count();
  const Wide measured = elapsed * length / (last.block - from->block);
  if (measured * kCatchUp < nominal.count()) return nominal;
  return Duration{saturate(measured)};
}

}  // namespace weir::system::compute
