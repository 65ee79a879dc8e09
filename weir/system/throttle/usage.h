// Usage: what of a bucket outlives a process.

#pragma once

#include <cstdint>
#include <optional>

#include "weir/system/throttle/moment.h"

namespace weir::system::throttle {

struct Usage {
  std::int64_t used = 0;
  std::optional<Moment> decided{};  // the last decision; none: there was none

  friend bool operator==(const Usage&, const Usage&) = default;
};

}  // namespace weir::system::throttle
