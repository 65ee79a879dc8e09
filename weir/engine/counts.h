// Counts: what an engine has decided so far, what it holds, and what a key has left.
//
// What was decided only ever rises, from 0 when the engine is made: a process that
// starts again counts anew. It is read while other threads decide, so two numbers may
// be of different instants.
//
// Thread safety: none needed. These are values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "weir/base/result.h"

namespace weir::engine {

// How often a limit decided, since the engine was made. A request that is admitted counts
// at every limit it met; one that is refused, at those that refused it.
struct LimitCounts {
  std::string limit;
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;
  std::uint64_t never = 0;
  std::uint64_t overloaded = 0;     // a queue was full
  std::uint64_t shadow_denied = 0;  // would have been refused
  std::uint64_t clipped = 0;        // settlements that would have left it to owe more than it may
};
// All limits in force, the buckets of ad_hoc.h together, and requests that met no limit.
struct Counts {
  std::vector<LimitCounts> limits;  // those in force, in the order of the rules
  std::uint64_t ad_hoc_allowed = 0;
  std::uint64_t ad_hoc_denied = 0;
  std::uint64_t unmatched = 0;  // requests that met no limit, whatever they were answered
};

// One of the keys that asked most of a limit. Keys that asked little may be missing.
struct HeavyKey {
  std::string key;                  // `client=acme env=prod`
  std::vector<std::string> values;  // `acme`, `prod`
  std::int64_t units = 0;           // asked for: exact at first, then estimated from samples
};

// What an engine keeps now. The bounds of all four are in EngineOptions.
struct Usage {
  std::size_t keys = 0;         // meters in the table
  std::size_t table_bytes = 0;  // of memory that the table uses
  std::size_t holds = 0;        // active ones
  std::size_t waiters = 0;
};

// What one key of a limit has left.
struct Inspection {
  std::int64_t remaining = 0;  // negative in debt
  std::int64_t capacity = 0;
  bool overridden = false;  // has parameters of its own
  std::size_t waiters = 0;
  // Of a shared limit with a lease: units drawn ahead that this engine holds beside `remaining`.
  std::optional<std::int64_t> leased{};
};

// Called once: on the stack, or later by the store of a shared limit.
using InspectCallback = std::function<void(const Result<Inspection>&)>;

}  // namespace weir::engine
