// The script that every server of a fleet runs each second.

#include <string>

#include "weir/store/redis/shared/lua.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

// Whoever knew other data than there is says so here, also if nobody asks it for decisions: a
// server that has just started cannot tell lost data from none. It begins no data itself.
constexpr std::string_view kBeat = R"lua(
local time = call('TIME')
local alive = time[1] * 1000000 + time[2]
if type(try('ZREMRANGEBYSCORE', KEYS[2], 0, alive)) == 'table' then foreign(KEYS[2]) end
call('ZADD', KEYS[2], alive + tonumber(ARGV[5]), ARGV[2])
call('PEXPIRE', KEYS[2], 60000)
local is_known = epoch or seen ~= ''
if is_known and epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {call('ZCARD', KEYS[2]), is_known and epoch_after ~= seen and epoch_after or ''}
)lua";

}  // namespace

std::string_view beat_script() {
  static const std::string text = with_epoch(kBeat);
  return text;
}

}  // namespace weir::store::redis
