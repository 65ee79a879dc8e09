// The scripts by which the instances of a fleet share the limits of a model.
//
// Keys, fields, arguments and replies: docs/reference/pool-redis.md. Every reply is a text, or an
// array that begins with one, whose first letter is the digit of a PoolCode. Numbers travel as
// little-endian doubles.
//
// Internal to this folder.
//
// Thread safety: a script does not change.

#pragma once

#include <cstdint>

#include "weir/store/redis/link/script.h"

namespace weir::store::redis {

enum class PoolCode : std::uint8_t {
  kDone = 0,           // granted, settled, registered, ...
  kExhausted = 1,      // a window has no room
  kBusy = 2,           // enough jobs are in flight
  kNotRegistered = 3,  // the registration has ended
  kRecovering = 4,     // what was lost is being reported
  kLost = 5,           // another marker: the store is not the one registered in
  kMismatch = 6,       // the fleet has other limits
  kDoneBefore = 8,     // this release was settled already
};

struct PoolScripts {
  Script work;  // acquires and releases
  Script tell;
  Script report;
};
const PoolScripts& pool_scripts();

struct PoolFleetScripts {
  Script enrol;  // register, which C++ keeps for itself
  Script heartbeat;
  Script unregister;
};
const PoolFleetScripts& pool_fleet_scripts();

}  // namespace weir::store::redis
