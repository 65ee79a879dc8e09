-- include epoch.lua

-- Says that a server is alive, and looks whether data was lost. Every server runs it each second. A
-- server that knew other data than there is says so here, also if it is asked for no decisions: one
-- that has just started cannot tell lost data from none. It begins no data itself.
--   KEYS   epoch, the servers
--   ARGV   now, id of the server, the epoch as last seen, a fresh epoch, how long it counts as
--          alive
--   reply  how many are alive, the epoch if there is one and it is not as last seen, else ''

local time = call('TIME')
local alive = time[1] * 1000000 + time[2]
if type(try('ZREMRANGEBYSCORE', KEYS[2], 0, alive)) == 'table' then foreign(KEYS[2]) end
call('ZADD', KEYS[2], alive + tonumber(ARGV[5]), ARGV[2])
call('PEXPIRE', KEYS[2], 60000)
local is_known = epoch or seen ~= ''
if is_known and epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {call('ZCARD', KEYS[2]), is_known and epoch_after ~= seen and epoch_after or ''}
