// Shared scripts: what Redis runs for limits that a whole fleet shares.
//
// Each is a .lua file of this folder, which begins with its keys, arguments and reply. The build
// puts what a script includes in front of it (cmake/EmbedLua.cmake).
//
// Lua in Redis has only doubles, so everything here is added, carried and compared below
// 2^53. C++ passes a bucket's costs and bursts as whole microseconds and a numerator
// (meter.h). From the states that a script hands back it works out everything that takes a
// wide product.
//
// Each script reads everything before it writes anything, so an error (a foreign value
// under one of our keys, no memory left) means that nothing has been charged.
//
// The numbers of one limit travel as one blob, kind and shadow as letters and six big-endian
// doubles:
//
//   kind      1       2       3         4         5     6
//   b bucket  cost_us parts   fill_us   parts     num
//   t ticker  cost    limit   interval  per tick  start empty (1)
//   w window  cost    limit   length
//   c same    cost    limit   four bounds of calendar windows follow as 3..6
//   l log     cost    limit   window    grain
//   s slots   cost    limit   hold
//
// Times are microseconds since the Unix epoch, the id of a hold is 16 bytes (keys.h).
// docs/reference/redis.md describes the keys.
//
// A server draws units ahead of need for limits with a lease. It does not know how much is left,
// and Lua cannot divide exactly, so it names amounts, the largest first, and gets the first that
// is there. Beside the meter there is a record of what each server holds, as it said last, and
// until when; draw and give_back both return what is in it of leases that have ended. Amounts
// travel as append_amount() writes them.
//
// Thread safety: a script does not change.

#pragma once

#include "weir/store/redis/link/script.h"

namespace weir::store::redis {

struct SharedScripts {
  Script decide;      // checks and charges all limits of one request
  Script one_bucket;  // the same, faster, for a single bucket
  Script buckets;     // the same for several requests for buckets
  Script end;         // ends a hold
  Script renew;       // lets a hold last longer
  Script reset;       // forgets what one key has used
  Script slot_holds;  // tells which holds have slots of one key
  Script beat;        // says that this server is alive
  Script draw;        // draws units ahead of need
  Script give_back;   // gives drawn units back
};
const SharedScripts& shared_scripts();

}  // namespace weir::store::redis
