-- include fleet.lua

-- Ends the registration of an instance. What it has in flight goes on elsewhere than here, at the
-- providers: it keeps its places until a successor takes it over, or for one more lease.
-- ARGV: channel, registration; marker, lease, day
local b, is_there = load()
local marker, lease, day_length = struct.unpack('<ddd', ARGV[3])
if not is_there or b.marker ~= marker then return '5' end
if not redis.call('ZSCORE', leases, ARGV[2]) then return '3' end
local mine = redis.call('HGET', books, 'r:' .. ARGV[2])
if mine and struct.unpack('<d', mine) > 0 then
  redis.call('ZREM', leases, ARGV[2])
  redis.call('ZADD', left, now + lease, ARGV[2])
else
  forget(b, ARGV[2])
end
changed(b)
save(b)
-- Nobody else may be there to do it.
keep(day_length)
return '0'
