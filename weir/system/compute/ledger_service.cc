#include "weir/system/compute/ledger_service.h"

namespace weir::system::compute {

AllocationSet allocation_set(const Ledger& ledger, const Allocations& allocations,
                             Duration epoch_time) {
  AllocationSet set{.epoch = allocations.epoch, .epoch_time = epoch_time};
  set.clusters.reserve(allocations.rows.size());
  for (const Allocation& row : allocations.rows) {
    const Cluster& cluster = ledger.clusters()[row.cluster];
    ClusterAllocation& out = set.clusters.emplace_back();
    out.cluster = cluster.wallet;
    out.units = row.units;
    for (const std::string_view portal : ledger.portals(cluster)) out.portals.emplace_back(portal);
  }
  return set;
}

}  // namespace weir::system::compute
