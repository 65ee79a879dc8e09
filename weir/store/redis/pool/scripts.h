// The scripts by which the instances of a fleet share the limits of a model.
//
// Each is a .lua file of this folder. The build puts what a script includes in front of it
// (cmake/EmbedLua.cmake). Keys, fields, arguments and replies: docs/reference/pool-redis.md.
// Every reply is a text, or an array that begins with one, whose first letter is the digit of a
// PoolCode. Numbers travel as little-endian doubles.
//
// Lua has only doubles. Every number here is whole and below 2^53. Times are microseconds,
// of which 2^53 end in the year 2255. Limits end at 10^15, what one job uses at 10^12. Sums are
// cut at 2^53 - 1, which also stands for no limit.
//
// A script's time goes into calls and into turning numbers to text and back, so the numbers of
// the books are one field, `state`: twenty doubles, in the order of PoolTotals' reader. It is
// also what scripts answer, after a letter for the code and one more.
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
  Script enrol;  // register, which C++ keeps for itself
  Script heartbeat;
  Script unregister;
};
const PoolScripts& pool_scripts();

}  // namespace weir::store::redis
