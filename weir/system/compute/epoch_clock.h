// Epoch clock: epochs counted in blocks.
//
// The first numbered epoch begins at block `first`, and each lasts `length` blocks. What
// comes before `first` is epoch `checkpoint`. When the length changes, the running epoch
// keeps its end, the numbers go on, and the new length begins at that end:
//
//   length 5 from block 5 on; at block 12 the length becomes 20
//   block  0    5    10   15                  35
//   epoch  0    1    2    3 (20 blocks)       4
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <limits>

#include "weir/base/integer.h"

namespace weir::system::compute {

using Block = std::int64_t;

constexpr Block kBlockMax = (std::int64_t{1} << 61) - 1;     // sums of two fit in 63 bits
constexpr Block kNoEnd = std::numeric_limits<Block>::max();  // of a lock that extends itself

struct EpochClock {
  Block first = 0;              // where epoch checkpoint + 1 begins
  std::int64_t length = 100;    // blocks
  std::int64_t checkpoint = 0;  // the epoch before `first`
  Block checkpoint_start = 0;   // where that one began

  friend constexpr bool operator==(const EpochClock&, const EpochClock&) = default;
};

// The boundary after `block`: on a boundary it is the following one.
constexpr Block next_epoch(const EpochClock& clock, Block block) noexcept {
  if (block < clock.first) return clock.first;
  return ((block - clock.first) / clock.length + 1) * clock.length + clock.first;
}

constexpr std::int64_t epoch_number(const EpochClock& clock, Block block) noexcept {
  if (block < clock.first) return clock.checkpoint;
  return (block - clock.first) / clock.length + clock.checkpoint + 1;
}

// The first block of the epoch that `block` is in.
constexpr Block epoch_start(const EpochClock& clock, Block block) noexcept {
  if (block < clock.first) return clock.checkpoint_start;
  return (block - clock.first) / clock.length * clock.length + clock.first;
}

// The first block of epoch `number`, as long as the length stays as it is. Of epochs
// before the checkpoint nothing is known: they count as the checkpoint.
constexpr Block start_of_epoch(const EpochClock& clock, std::int64_t number) noexcept {
  if (number <= clock.checkpoint) return clock.checkpoint_start;
  // Asked with a clock of before a change of length, an epoch may lie beyond all blocks.
  return saturate(clock.first + Wide{number - clock.checkpoint - 1} * clock.length);
}

constexpr EpochClock with_length(const EpochClock& clock, Block block,
                                 std::int64_t length) noexcept {
  return {next_epoch(clock, block), length, epoch_number(clock, block), epoch_start(clock, block)};
}

}  // namespace weir::system::compute
