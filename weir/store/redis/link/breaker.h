// Breaker: stops asking a store that does not answer, and probes it now and then.
//
// Closed: all requests ask. After `failures` failures in a row it is open: none asks,
// but for one probe at a time, the first after `probe_first`, then at doubling jittered
// distances up to `probe_last`. A success, of a probe or of a request that was still under
// way, closes it. A failed probe keeps it open; a probe that is never reported counts as
// failed when the next one is due. A sign of life that is no success makes a probe due at once.
//
//   if (!breaker.may_ask(now)) return by_outage_policy();
//   ... ask ...
//   const bool turned = ok ? breaker.succeeded() : breaker.failed(now);
//   if (turned) log the transition, once
//
// Thread safety: safe from any thread. While closed and well, may_ask() and succeeded()
// are one relaxed load each.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <random>

#include "weir/base/time.h"
#include "weir/store/redis/link/backoff.h"

namespace weir::store::redis {

struct BreakerShape {
  int failures = 5;  // in a row, to open it
  Duration probe_first = std::chrono::milliseconds{100};
  Duration probe_last = std::chrono::seconds{1};
};

class Breaker {
 public:
  explicit Breaker(const BreakerShape& shape = {}, std::uint64_t seed = std::random_device{}())
      : shape_(shape), backoff_(shape.probe_first, shape.probe_last, seed) {}

  // Whether to ask at `now`. While it is open, true makes the caller the probe.
  bool may_ask(Instant now) {
    if (!is_open_.load(std::memory_order_relaxed)) return true;
    const std::lock_guard lock(mutex_);
    if (!is_open_.load(std::memory_order_relaxed)) return true;
    if (now < probe_at_) return false;
    probe_at_ = now + backoff_.next();
    return true;
  }

  // Each returns whether the breaker turned: closed now, or open now.
  bool succeeded() {
    if (!has_failed()) return false;
    const std::lock_guard lock(mutex_);
    failed_.store(0, std::memory_order_relaxed);
    backoff_.reset();
    return is_open_.exchange(false, std::memory_order_relaxed);
  }
  bool failed(Instant now) {
    const std::lock_guard lock(mutex_);
    const int count = failed_.load(std::memory_order_relaxed);
    if (count < shape_.failures) failed_.store(count + 1, std::memory_order_relaxed);
    if (is_open_.load(std::memory_order_relaxed) || count + 1 < shape_.failures) return false;
    probe_at_ = now + backoff_.next();
    is_open_.store(true, std::memory_order_relaxed);
    return true;
  }

  // The store was heard of: the next request is the probe, and others follow soon.
  void heard_of(Instant now) {
    const std::lock_guard lock(mutex_);
    backoff_.reset();
    probe_at_ = now;
  }

  // Whether succeeded() would change anything.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_relaxed) > 0; }
  bool is_open() const noexcept { return is_open_.load(std::memory_order_relaxed); }

 private:
  const BreakerShape shape_;
  std::atomic<bool> is_open_{false};
  std::atomic<int> failed_{0};  // in a row
  std::mutex mutex_;
  Backoff backoff_;   // guarded by mutex_
  Instant probe_at_;  // guarded by mutex_
};

}  // namespace weir::store::redis
