#include "weir/engine/internal/wakeup.h"

#include <utility>

#include "weir/engine/internal/ending.h"
#include "weir/engine/internal/waiting.h"

namespace weir::engine {

Instant Wakeup::next() const noexcept {
  return earlier_of(ending_.next_expiry(), waiting_.next_due());
}

void Wakeup::announce() {
  if (!has_hook_.load(std::memory_order_acquire)) return;
  if (next().ns >= announced_ns_.load()) return;
  const std::scoped_lock lock(lock_);
  announce_next();
}

void Wakeup::advanced() {
  const std::scoped_lock lock(lock_);
  announce_next();
}

// Looks again, under the lock: of two threads that call, the later one leaves what is true then.
void Wakeup::announce_next() {
  const Instant at = next();
  if (at.ns < announced_ns_.exchange(at.ns) && hook_) hook_(at);
}

void Wakeup::set_hook(std::function<void(Instant)> hook) {
  const std::scoped_lock lock(lock_);
  hook_ = std::move(hook);
  has_hook_.store(hook_ != nullptr, std::memory_order_release);
  announced_ns_.store(kForever.ns, std::memory_order_relaxed);
}

}  // namespace weir::engine
