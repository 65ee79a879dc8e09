// Exit queue: stake that leaves a pool, no faster than a rate.
//
// A belt moves `rate` parts each second, as far as parts are on it; an empty one saves up
// nothing. A staker that asks to leave has a place at the end of the belt, and may withdraw once
// the belt has moved that far. A rate that changes moves the belt from the next request on: what
// was before it is settled with the old one. How long there is still to wait is told by the new
// one at once.
//
//   10 parts a second; at 0 s one staker asks for 25 (end 25), at 1 s another for 5 (end 30)
//   at 2 s: 20 processed; the first waits 1 s more, rounded up, and the second too
//   at 2 s the rate becomes 1: still 20 processed, and they wait 5 s and 10 s
//
// Thread safety: none; callers share it behind a lock.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "weir/system/compute/units.h"

namespace weir::system::compute {

class ExitQueue {
 public:
  // `at` and all times are seconds; rates are parts in a second.
  ExitQueue(std::int64_t at, Amount rate) : last_(at), rate_(rate), next_rate_(rate) {}

  // The end of the request's place. Requires at and amounts as they fit: below 2^100 in all.
  Amount request(std::int64_t at, Amount amount, Amount rate) noexcept {
    processed_ = processed(at);
    last_ = std::max(last_, at);
    rate_ = next_rate_ = rate;
    requested_ += amount;
    return requested_;
  }

  // The rate is this one now, though nobody asks for anything.
  void change_rate(Amount rate) noexcept { next_rate_ = rate; }
  // Ours: a higher rate moves the belt from `at` on. Else a belt that stands still would do so for
  // ever once nobody is left who could ask. It is never behind where change_rate() had left it.
  void set_rate(std::int64_t at, Amount rate) noexcept {
    if (rate > rate_) {
      request(at, 0, rate);
    } else {
      change_rate(rate);
    }
  }

  // Of all requests together.
  Amount requested() const noexcept { return requested_; }

  Amount processed(std::int64_t at) const noexcept {
    const Amount left = requested_ - processed_;
    const auto seconds = static_cast<Amount>(std::max<std::int64_t>(0, at - last_));
    // Divided, because the product may not fit.
    if (seconds > 0 && rate_ >= left / seconds + 1) return requested_;
    return processed_ + std::min(left, seconds * rate_);
  }

  // Whole seconds until a place is reached, 0 if it is, at the rate of now; none: never at it.
  std::optional<std::int64_t> wait_seconds(std::int64_t at, Amount end) const noexcept {
    const Amount so_far = processed(at);
    if (so_far >= end) return 0;
    if (next_rate_ == 0) return std::nullopt;
    const Amount seconds = (end - so_far - 1) / next_rate_ + 1;
    return static_cast<std::int64_t>(std::min(seconds, static_cast<Amount>(kTermMax)));
  }

 private:
  Amount requested_ = 0;
  Amount processed_ = 0;
  std::int64_t last_;
  Amount rate_;       // that moves the belt
  Amount next_rate_;  // from the next request on
};

}  // namespace weir::system::compute
