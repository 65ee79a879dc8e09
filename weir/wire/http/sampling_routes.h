// Sampling routes: grants of tasks.
//
// Thread safety: immutable.

#pragma once

#include <memory>

#include "weir/system/sampling/sampling.h"
#include "weir/wire/http/routes.h"

namespace weir::wire::http {

// nullptr: none is configured.
using SamplingPart = std::shared_ptr<system::sampling::Sampling>;
using SamplingRoutes = SystemRoutes<SamplingPart>;

SamplingRoutes sampling_routes(SamplingRoutes::InForce in_force);

}  // namespace weir::wire::http
