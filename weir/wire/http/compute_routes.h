// Compute routes: the ledger and the worker.
//
// Thread safety: immutable.

#pragma once

#include <memory>

#include "weir/system/compute/feed.h"
#include "weir/system/compute/ledger_service.h"
#include "weir/wire/http/allocation_desk.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// By default nothing is configured.
struct ComputePart {
  std::shared_ptr<system::compute::LedgerService> ledger{};  // nullptr: it is elsewhere
  std::shared_ptr<system::compute::SharedWorker> worker{};   // nullptr: this is none
  system::compute::FeedStatus feed{};
  std::shared_ptr<AllocationDesk> desk{};  // of the ledger; nullptr: there is none
};

using ComputeRoutes = SystemRoutes<ComputePart>;

ComputeRoutes compute_routes(ComputeRoutes::InForce in_force);

// Handlers outside the file of the table.
void admit_query(Exchange& exchange);  // compute_worker_calls.cc
void complete_query(Exchange& exchange);
void cancel_query(Exchange& exchange);
void show_query(Exchange& exchange);
void show_worker(Exchange& exchange);

}  // namespace weir::wire::http
