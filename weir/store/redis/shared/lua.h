// Shared Lua: what the scripts of shared limits have in common.
//
// Internal to this folder.

#pragma once

#include <string>
#include <string_view>

namespace weir::store::redis {

// `body` after the functions that read, advance and write each kind of meter.
std::string with_meters(std::string_view body);

// The same, after it is known whether data was lost: KEYS[1] is the epoch, ARGV[3] as last seen,
// ARGV[4] a fresh one. The epoch to be written is `epoch_after`.
std::string with_epoch(std::string_view body);

}  // namespace weir::store::redis
