-- One bucket in Redis, as a theoretical arrival time. KEYS[1]; ARGV: interval and
-- tolerance in microseconds.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local interval, tolerance = tonumber(ARGV[1]), tonumber(ARGV[2])
local arrival = tonumber(redis.call('GET', KEYS[1])) or now
if arrival < now then arrival = now end
if arrival - now > tolerance then return {0, arrival - now - tolerance} end
arrival = arrival + interval
redis.call('SET', KEYS[1], string.format('%.0f', arrival), 'PX', math.ceil((arrival - now) / 1000) + 1)
return {1, 0}
