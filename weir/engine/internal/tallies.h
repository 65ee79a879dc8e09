// Tallies: how often each limit decided what, counted by one thread.
//
// Counting is one addition to a cell that no other thread writes. Each limit name has
// a place, which it keeps when the rules change; the engine hands places out. A cell is
// read while it is written, so a sum is of no one instant, but no count is ever lost.
//
// Thread safety: add() from one thread; add_to() from any.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "weir/base/decision.h"

namespace weir::engine {

constexpr std::size_t kTalliedOutcomes = 5;
// Verdict::kQueued is no outcome; its cell counts refusals that shadow did not enforce.
constexpr auto kShadowDenied = static_cast<std::size_t>(Verdict::kQueued);

// By place, then by outcome.
using TallySums = std::vector<std::array<std::uint64_t, kTalliedOutcomes>>;

class Tallies {
 public:
  // Counts one outcome. Only from the thread whose tallies these are.
  void add(std::uint32_t place, std::size_t outcome) noexcept {
    if (place >= size_) [[unlikely]]
      grow(place);
    std::atomic<std::uint64_t>& cell = rows_[place][outcome];
    cell.store(cell.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  // Adds what was counted to `sums`, which becomes as long as needed.
  void add_to(TallySums& sums) const {
    const std::scoped_lock lock(lock_);
    if (sums.size() < size_) sums.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < kTalliedOutcomes; ++j) {
        sums[i][j] += rows_[i][j].load(std::memory_order_relaxed);
      }
    }
  }

 private:
  using Row = std::array<std::atomic<std::uint64_t>, kTalliedOutcomes>;

  [[gnu::noinline]] void grow(std::uint32_t place) {
    constexpr std::size_t kStep = 64;
    const std::size_t size = (place / kStep + 1) * kStep;
    auto rows = std::make_unique<Row[]>(size);
    const std::scoped_lock lock(lock_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t j = 0; j < kTalliedOutcomes; ++j) {
        rows[i][j].store(rows_[i][j].load(std::memory_order_relaxed), std::memory_order_relaxed);
      }
    }
    rows_ = std::move(rows);
    size_ = size;
  }

  std::unique_ptr<Row[]> rows_;  // replaced only by the thread that counts, under the lock
  std::size_t size_ = 0;
  mutable std::mutex lock_;
};

}  // namespace weir::engine
