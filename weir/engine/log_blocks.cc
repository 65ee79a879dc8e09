#include "weir/engine/log_blocks.h"

#include <algorithm>
#include <utility>

namespace weir::engine {
namespace {

// A handle is the block's number plus one, above four bits of size class.
constexpr std::uint32_t kClassBits = 4;

constexpr std::uint32_t runs_in(std::uint32_t size_class) { return 4u << size_class; }
// Small blocks are allocated many at a time, large ones singly.
constexpr std::uint32_t blocks_per_chunk(std::uint32_t size_class) {
  return runs_in(size_class) >= 256 ? 1 : 256 / runs_in(size_class);
}
constexpr std::uint32_t class_of(std::uint32_t handle) { return handle & ((1u << kClassBits) - 1); }
constexpr std::uint32_t block_of(std::uint32_t handle) { return (handle >> kClassBits) - 1; }

}  // namespace

meter::ConstLogRing LogBlocks::ring(std::uint32_t handle) const noexcept {
  if (handle == 0) return {};
  const std::uint32_t runs = runs_in(class_of(handle));
  const std::uint32_t block = block_of(handle);
  const std::uint32_t per_chunk = blocks_per_chunk(class_of(handle));
  const auto& chunk = classes_[class_of(handle)].chunks[block / per_chunk];
  return {chunk.get() + std::size_t{block % per_chunk} * runs, runs};
}

meter::LogRing LogBlocks::ring(std::uint32_t handle) noexcept {
  const meter::ConstLogRing fixed = std::as_const(*this).ring(handle);
  return {const_cast<meter::LogRun*>(fixed.data()), fixed.size()};
}

bool LogBlocks::reserve(meter::LogState& state, std::uint32_t runs) {
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

void LogBlocks::release(std::uint32_t handle) noexcept {
  if (handle != 0) classes_[class_of(handle)].free.push_back(block_of(handle));
}

std::uint32_t LogBlocks::allocate(std::uint32_t size_class) {
  Class& blocks = classes_[size_class];
  if (blocks.free.empty()) {
    const std::uint32_t count = blocks_per_chunk(size_class);
    const std::size_t more = std::size_t{runs_in(size_class)} * count;
    if (runs_ + more > runs_max_) return 0;
    runs_ += more;
    const auto first = static_cast<std::uint32_t>(blocks.chunks.size()) * count;
    blocks.chunks.push_back(std::make_unique<meter::LogRun[]>(more));
    // Room for every block of this class, so that release() never allocates.
    if (blocks.free.capacity() < first + count) {
      blocks.free.reserve(std::max<std::size_t>(first + count, 2 * blocks.free.capacity()));
    }
    for (std::uint32_t i = count; i-- > 0;) blocks.free.push_back(first + i);
  }
  const std::uint32_t block = blocks.free.back();
  blocks.free.pop_back();
  return ((block + 1) << kClassBits) | size_class;
}

}  // namespace weir::engine
