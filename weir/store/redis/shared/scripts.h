// Shared scripts: what Redis runs for limits that a whole fleet shares.
//
// Lua in Redis has only doubles, so everything here is added, carried and compared below
// 2^53: C++ passes a bucket's costs and bursts as whole microseconds and a numerator
// (meter.h), and works out everything that takes a wide product from the states
// that a script hands back.
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

#pragma once

#include <string_view>

namespace weir::store::redis {

// Checks and charges all limits of one request.
//   KEYS  epoch, a key for each limit, the hold if there is one
//   ARGV  now (empty: the time of the server), 'c' charge or 'p' peek, the epoch as last
//         seen, a fresh epoch, hold id (empty: none), its time to live, its record, then a blob
//         for each limit
//   reply  1 or 0, now, the epoch if it is not as last seen, else '', then two numbers for
//         each limit: its state before (bucket: full at, parts; ticker: tokens, last tick;
//         window: begin, count; log: used, freed at or -1; slots: in flight, 0)
std::string_view decide_script();

// The same for one bucket, without a hold, where no data was lost since before it has refilled;
// it takes less time.
//   KEYS  as above
//   ARGV  now, the epoch as last seen, the blob without its sixth number
//   reply  0: the epoch is another one, ask decide_script(); else the numbers of the reply above,
//         without the epoch, as big-endian doubles in one string
std::string_view one_bucket_script();

// The same for several such requests, each of one bucket or more, none with a key of another.
//   KEYS  epoch, a key for each limit of each request
//   ARGV  now, the epoch as last seen, the plan, then blobs, each different: in the plan is for
//         each request a byte with the number of its limits, and one for each with the place
//         of its blob, from 1
//   reply  0: another epoch, or something foreign under a key, ask decide_script() for each; else
//         now, then for each request 1 or 0 and two numbers for each of its limits, as above
std::string_view buckets_script();

// Ends a hold.
//   KEYS  the hold, a key for each limit it was charged at
//   ARGV  now, 's' or 'c', the epoch as last seen, hold id, then for each limit a blob with what
//         to give back (an overage: the shadow letter is '-'), and under which instant it was
//         charged
//   reply  how the hold stands: 's', 'c', or 'g' if it is gone; now
std::string_view end_script();

// Forgets what one key has used. Not for slots.
//   KEYS  epoch, the key, the record of its leases
//   ARGV  now, nothing, the epoch as last seen, a fresh epoch, a blob of no cost
//   reply  now, the epoch if it is not as last seen, else ''
std::string_view reset_script();

// Says that this server is alive, and looks whether data was lost.
//   KEYS  epoch, the servers
//   ARGV  now, id of the server, the epoch as last seen, a fresh epoch, how long it counts as alive
//   reply  how many are alive, the epoch if there is one and it is not as last seen, else ''
std::string_view beat_script();

// Lets a hold last longer.
//   KEYS  the hold, the keys of the slots it has
//   ARGV  now, time to live, hold id
//   reply  'a', 's', 'c' or 'g', now
std::string_view renew_script();

}  // namespace weir::store::redis
