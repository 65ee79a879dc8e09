// Snapshots: levels and clocks of a throttle set, saved and brought back.
//
// Ours carry the buckets' names, so that changed definitions cannot restore into the wrong
// bucket; a bucket that has changed takes the same share of its capacity, rounded up. The
// published form is positional: normal buckets in the order of the file, then high-volume
// ones. As JSON:
//
//   {"buckets": [{"name": "ThroughputLimits", "capacity": 390000, "used": 5,
//                 "decided": [1700000000, 4]}, ...],
//    "gas": [0, null], "duration": [0, null], "bytes": [0, null],
//    "capacities": {"gas": 15000000, "bytes": 133120, "duration": 500000000},
//    "genericStarts": [null, [1700000000, 4]], "gasStarts": [null, null], "clock": [..]}
//   {"tps": [[5, 1700000000, 4], [0, null]], "gas": [0, null], "ops": [0, null],
//    "genStarts": [null], "gasStarts": [null]}
//
// Gas and bytes take the same share likewise; where the capacity is left out, what fits. Duration
// may be beyond its capacity, and without one it stays as it is.
//
// A usage is [used, seconds, nanoseconds] of the last decision, or [used, null].
//
// Thread safety: every function is pure but for the set it is given.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weir/base/result.h"
#include "weir/system/throttle/published/congestion.h"
#include "weir/system/throttle/published/moment.h"
#include "weir/system/throttle/throttle_set.h"

namespace weir::system::throttle {

struct NamedUsage {
  std::string name;
  bool high_volume = false;
  std::int64_t capacity = 0;
  Usage usage{};
};

// Of buckets without a name; none: not known.
struct ScalarCapacities {
  std::optional<std::int64_t> gas{};
  std::optional<std::int64_t> bytes{};
  std::optional<std::int64_t> duration{};
};

struct Snapshot {
  std::vector<NamedUsage> buckets{};
  std::optional<Usage> gas{};
  std::optional<Usage> bytes{};
  std::optional<Usage> duration{};
  ScalarCapacities capacities{};  // of the three
  TierStarts generic_starts{};
  TierStarts gas_starts{};
  Moment clock{};  // of a set whose clock is clamped
};

struct PositionalSnapshot {
  std::vector<Usage> buckets{};
  std::optional<Usage> gas{};
  std::optional<Usage> duration{};
  std::optional<TierStarts> generic_starts{};
  std::optional<TierStarts> gas_starts{};
};

// The latest instant in it: of a decision, of a tier that went on, of its clock.
Moment latest_of(const Snapshot& snapshot) noexcept;
Moment latest_of(const PositionalSnapshot& snapshot) noexcept;

// Moves every instant back, as if the clock that it was saved by had not been ahead by so much.
void shift_back(Snapshot& snapshot, Duration by) noexcept;

// `congestion` may be null.
Snapshot snapshot_of(const ThrottleSet& set, const Congestion* congestion);
PositionalSnapshot positional_snapshot_of(const ThrottleSet& set, const Congestion* congestion);

struct RestoreReport {
  std::size_t restored = 0;              // buckets
  std::vector<std::string> converted{};  // had another capacity
  std::vector<std::string> unknown{};    // in the snapshot, not in the set: left out
  std::vector<std::string> missing{};    // in the set, not in the snapshot: left as they are
};

// Checks everything before it changes anything. Of several buckets with one name, the
// first gets the first. Where the set's clock is clamped, nothing in it may be later than its
// clock: such a snapshot contradicts itself.
Result<RestoreReport> restore(const Snapshot& snapshot, ThrottleSet& set, Congestion* congestion);

enum class RestorePolicy : std::uint8_t {
  kSkip,      // what does not fit is left as it was
  kFailFast,  // is an anomaly, and what was restored before it stays
};

// As published: all buckets if there are as many, else the normal ones, else none.
Anomaly restore(const PositionalSnapshot& snapshot, RestorePolicy policy, ThrottleSet& set,
                Congestion* congestion);

std::string to_json(const Snapshot& snapshot);
std::string to_json(const PositionalSnapshot& snapshot);
Result<Snapshot> parse_snapshot(std::string_view text);
Result<PositionalSnapshot> parse_positional_snapshot(std::string_view text);

}  // namespace weir::system::throttle
