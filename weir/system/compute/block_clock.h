// Block clock: which block it is, and how long an epoch lasts.
//
// Blocks follow from time, genesis block + elapsed / block time, or are pushed by a client
// that watches a chain. Pushed blocks never go back; before the first push it is the genesis
// block. An epoch's length in time is measured between pushes that are an epoch apart. Until
// there were such pushes, and where blocks came so fast that the client was catching up, it
// is the block time times the blocks of an epoch.
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
// Blocks that one push may be ahead of the one before: a slip would end the ledger for good.
constexpr Block kPushAheadMax = 100'000'000;
// Blocks that come this many times as fast as the block time says are being caught up.
constexpr std::int64_t kCatchUp = 8;

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

  // kBlocksFollowTime, kBlockWentBack or kBlockTooFar. `length` of an epoch: what is further
  // back is forgotten.
  Fault push(Block block, Instant now, std::int64_t length);
  // A block that was known before this process.
  void resume(Block block) noexcept;

  Duration epoch_time(std::int64_t length) const noexcept;
  const BlockClockSettings& settings() const noexcept { return settings_; }

 private:
  void forget_pushes(std::int64_t length);

  struct Push {
    Block block;
    Instant at;
  };

  BlockClockSettings settings_;
  Block pushed_ = 0;
  std::deque<Push> pushes_;
};

}  // namespace weir::system::compute
