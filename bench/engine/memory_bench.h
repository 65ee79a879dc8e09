// Memory: what a key, a cluster and a worker cost.

#pragma once

#include <cstddef>

namespace weir::bench {

// Resident bytes a key, the mean over 1.0, 1.25, 1.5 and 1.75 million keys.
double bytes_per_key();
// Of the compute ledger: a cluster with one portal, a worker.
double bytes_per_ledger_cluster();
double bytes_per_ledger_worker();
// Of a worker: a cluster with one portal.
double bytes_per_cluster_at_worker();

// What the process has in memory now.
std::size_t resident_bytes();

}  // namespace weir::bench
