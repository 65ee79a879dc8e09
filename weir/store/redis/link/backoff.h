// Backoff: how long to wait before the next attempt, doubling, with jitter.
//
// The n-th wait is drawn from [w/2, w], where w = min(most, least * 2^n): many clients
// that lost the same server do not come back in step.
//
//   least 20 ms, most 2 s:  10..20, 20..40, 40..80, ..., 1000..2000, 1000..2000 ms
//
// Thread safety: none; one owner.

#pragma once

#include <cstdint>
#include <random>

#include "weir/base/time.h"

namespace weir::store::redis {

class Backoff {
 public:
  // Requires 0 < least <= most.
  Backoff(Duration least, Duration most, std::uint64_t seed = std::random_device{}())
      : least_(least), most_(most), wait_(least), random_(seed) {}

  Duration next() {
    // Rounds down; least >= 1 ns, so a wait may be 0 but never negative.
    std::uniform_int_distribution<std::int64_t> draw(wait_.count() / 2, wait_.count());
    const Duration drawn{draw(random_)};
    wait_ = wait_ > most_ / 2 ? most_ : wait_ * 2;
    return drawn;
  }
  void reset() { wait_ = least_; }

 private:
  Duration least_;
  Duration most_;
  Duration wait_;
  std::mt19937_64 random_;
};

}  // namespace weir::store::redis
