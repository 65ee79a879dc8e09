// Pools come first and claim their portals; what is left of the older registry is added by owner.

#include "weir/system/compute/published/merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "weir/base/integer.h"

namespace weir::system::compute {
namespace {

void add(ClusterAllocation& cluster, std::int64_t units) {
  cluster.units = saturate(Wide{cluster.units} + units);
}

}  // namespace

std::vector<ClusterAllocation> merge_registries(std::span<const ClusterAllocation> pools,
                                                std::span<const LegacyPortal> legacy) {
  std::map<std::string_view, ClusterAllocation> owners;
  std::set<std::string_view> pooled;  // portals
  for (const ClusterAllocation& pool : pools) {
    if (pool.units == 0 || pool.portals.empty()) continue;
    ClusterAllocation& owner = owners[pool.cluster];
    add(owner, pool.units);
    for (const std::string& portal : pool.portals) {
      if (pooled.insert(portal).second) owner.portals.push_back(portal);
    }
  }
  std::set<std::string_view> counted;  // owners whose first row there was
  for (const LegacyPortal& row : legacy) {
    if (pooled.contains(row.portal)) continue;
    ClusterAllocation& owner = owners[row.owner];
    owner.portals.push_back(row.portal);
    if (counted.insert(row.owner).second) add(owner, row.units);
  }
  std::vector<ClusterAllocation> merged;
  for (auto& [name, owner] : owners) {
    owner.cluster = name;
    merged.push_back(std::move(owner));
  }
  return merged;
}

}  // namespace weir::system::compute
