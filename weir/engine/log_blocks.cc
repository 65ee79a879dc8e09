#include "weir/engine/log_blocks.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace weir::engine {

LogBlocks::LogBlocks(std::size_t runs_max) {
  constexpr std::uint32_t kWhole = 1u << kLargest;  // units of the largest block
  // Handles have 28 bits for the unit, and the first ones are not used.
  constexpr std::size_t kUnitsMost =
      (std::size_t{1} << (32 - kClassBits)) - std::size_t{2} * kWhole;
  const std::size_t bound = std::min(runs_max / kUnitRuns, kUnitsMost);
  if (bound == 0) return;
  const auto rest = static_cast<std::uint32_t>(bound % kWhole);
  const auto whole = static_cast<std::uint32_t>(bound - rest);
  fresh_end_ = kWhole + whole;
  units_ = fresh_end_ + (rest == 0 ? 0 : kWhole);
  // Pairs of all sizes together are fewer than units.
  mapping_bytes_ = units_ * kUnitBytes + units_ / 8;
  void* mapping = ::mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  runs_ = static_cast<meter::LogRun*>(mapping);
  pairs_ = reinterpret_cast<std::uint64_t*>(runs_ + units_ * std::size_t{kUnitRuns});
  // What is less than a largest block is there in smaller ones.
  std::uint32_t unit = fresh_end_;
  for (std::uint32_t size_class = kLargest; size_class-- > 0;) {
    if ((rest >> size_class & 1) == 0) continue;
    put(unit, size_class);
    unit += 1u << size_class;
  }
}

LogBlocks::~LogBlocks() {
  if (runs_ != nullptr) ::munmap(runs_, mapping_bytes_);
}

bool LogBlocks::reserve(meter::LogState& state, std::uint32_t runs) noexcept {
  if (ring(state.block).size() >= runs) return true;
  std::uint32_t size_class = 0;
  while (runs_in(size_class) < runs) ++size_class;
  std::uint32_t handle;
  {
    const std::scoped_lock lock(lock_);
    handle = take(size_class);
  }
  if (handle == 0) return false;
  const std::uint32_t former = state.block;
  state = meter::move_runs(state, ring(former), ring(handle));
  state.block = handle;
  release(former);
  return true;
}

void LogBlocks::release(std::uint32_t handle) noexcept {
  if (handle == 0) return;
  const std::scoped_lock lock(lock_);
  put(unit_of(handle), class_of(handle));
}

// A block of that size, of the smallest free one that is large enough; 0: there is none.
std::uint32_t LogBlocks::take(std::uint32_t size_class) noexcept {
  std::uint32_t found = size_class;
  while (found <= kLargest && free_[found] == 0) ++found;
  std::uint32_t unit = 0;
  if (found <= kLargest) {
    unit = unit_of(free_[found]);
    unlink(free_[found]);
    turn_pair(unit, found);
  } else {
    if (fresh_ == fresh_end_) return 0;
    unit = fresh_;
    fresh_ += 1u << kLargest;
    found = kLargest;
  }
  while (found > size_class) {
    found -= 1;
    turn_pair(unit, found);
    link(handle_of(unit + (1u << found), found));
  }
  return handle_of(unit, size_class);
}

// A block is free, and with it every larger one whose halves now are.
void LogBlocks::put(std::uint32_t unit, std::uint32_t size_class) noexcept {
  while (size_class < kLargest && !turn_pair(unit, size_class)) {
    const std::uint32_t buddy = unit ^ (1u << size_class);
    unlink(handle_of(buddy, size_class));
    unit = std::min(unit, buddy);
    size_class += 1;
  }
  link(handle_of(unit, size_class));
}

// One of two buddies was freed or taken. Whether exactly one of them is free now.
bool LogBlocks::turn_pair(std::uint32_t unit, std::uint32_t size_class) noexcept {
  if (size_class == kLargest) return true;
  // Of each size there are half as many pairs as of the one before.
  const std::uint32_t bit = units_ - (units_ >> size_class) + (unit >> (size_class + 1));
  const std::uint64_t mask = std::uint64_t{1} << (bit % 64);
  pairs_[bit / 64] ^= mask;
  return (pairs_[bit / 64] & mask) != 0;
}

// A free block's first run names its neighbours in the list.
void LogBlocks::link(std::uint32_t handle) noexcept {
  std::uint32_t& first = free_[class_of(handle)];
  ring(handle)[0] = {Instant{0}, first};
  if (first != 0) ring(first)[0].at.ns = handle;
  first = handle;
}

void LogBlocks::unlink(std::uint32_t handle) noexcept {
  const auto before = static_cast<std::uint32_t>(ring(handle)[0].at.ns);
  const auto after = static_cast<std::uint32_t>(ring(handle)[0].units);
  if (before == 0) {
    free_[class_of(handle)] = after;
  } else {
    ring(before)[0].units = after;
  }
  if (after != 0) ring(after)[0].at.ns = before;
}

}  // namespace weir::engine
