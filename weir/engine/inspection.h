// Inspection: what one key of a limit has left.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "weir/base/result.h"

namespace weir::engine {

struct Inspection {
  std::int64_t remaining = 0;  // negative in debt
  std::int64_t capacity = 0;
  bool overridden = false;  // has parameters of its own
  std::size_t waiters = 0;
  // Of a shared limit with a lease: units drawn ahead that this engine holds beside `remaining`.
  std::optional<std::int64_t> leased{};
};

using InspectCallback = std::function<void(const Result<Inspection>&)>;

}  // namespace weir::engine
