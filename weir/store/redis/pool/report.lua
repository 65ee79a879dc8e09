-- include books.lua

-- Reports the totals, and who shares them.
-- ARGV: marker, minute, day, most instances
local marker, minute_length, day_length, most = struct.unpack('<dddd', ARGV[1])
local b, is_there = load()
if not is_there or b.marker ~= marker then return {'5'} end
roll(b, minute_length, day_length)
b.now = now
local reply = {'00' .. packed(b)}
local list = redis.call('ZRANGE', KEYS[2], 0, most - 1, 'WITHSCORES')
for i = 1, #list, 2 do
  local f = redis.call('HMGET', books, 'i:' .. list[i], 'r:' .. list[i])
  local n = f[2] and struct.unpack('<d', f[2]) or 0
  table.insert(reply, {f[1] or '', n, list[i + 1]})
end
return reply
