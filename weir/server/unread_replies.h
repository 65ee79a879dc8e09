// Unread replies: what the server keeps for clients that do not read, over all connections.
//
//   UnreadReplies all(268'435'456);
//   if (!all.change(counted, unsent.size())) close();   // more than that may not be kept
//   counted = unsent.size();
//
// The connection whose replies would pass the bound is the one that pays: strangers cannot take it
// all, since each of them has 16 KiB.
//
// Thread safety: every function may be called from any thread.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weir::server {

class UnreadReplies {
 public:
  explicit UnreadReplies(std::size_t most) noexcept : most_(most) {}

  // A connection keeps `now` bytes instead of `before`. False: there would be more than may be
  // kept, and it still counts as `before`; it is to be closed.
  bool change(std::size_t before, std::size_t now) noexcept {
    if (now <= before) {
      bytes_.fetch_sub(before - now, std::memory_order_relaxed);
      return true;
    }
    const std::size_t more = now - before;
    // Both are far below 2^63, so the sum does not overflow.
    if (bytes_.fetch_add(more, std::memory_order_relaxed) + more <= most_) return true;
    bytes_.fetch_sub(more, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  // How often it said no.
  std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace weir::server
