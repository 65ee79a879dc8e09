// Pool routes: places of jobs at models.
//
// Thread safety: immutable.

#pragma once

#include "weir/system/pool/held_jobs.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// nullptr: none are configured. It outlives the Api.
using PoolPart = system::pool::HeldJobs*;
using PoolRoutes = SystemRoutes<PoolPart>;

PoolRoutes pool_routes(PoolRoutes::InForce in_force);

}  // namespace weir::wire::http
