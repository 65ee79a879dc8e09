#include "weir/store/redis/shared/lease.h"

namespace weir::store::redis {

Lease::Tidied Lease::tidy(Instant now) noexcept {
  Tidied tidied;
  tidied.expired = expire(now);
  if (half_ == Instant{}) half_ = now + terms_.length / 2;
  if (now >= half_) {
    used_before_ = std::exchange(used_, 0);
    half_ = now + terms_.length / 2;
  }
  // Up to twice the target is kept, as demand is never even; without demand, nothing is.
  const std::int64_t kept = target();
  if (held_ - kept > kept) {
    tidied.surplus = held_ - kept;
    held_ = kept;
  }
  tidied.is_old = held_ > 0 && now >= end_ - terms_.length / 2;
  tidied.is_idle = held_ == 0 && kept == 0;
  return tidied;
}

}  // namespace weir::store::redis
