// Counter: counted by one thread, read by any.
//
// Each loop has counters of its own, so counting is a plain addition: no lock, and no
// cache line that two cores fight for. A reader adds up those of all loops.
//
// Thread safety: add() from one thread, value() from any.

#pragma once

#include <atomic>
#include <cstdint>

namespace weir::server {

class Counter {
 public:
  void add(std::uint64_t count = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

// Of the connections of one protocol on one loop.
struct Traffic {
  Counter opened;
  Counter closed;
  Counter bytes_in;
  Counter bytes_out;
  Counter unknown_tokens;  // that were presented
};

}  // namespace weir::server
