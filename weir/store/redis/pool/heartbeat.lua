-- include fleet.lua

-- Says that an instance is alive.
-- ARGV: channel, registration; marker, lease, minute, day, jobs in flight or -1; the channel on
-- which it listens, or nothing
local marker, lease, minute_length, day_length, flying = struct.unpack('<ddddd', ARGV[3])
local b, is_there = load()
if not is_there or b.marker ~= marker then return '5' end
local mine = redis.call('HGET', books, 'r:' .. ARGV[2])
if not mine then return '3' end
redis.call('ZADD', leases, now + lease, ARGV[2])
if ARGV[4] == '' then
  redis.call('HDEL', books, 'a:' .. ARGV[2])
else
  redis.call('HSET', books, 'a:' .. ARGV[2], ARGV[4])
end
clean_up(b, lease)
look_at_channels(ARGV[2])
roll(b, minute_length, day_length)
end_recovery(b)
if flying >= 0 then
  local n, last = struct.unpack('<dd', mine)
  b.flying = math.max(0, b.flying + flying - n)
  local changed_mine = struct.pack('<dd', flying, last) .. string.sub(mine, 17)
  redis.call('HSET', books, 'r:' .. ARGV[2], changed_mine)
end
local state = save(b)
-- Two days are long: one heartbeat in sixteen is enough.
if now % 16 == 0 then keep(day_length) end
return '00' .. state
