// Instants and verdicts that print in a failing test.

#pragma once

#include <ostream>

#include "weir/base/decision.h"
#include "weir/base/time.h"

namespace weir {

inline std::ostream& operator<<(std::ostream& out, Instant at) {
  return at == kForever ? out << "forever" : out << at.ns << " ns";
}

inline std::ostream& operator<<(std::ostream& out, Verdict verdict) {
  return out << to_string(verdict);
}

}  // namespace weir
