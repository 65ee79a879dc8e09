// Block clock: which block it is, and how long an epoch lasts.
//
// Blocks follow from time, genesis block + elapsed / block time, or are pushed by somebody
// who watches a chain. Pushed blocks never go back; before the first push it is the genesis
// block. An epoch's length in time is measured over the pushes that were seen, as far back
// as an epoch, and is the block time times its blocks where nothing was seen yet.
//
// Thread safety: none; callers share it behind a lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "weir/base/time.h"
#include "weir/system/compute/epoch_clock.h"
#include "weir/system/compute/fault.h"

namespace weir::system::compute {

constexpr std::size_t kPushesMax = 1'024;  // remembered for measuring

enum class BlockSource : std::uint8_t { kTime, kPushed };

struct BlockClockSettings {
  BlockSource source = BlockSource::kTime;
  Block genesis_block = 0;
  Instant genesis{};               // when that block was
  std::int64_t block_time_s = 12;  // whatever set_block_time says since
};

class BlockClock {
 public:
  explicit BlockClock(const BlockClockSettings& settings) : settings_(settings) {}

  Block block(Instant now) const noexcept;

  // kBlockWentBack, or kBlockTooFar also where blocks follow from time.
  Fault push(Block block, Instant now);
  // A block that was known before this process.
  void resume(Block block) noexcept;

  Duration epoch_time(std::int64_t length) const noexcept;
  const BlockClockSettings& settings() const noexcept { return settings_; }

 private:
  struct Push {
    Block block;
    Instant at;
  };

  BlockClockSettings settings_;
  Block pushed_ = 0;
  std::deque<Push> pushes_;
};

}  // namespace weir::system::compute
