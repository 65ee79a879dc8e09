// What a meter says to one cost at one instant.
//
// Shared by the five meters. A check takes nothing; what it returns holds for
// the state and the instant it was given.

#pragma once

#include <cstdint>

#include "weir/base/decision.h"
#include "weir/base/time.h"

namespace weir::meter {

struct Check {
  Verdict verdict = Verdict::kAllowed;  // kAllowed, kDenied or kNever
  Instant earliest{};          // the first instant at which the cost fits; kForever: unknown
  std::int64_t shortfall = 0;  // units that were missing

  constexpr bool allowed() const noexcept { return verdict == Verdict::kAllowed; }
  friend constexpr bool operator==(const Check&, const Check&) = default;
};

// A check and the state after it. A refusal returns the state it was given, so
// that nothing need be written.
template <typename State>
struct Step {
  Check check;
  State state;

  constexpr bool allowed() const noexcept { return check.allowed(); }
};

}  // namespace weir::meter
