// Compute parts: what /v1/compute speaks to.

#pragma once

#include <memory>

#include "weir/system/compute/feed.h"
#include "weir/system/compute/ledger_service.h"

namespace weir::wire::http {

struct ComputeParts {
  std::shared_ptr<system::compute::LedgerService> ledger{};  // nullptr: it is elsewhere
  std::shared_ptr<system::compute::SharedWorker> worker{};   // nullptr: this is none
  system::compute::FeedStatus feed{};
};

}  // namespace weir::wire::http
