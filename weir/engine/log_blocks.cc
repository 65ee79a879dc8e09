#include "weir/engine/log_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace weir::engine {

LogBlocks::LogBlocks(std::size_t runs_max) {
  // Handles have 28 bits for the unit.
  constexpr std::size_t kUnitsMost = (std::size_t{1} << 28) - 1;
  units_max_ = std::min(runs_max / kUnitRuns, kUnitsMost);
  if (units_max_ == 0) return;
  void* mapping =
      ::mmap(nullptr, (units_max_ + 1) * kUnitRuns * sizeof(meter::LogRun), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  runs_ = static_cast<meter::LogRun*>(mapping);
}

LogBlocks::~LogBlocks() {
  if (runs_ == nullptr) return;
  ::munmap(runs_, (units_max_ + 1) * kUnitRuns * sizeof(meter::LogRun));
}

bool LogBlocks::reserve(meter::LogState& state, std::uint32_t runs) noexcept {
  if (ring(state.block).size() >= runs) return true;
  std::uint32_t size_class = 0;
  while (runs_in(size_class) < runs) ++size_class;
  const std::uint32_t handle = allocate(size_class);
  if (handle == 0) return false;
  const std::uint32_t former = state.block;
  state = meter::move_runs(state, ring(former), ring(handle));
  state.block = handle;
  release(former);
  return true;
}

// A free block's first run says which one is next.
void LogBlocks::release(std::uint32_t handle) noexcept {
  if (handle == 0) return;
  const std::scoped_lock lock(lock_);
  std::uint32_t& first = free_[class_of(handle)];
  ring(handle)[0].units = first;
  first = handle;
}

std::uint32_t LogBlocks::allocate(std::uint32_t size_class) noexcept {
  const std::scoped_lock lock(lock_);
  std::uint32_t& first = free_[size_class];
  if (const std::uint32_t handle = first) {
    first = static_cast<std::uint32_t>(ring(handle)[0].units);
    return handle;
  }
  const std::size_t units = std::size_t{1} << size_class;
  if (units_ + units > units_max_ + 1) return 0;
  const std::size_t unit = units_;
  units_ += units;
  return static_cast<std::uint32_t>(unit << kClassBits) | size_class;
}

}  // namespace weir::engine
