-- include books.lua

-- Tells the instances that something was freed for which one of them was refused.
-- ARGV: channel
local b, is_there = load()
if is_there and b.wanted == 1 then
  b.wanted, b.said_at = 0, now
  -- It is no change that an instance is promised: the instant of the last one stays.
  redis.call('HSET', books, 'state', packed(b))
  redis.call('PUBLISH', ARGV[1], 'freed')
end
return '0'
