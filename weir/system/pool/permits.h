// Permits: so many units at a time, of something that is returned.
//
// The limit may change while units are out. Growing frees units at once. Shrinking below what
// is out leaves a debt: nothing is handed out until enough came back. The published rule
// forgets that debt, and so hands out more than the new limit later; it is kept for its cases.
//
// Thread safety: none; the owner has a lock.

#pragma once

#include <algorithm>
#include <cstdint>

namespace weir::system::pool {

enum class Shrinking : std::uint8_t { kOwes, kForgets };

class Permits {
 public:
  Permits(std::int64_t limit, Shrinking shrinking)
      : limit_(limit), free_(limit), shrinking_(shrinking) {}

  std::int64_t limit() const noexcept { return limit_; }
  std::int64_t available() const noexcept { return std::max<std::int64_t>(0, free_); }
  // Published: what is not available, which differs from what is out after shrinking.
  std::int64_t active() const noexcept { return limit_ - free_; }

  bool take(std::int64_t units) noexcept {
    if (units > free_) return false;
    free_ -= units;
    return true;
  }
  // Also more than is free; what is missing is owed.
  void take_anyway(std::int64_t units) noexcept { free_ -= units; }
  void give_back(std::int64_t units) noexcept { free_ += units; }
  void resize(std::int64_t limit) noexcept {
    free_ += limit - limit_;
    limit_ = limit;
    if (shrinking_ == Shrinking::kForgets) free_ = std::max<std::int64_t>(0, free_);
  }

 private:
  std::int64_t limit_;
  std::int64_t free_;  // negative: owed
  Shrinking shrinking_;
};

}  // namespace weir::system::pool
