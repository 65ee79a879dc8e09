#include "weir/system/compute/block_clock.h"

#include <algorithm>

namespace weir::system::compute {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;

}  // namespace

Block BlockClock::block(Instant now) const noexcept {
  if (settings_.source == BlockSource::kPushed) {
    return std::max(settings_.genesis_block, pushed_);
  }
  if (now < settings_.genesis) return settings_.genesis_block;
  // Seconds of a block are at most a day, and instants below 2^62 ns: no product overflows.
  const std::int64_t elapsed = (now - settings_.genesis).count();
  const std::int64_t since = elapsed / (settings_.block_time_s * kSecondNs);
  return std::min(settings_.genesis_block + since, kBlockMax);
}

Fault BlockClock::push(Block block, Instant now) {
  if (settings_.source == BlockSource::kTime || block > kBlockMax) return Fault::kBlockTooFar;
  if (block < this->block(now)) return Fault::kBlockWentBack;
  pushed_ = block;
  if (pushes_.empty() || block > pushes_.back().block) pushes_.push_back({block, now});
  if (pushes_.size() > kPushesMax) pushes_.pop_front();
  return Fault::kNone;
}

void BlockClock::resume(Block block) noexcept { pushed_ = std::max(pushed_, block); }

Duration BlockClock::epoch_time(std::int64_t length) const noexcept {
  const Duration nominal{length * settings_.block_time_s * kSecondNs};
  if (pushes_.size() < 2) return nominal;
  const Push& last = pushes_.back();
  // The latest push that is an epoch back or more, else the oldest.
  auto from = std::partition_point(pushes_.begin(), pushes_.end(), [&](const Push& push) {
    return last.block - push.block >= length;
  });
  if (from != pushes_.begin()) --from;
  const Wide elapsed = (last.at - from->at).count();
  if (elapsed <= 0) return nominal;
  return Duration{
      std::max<std::int64_t>(1, saturate(elapsed * length / (last.block - from->block)))};
}

}  // namespace weir::system::compute
