// Query cost: the part of a compute unit that a query uses.
//
// A query names a chunk of blocks and the range it wants of it. A whole unit is taken when
// it is admitted, and what it does not use comes back when it ends:
//
//   active = max(1, min(last, end) - max(first, begin)), length = max(1, last - first)
//   cost   = active / length, at most 1, in millionths, rounded up
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/base/integer.h"

namespace weir::system::compute {

struct BlockRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// Requires blocks of 0 or more.
constexpr std::int64_t query_cost_micro(BlockRange wanted, BlockRange chunk) noexcept {
  const std::int64_t overlap =
      std::min(chunk.last, wanted.last) - std::max(chunk.first, wanted.first);
  const std::int64_t length = std::max<std::int64_t>(1, chunk.last - chunk.first);
  const std::int64_t active = std::clamp<std::int64_t>(overlap, 1, length);
  return static_cast<std::int64_t>(ceil_div(Wide{active} * kMicro, length));
}

}  // namespace weir::system::compute
