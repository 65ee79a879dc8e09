// Fleet: what every question of one server to Redis names.
//
// The servers of a fleet use the same prefix, so they mean the same keys; each has an id of its
// own, made up when it starts.
//
// Thread safety: it does not change.

#pragma once

#include <string>

#include "weir/base/clock.h"

namespace weir::store::redis {

// Sixteen hexadecimal digits, drawn anew each time.
std::string random_id();

struct Fleet {
  // `redis_clock`: told to scripts instead of the time of Redis, for tests; nullptr: none.
  Fleet(const std::string& name, Clock& its_clock, Clock* its_redis_clock);

  // The time that a script is to take for that of Redis; empty: its own.
  std::string now_argument() const;

  const std::string prefix;  // of every key
  const std::string epoch_key;
  const std::string servers_key;
  const std::string id;  // of this server
  Clock& clock;
  Clock* const redis_clock;
};

}  // namespace weir::store::redis
