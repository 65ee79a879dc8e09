-- Five buckets in Redis, all or nothing. KEYS; ARGV: interval and tolerance of each,
-- in microseconds.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local found = redis.call('MGET', unpack(KEYS))
local arrivals = {}
for i = 1, #KEYS do
  local interval, tolerance = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local arrival = tonumber(found[i]) or now
  if arrival < now then arrival = now end
  if arrival - now > tolerance then return {0, i, arrival - now - tolerance} end
  arrivals[i] = arrival + interval
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], string.format('%.0f', arrivals[i]), 'PX',
             math.ceil((arrivals[i] - now) / 1000) + 1)
end
return {1, 0, 0}
