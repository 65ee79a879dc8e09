// Availability: how many jobs an instance would take now, as it advertises it.
//
// The pools' slots, scaled down where memory holds less, each model's within bounds of its
// own. Doubles, in the published order of operations.
//
// Thread safety: every function is pure.

#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "weir/system/pool/job_type.h"

namespace weir::system::pool {

// Of what a model advertises.
struct CapacityBounds {
  std::int64_t least = 0;
  std::optional<std::int64_t> most{};

  friend bool operator==(const CapacityBounds&, const CapacityBounds&) = default;
};

// Jobs that fit into so much memory, each type in its part; nothing if no type has an estimate.
std::optional<std::int64_t> memory_slots(std::span<const JobType> types,
                                         std::span<const double> ratios, std::int64_t total_kb);

struct ModelAvailability {
  std::int64_t total_slots = 0;
  CapacityBounds bounds{};
};
std::int64_t available_slots(std::span<const ModelAvailability> models,
                             std::optional<std::int64_t> in_memory);

}  // namespace weir::system::pool
