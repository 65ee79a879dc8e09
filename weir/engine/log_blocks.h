// Log blocks: where the runs of logs live.
//
// A table slot has 16 bytes of state, enough for any meter but the log, whose runs
// are kept here in blocks of 4, 8, ... 1024 runs. A block is named by a handle from
// which its address follows, in one mapping that is as large as the bound and uses
// memory only as it is written.
//
// Blocks are buddies: one of 1,024 runs is halved until it is as small as is asked for, and a
// block whose other half is free too becomes one with it again. So whatever sizes logs had
// before, memory that is free serves logs of any size.
//
//   1024 [                              ]
//    512 [              ][    free      ]
//    256 [ free ][ log  ]
//
// Thread safety: reserve and release may be called by any number of threads; the
// runs of a block belong to the thread that holds the lock of the log's shard.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "weir/meter/log.h"

namespace weir::engine {

class LogBlocks {
 public:
  // At most `runs_max` runs altogether. Throws std::bad_alloc if the machine refuses
  // the addresses.
  explicit LogBlocks(std::size_t runs_max);
  ~LogBlocks();
  LogBlocks(const LogBlocks&) = delete;
  LogBlocks& operator=(const LogBlocks&) = delete;

  // The ring behind a handle; empty for handle 0.
  meter::LogRing ring(std::uint32_t handle) noexcept {
    if (handle == 0) return {};
    return {runs_ + (handle >> kClassBits) * std::size_t{kUnitRuns}, runs_in(class_of(handle))};
  }
  meter::ConstLogRing ring(std::uint32_t handle) const noexcept {
    return const_cast<LogBlocks*>(this)->ring(handle);
  }

  // Fetches the oldest run and the place of the next one, given the first word of a LogState. The
  // word may be anything: another thread may be writing it. Inlined always, because a function that
  // does nothing but fetch looks as if it did nothing.
  [[gnu::always_inline]] void prefetch(std::uint64_t word) const noexcept {
    const auto handle = static_cast<std::uint32_t>(word);
    const std::uint64_t head = word >> 32 & 0xffff;
    const std::uint64_t next = head + (word >> 48);
    const std::uint64_t size = runs_in(class_of(handle));
    // As a number, since it may lie outside of the mapping.
    const std::uint64_t ring =
        reinterpret_cast<std::uint64_t>(runs_) + (handle >> kClassBits) * kUnitBytes;
    const std::uint64_t from_head = head * sizeof(meter::LogRun);
    const std::uint64_t from_next = (next < size ? next : next - size) * sizeof(meter::LogRun);
    // NOLINTBEGIN(performance-no-int-to-ptr)
    __builtin_prefetch(reinterpret_cast<const void*>(ring + from_head), 1);
    __builtin_prefetch(reinterpret_cast<const void*>(ring + from_next), 1);
    // NOLINTEND(performance-no-int-to-ptr)
  }

  // Makes room for `runs` runs in the ring of `state`. False if the bound is
  // reached; the state is then untouched.
  bool reserve(meter::LogState& state, std::uint32_t runs) noexcept;

  void release(std::uint32_t handle) noexcept;

 private:
  // A handle is the number of the block's first unit, above four bits of size class.
  static constexpr std::uint32_t kClassBits = 4;
  static constexpr std::uint32_t kClassCount = 9;  // 4 << 0 ... 4 << 8 = kRunsMax
  static constexpr std::uint32_t kLargest = kClassCount - 1;
  static constexpr std::uint32_t kUnitRuns = 4;  // a cache line
  static constexpr std::uint64_t kUnitBytes = kUnitRuns * sizeof(meter::LogRun);

  static constexpr std::uint32_t runs_in(std::uint32_t size_class) noexcept {
    return kUnitRuns << size_class;
  }
  static constexpr std::uint32_t class_of(std::uint32_t handle) noexcept {
    return handle & ((1u << kClassBits) - 1);
  }
  static constexpr std::uint32_t unit_of(std::uint32_t handle) noexcept {
    return handle >> kClassBits;
  }
  static constexpr std::uint32_t handle_of(std::uint32_t unit, std::uint32_t size_class) noexcept {
    return unit << kClassBits | size_class;
  }

  // All of these need the lock.
  std::uint32_t take(std::uint32_t size_class) noexcept;
  void put(std::uint32_t unit, std::uint32_t size_class) noexcept;
  void link(std::uint32_t handle) noexcept;
  void unlink(std::uint32_t handle) noexcept;
  bool turn_pair(std::uint32_t unit, std::uint32_t size_class) noexcept;

  std::size_t mapping_bytes_ = 0;
  meter::LogRun* runs_ = nullptr;
  std::uint32_t units_ = 0;  // of the mapping, those before the first block included

  std::mutex lock_;                       // of everything below, and of the lists in free blocks
  std::uint64_t* pairs_ = nullptr;        // a bit for two buddies of each size: one of them is free
  std::uint32_t fresh_ = 1u << kLargest;  // from here on nothing was ever used: 0 is no handle
  std::uint32_t fresh_end_ = 1u << kLargest;
  std::array<std::uint32_t, kClassCount> free_{};  // the first of each list; 0: none
};

}  // namespace weir::engine
