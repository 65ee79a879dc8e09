// What a meter says to one cost at one instant.
//
// Shared by the five meters. A check takes nothing; what it returns holds for
// the state and the instant it was given.
//
//   allowed  the cost fits at that instant; shortfall is 0
//   denied   it fits at `earliest`, and not one nanosecond before, if no other cost comes
//   never    it is more than the meter can ever hold, or fits beyond the end of time
//
// Thread safety: none needed. Checks and steps are values.

#pragma once

#include <cstdint>

#include "weir/base/decision.h"
#include "weir/base/time.h"

namespace weir::meter {

struct Check {
  constexpr Check() noexcept = default;
  constexpr Check(Verdict said, Instant when, std::int64_t missing) noexcept
      : verdict(said), earliest(when), shortfall(missing) {}
  // Copied field by field: copied whole, a check that was just written in parts is read
  // back as one vector, which has to wait until all parts have left the store buffer.
  constexpr Check(const Check& other) noexcept
      : verdict(other.verdict), earliest(other.earliest), shortfall(other.shortfall) {}
  constexpr Check& operator=(const Check& other) noexcept {
    verdict = other.verdict;
    earliest = other.earliest;
    shortfall = other.shortfall;
    return *this;
  }

  constexpr bool allowed() const noexcept { return verdict == Verdict::kAllowed; }
  friend constexpr bool operator==(const Check&, const Check&) = default;

  Verdict verdict = Verdict::kAllowed;  // kAllowed, kDenied or kNever
  Instant earliest{};          // the first instant at which the cost fits; kForever: unknown
  std::int64_t shortfall = 0;  // units that were missing
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
