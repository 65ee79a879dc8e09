// What the engine does with a call of CL.THROTTLE, for tests and the fuzzer.

#pragma once

#include <algorithm>

#include "weir/base/integer.h"
#include "weir/meter/bucket.h"
#include "weir/wire/resp/throttle.h"

namespace weir::wire::resp {

// Takes its quantity, or gives it back.
inline meter::BucketStep charge(const ThrottleCall& call, meter::BucketState state,
                                Instant now) noexcept {
  if (call.quantity >= 0) return meter::take(call.shape, state, now, call.quantity);
  const std::int64_t amount = -std::max(call.quantity, -kTermMax);
  return {{Verdict::kAllowed, now, 0}, meter::give_back(call.shape, state, now, amount)};
}

}  // namespace weir::wire::resp
