// Log blocks: where the runs of a shard's logs live.
//
// A table slot has 16 bytes of state, enough for any meter but the log, whose
// runs are kept here in blocks of 4, 8, ... 1024 and referred to by handle. Freed
// blocks are used again, so a log at its usual size allocates nothing.
//
// Thread safety: none; the shard's lock covers its blocks.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "weir/meter/log.h"

namespace weir::engine {

class LogBlocks {
 public:
  // At most `runs_max` runs altogether.
  explicit LogBlocks(std::size_t runs_max) : runs_max_(runs_max) {}

  // The ring behind a handle; empty for handle 0.
  meter::LogRing ring(std::uint32_t handle) noexcept;
  meter::ConstLogRing ring(std::uint32_t handle) const noexcept;

  // Makes room for `runs` runs in the ring of `state`. False if the bound is
  // reached; the state is then untouched.
  bool reserve(meter::LogState& state, std::uint32_t runs);

  void release(std::uint32_t handle) noexcept;

 private:
  static constexpr std::uint32_t kClassCount = 9;  // 4 << 0 ... 4 << 8 = kRunsMax

  struct Class {
    std::vector<std::unique_ptr<meter::LogRun[]>> chunks;
    std::vector<std::uint32_t> free;  // block numbers
  };

  std::uint32_t allocate(std::uint32_t size_class);

  std::array<Class, kClassCount> classes_;
  std::size_t runs_max_;
  std::size_t runs_ = 0;  // in all chunks
};

}  // namespace weir::engine
