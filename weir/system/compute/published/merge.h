// Merge: clusters of two generations of registries as one list for a worker.
//
// The second generation has pools, with an owner, portals and units; the first has a row for
// each portal, with the units of its owner repeated in every row. Merged, an owner is one
// cluster, and owners come in order:
//
//   pools of at least one unit and one portal; those of one owner are put together
//   then rows of the first generation, but for portals that a pool has: the portal is added,
//   and the units of the owner's first row that is left
//
// Thread safety: none needed. Every function here is pure.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weir/system/compute/admission.h"

namespace weir::system::compute {

struct LegacyPortal {
  std::string portal;
  std::string owner;
  std::int64_t units = 0;
};

// Clusters are named by their owners. Units that do not fit in 63 bits are as many as do.
// Requires units of 0 or more.
std::vector<ClusterAllocation> merge_registries(std::span<const ClusterAllocation> pools,
                                                std::span<const LegacyPortal> legacy);

}  // namespace weir::system::compute
