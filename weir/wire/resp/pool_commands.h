// Pool commands: places of jobs at models.
//
// Thread safety: immutable.

#pragma once

#include "weir/system/pool/held_jobs.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp {

// nullptr: none are configured. It outlives the sessions.
using PoolPart = system::pool::HeldJobs*;
using PoolCommandTable = SystemCommands<PoolPart>;

PoolCommandTable pool_commands(PoolCommandTable::InForce in_force);

}  // namespace weir::wire::resp
