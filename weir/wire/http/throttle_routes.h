// Throttle routes: transactions as the network decides them.
//
// Thread safety: immutable.

#pragma once

#include <memory>

#include "weir/system/throttle/throttles.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// nullptr: none are configured.
using ThrottlePart = std::shared_ptr<system::throttle::Throttles>;
using ThrottleRoutes = SystemRoutes<ThrottlePart>;

ThrottleRoutes throttle_routes(ThrottleRoutes::InForce in_force);

}  // namespace weir::wire::http
