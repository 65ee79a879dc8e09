// Log blocks: where the runs of logs live.
//
// A table slot has 16 bytes of state, enough for any meter but the log, whose runs
// are kept here in blocks of 4, 8, ... 1024 runs. A block is named by a handle from
// which its address follows, in one mapping that is as large as the bound and uses
// memory only as it is written. Freed blocks are used again for logs of their size.
//
// Thread safety: reserve and release may be called by any number of threads; the
// runs of a block belong to whoever holds the lock of the log's shard.

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

  // Makes room for `runs` runs in the ring of `state`. False if the bound is
  // reached; the state is then untouched.
  bool reserve(meter::LogState& state, std::uint32_t runs) noexcept;

  void release(std::uint32_t handle) noexcept;

 private:
  // A handle is the number of the block's first unit, above four bits of size class.
  static constexpr std::uint32_t kClassBits = 4;
  static constexpr std::uint32_t kClassCount = 9;  // 4 << 0 ... 4 << 8 = kRunsMax
  static constexpr std::uint32_t kUnitRuns = 4;    // a cache line

  static constexpr std::uint32_t runs_in(std::uint32_t size_class) noexcept {
    return kUnitRuns << size_class;
  }
  static constexpr std::uint32_t class_of(std::uint32_t handle) noexcept {
    return handle & ((1u << kClassBits) - 1);
  }

  std::uint32_t allocate(std::uint32_t size_class) noexcept;

  meter::LogRun* runs_ = nullptr;  // unit 0 is not used: its handle would be 0
  std::size_t units_max_ = 0;

  std::mutex lock_;  // of everything below
  std::size_t units_ = 1;
  std::array<std::uint32_t, kClassCount> free_{};  // the first of each list; 0: none
};

}  // namespace weir::engine
