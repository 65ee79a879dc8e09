// Throttle commands: transactions as the network decides them, many in one command.
//
// Thread safety: immutable.

#pragma once

#include <cstddef>
#include <memory>

#include "weir/system/throttle/throttles.h"
#include "weir/wire/resp/command.h"

namespace weir::wire::resp {

constexpr std::size_t kSubmissionsMax = 1'000;  // of one command

// nullptr: none are configured.
using ThrottlePart = std::shared_ptr<system::throttle::Throttles>;
using ThrottleCommandTable = SystemCommands<ThrottlePart>;

ThrottleCommandTable throttle_commands(ThrottleCommandTable::InForce in_force);

}  // namespace weir::wire::resp
