-- include time.lua

-- The books for scripts that run seldom: `b` has the numbers of the state by name.

local names = {'marker', 'version', 'epoch', 'count', 'minute', 'mt', 'mr', 'day', 'dt', 'dr',
  'flying', 'tm', 'rm', 'td', 'rd', 'most', 'recover_at', 'wanted', 'said_at', 'now'}
local function load()
  local text, b = redis.call('HGET', books, 'state'), {}
  local numbers = text and {struct.unpack('<dddddddddddddddddddd', text)}
  for i, name in ipairs(names) do b[name] = numbers and numbers[i] or 0 end
  return b, text and true or false
end
local function packed(b)
  local numbers = {}
  for i, name in ipairs(names) do numbers[i] = b[name] end
  return struct.pack('<dddddddddddddddddddd', unpack(numbers))
end
local function save(b)
  b.now = now
  local state = packed(b)
  redis.call('HSET', books, 'state', state)
  return state
end
local function roll(b, minute_length, day_length)
  local current = now - now % minute_length
  if current > b.minute then b.minute, b.mt, b.mr = current, 0, 0 end
  current = now - now % day_length
  if current > b.day then b.day, b.dt, b.dr = current, 0, 0 end
end
local function add(b, field, more) b[field] = math.min(b[field] + more, 9007199254740991) end
