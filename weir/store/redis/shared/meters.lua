-- What every script begins with: the time, how values are read and written, and what a meter is
-- that has no key.
--   ARGV[1]  now, in microseconds; empty: the time of this Redis

local call, try, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local EXACT = 9007199254740991

local injected = ARGV[1] ~= ''
local now
if injected then
  now = tonumber(ARGV[1])
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function foreign(key)
  error({err = 'FOREIGN ' .. key})
end

local function read(key)
  local value = try('GET', key)
  if type(value) == 'table' then foreign(key) end
  return value
end

-- A key lives until its meter is back in its initial state. On a clock of its own a test
-- must not lose it earlier. A ticker in debt may take longer than instants reach; a number above
-- 10^17 would reach Redis with an exponent, which it refuses, after other keys were written.
local function put(key, value, till)
  till = min(till, EXACT)
  if injected then
    call('SET', key, value, 'PX', 600000 + max(0, ceil((till - now) / 1000)))
  else
    call('SET', key, value, 'PXAT', ceil(till / 1000))
  end
end

-- When data was lost, if that was less than `span` ago: a meter that has no key counts as
-- fully used at that instant.
local lost_at
local function loss_in(epoch)
  local at = tonumber(epoch:sub(18))
  return at ~= 0 and at or nil
end
local function lost(span)
  return lost_at and lost_at + span > now
end

-- So a key that says otherwise stays until a missing one means the initial state again.
local function kept(till, span)
  if lost(span) then return max(till, lost_at + span) end
  return till
end

local function read_bucket(key, fill_us, fill_parts, num)
  local value = read(key)
  if not value then
    if lost(fill_us + 1) then return lost_at + fill_us, fill_parts end
    return 0, 0
  end
  local size = #value
  if size == 8 then
    local tag, at = unpack('>BI7', value)
    if tag ~= 98 then foreign(key) end
    return at, 0
  end
  if size ~= 15 then foreign(key) end
  local tag, at, parts = unpack('>BI7I7', value)
  if tag ~= 98 then foreign(key) end
  if parts >= num then return at + 1, 0 end
  return at, parts
end

local function put_bucket(key, at, parts, fill_us)
  if parts > 0 then
    put(key, pack('>BI7I7', 98, at, parts), kept(at + 1, fill_us + 1))
  elseif at > now or lost(fill_us + 1) then
    put(key, pack('>BI7', 98, at), kept(at, fill_us + 1))
  else
    call('DEL', key)
  end
end

-- Tokens and last tick; whether there was no key.
local function read_ticker(key, limit, interval, per_tick, empty)
  local value = read(key)
  if not value then
    if empty then return 0, now, true end
    local fill = ceil(limit / per_tick) * interval
    if lost(fill) then return 0, lost_at - lost_at % interval, false end
    return limit, now - now % interval, true
  end
  if #value ~= 17 then foreign(key) end
  local tag, tokens, last = unpack('>Bdd', value)
  if tag ~= 116 then foreign(key) end
  return tokens, last, false
end

local function tick(tokens, last, limit, interval, per_tick)
  if now - last < interval then return tokens, last end
  local ticks = floor((now - last) / interval)
  return min(tokens + ticks * per_tick, limit), last + ticks * interval
end

local function put_ticker(key, tokens, last, limit, interval, per_tick, empty)
  local till = last + ceil((limit - tokens) / per_tick) * interval
  local fill = ceil(limit / per_tick) * interval
  if empty then
    till = till + 86400000000
  elseif tokens >= limit and not lost(fill) then
    call('DEL', key)
    return
  end
  put(key, pack('>Bdd', 116, tokens, last), kept(till, fill))
end

-- The window that holds `at`: from the bounds of the calendar, or by its length.
local function window(at, length, bounds)
  if not bounds then
    local begin = at - at % length
    return begin, begin + length
  end
  for i = 1, 3 do
    if at >= bounds[i] and at < bounds[i + 1] then return bounds[i], bounds[i + 1] end
  end
  error({err = 'CLOCK ' .. string.format('%.0f', now)})
end

-- A window is since when it counts and what: `since` lies in it, and names the count for a
-- return to it, which no other window of any length can have.
local function read_window(key, limit, length, bounds)
  local value = read(key)
  if not value then
    if lost_at then
      local begin, till = window(now, length, bounds)
      if begin <= lost_at and lost_at < till then return begin, limit end
    end
    return 0, 0
  end
  if #value ~= 15 then foreign(key) end
  local tag, since, count = unpack('>BI7I7', value)
  if tag ~= 119 then foreign(key) end
  return since, count
end

-- The same at `now`: of a window that is over nothing counts.
local function current_window(since, count, length, bounds)
  if window(now, length, bounds) > since then return now, 0 end
  return since, count
end

local function put_window(key, since, count, length, bounds)
  local begin, till = since, bounds and bounds[4]
  if not bounds or since < till then begin, till = window(since, length, bounds) end
  if count > 0 or lost_at and begin <= lost_at and lost_at < till then
    put(key, pack('>BI7I7', 119, since, count), till)
  else
    call('DEL', key)
  end
end

-- A log is its units and then its runs, 14 bytes each, oldest first.
local RUN = 14
local function read_log(key, limit, span)
  local value = read(key)
  if not value then
    if lost(span) and limit > 0 then
      return pack('>BI7I7I7', 108, limit, lost_at, limit), limit
    end
    return '', 0
  end
  local size = #value
  if size < 8 + RUN or (size - 8) % RUN ~= 0 then foreign(key) end
  local tag, held = unpack('>BI7', value)
  if tag ~= 108 then foreign(key) end
  return value, held
end

-- Where the first run that counts begins, and the units before it.
local function forgotten(value, span)
  local at, units, size = 9, 0, #value
  while at < size do
    local stamp, n = unpack('>I7I7', value, at)
    if stamp + span > now then break end
    units = units + n
    at = at + RUN
  end
  return at, units
end

local function freed_at(value, at, span, units)
  local freed, size = 0, #value
  while at < size do
    local stamp, n = unpack('>I7I7', value, at)
    freed = freed + n
    if freed >= units then return stamp + span end
    at = at + RUN
  end
  return -1
end

local function put_log(key, held, runs, span)
  if runs == '' then
    if not lost(span) then
      call('DEL', key)
      return
    end
    runs = pack('>I7I7', now, 0)
  end
  local newest = unpack('>I7', runs, #runs - RUN + 1)
  put(key, pack('>BI7', 108, held) .. runs, kept(newest + span, span))
end

local function stamp_of(grain)
  local past = now % grain
  if past == 0 then return now end
  return now - past + grain
end

-- The runs of a log with `units` more.
local function with_units(runs, stamp, units)
  local at = #runs - RUN + 1
  while at > 0 do
    local before, n = unpack('>I7I7', runs, at)
    if before <= stamp then
      if before == stamp then
        return runs:sub(1, at - 1) .. pack('>I7I7', stamp, n + units) .. runs:sub(at + RUN)
      end
      break
    end
    at = at - RUN
  end
  at = at + RUN
  if #runs == 1024 * RUN then
    at = min(at, #runs - RUN + 1)
    local later, n = unpack('>I7I7', runs, at)
    return runs:sub(1, at - 1) .. pack('>I7I7', max(later, stamp), n + units) .. runs:sub(at + RUN)
  end
  return runs:sub(1, at - 1) .. pack('>I7I7', stamp, units) .. runs:sub(at)
end

-- A meter after `a` (of a bucket a, b) has come back that was charged under `stamp`, as write()
-- takes it; nothing if it stays as it is. The numbers are those of a blob. What is missing
-- has nothing to get back.
local function given_back(kind, key, stamp, a, b, c, d, e, f)
  if call('EXISTS', key) == 0 then return end
  if kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    at = at - a
    parts = parts - b
    if parts < 0 then at, parts = at - 1, parts + e end
    if at < now then at, parts = now, 0 end
    return {kind, key, at, parts, c}
  elseif kind == 't' then
    local tokens, last = read_ticker(key, b, c, d, e == 1)
    tokens, last = tick(tokens, last, b, c, d)
    return {kind, key, max(tokens, min(tokens + a, b)), last, b, c, d, e == 1}
  elseif kind == 'l' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    local runs = value:sub(at)
    for from = 1, #runs, RUN do
      local run, n = unpack('>I7I7', runs, from)
      if run == stamp then
        local given = min(a, n)
        local left = n > given and pack('>I7I7', run, n - given) or ''
        return {kind, key, held - gone - given,
                runs:sub(1, from - 1) .. left .. runs:sub(from + RUN), c}
      end
    end
  else
    local bounds = kind == 'c' and {c, d, e, f}
    local since, n = read_window(key, b, c, bounds)
    if since == stamp and window(now, c, bounds) <= since then
      return {'w', key, since, max(0, n - a), c, bounds}
    end
  end
end

local function write(m)
  local kind, key = m[1], m[2]
  if kind == 'b' then
    put_bucket(key, m[3], m[4], m[5])
  elseif kind == 't' then
    put_ticker(key, m[3], m[4], m[5], m[6], m[7], m[8])
  elseif kind == 'w' then
    put_window(key, m[3], m[4], m[5], m[6])
  else
    put_log(key, m[3], m[4], m[5])
  end
end

-- Slots are what is in flight and then the holds, 30 bytes each, by the instant they end: the
-- end, the units, the id. Each string that Lua is given or makes is hashed byte by byte, which
-- takes longer than all else, so what is not needed is not read.
local HOLD = 30
local function holds_in(key, from, to)
  if from >= to then return '' end
  return call('GETRANGE', key, 8 + from * HOLD, 7 + to * HOLD)
end

-- What is in flight, nothing if there is no key; how many holds there are; how many of them,
-- the first ones, have ended.
local function read_slots(key)
  local head = try('GETRANGE', key, 0, 21)
  if type(head) == 'table' then foreign(key) end
  if head == '' then
    if call('EXISTS', key) == 1 then foreign(key) end
    return nil, 0, 0
  end
  local count = (call('STRLEN', key) - 8) / HOLD
  if count < 1 or count % 1 ~= 0 then foreign(key) end
  local tag, total, ends, units = unpack('>BI7I7I7', head)
  if tag ~= 115 then foreign(key) end
  local ended = 0
  while ends <= now do
    total = total - units
    ended = ended + 1
    if ended == count then break end
    ends, units = unpack('>I7I7', holds_in(key, ended, ended + 1))
  end
  return total, count, ended
end

local function put_slots(key, total, before, hold, behind)
  local value = pack('>BI7', 115, total) .. before .. hold .. behind
  if #value == 8 then
    call('DEL', key)
    return
  end
  local last = unpack('>I7', value, #value - HOLD + 1)
  put(key, value, last)
end

-- Of the holds from..to, the place of the first that ends after `at`. Most new ones end last.
local function place_after(key, from, to, at)
  if from < to and unpack('>I7', holds_in(key, to - 1, to)) <= at then return to end
  while from < to do
    local middle = floor((from + to) / 2)
    if unpack('>I7', holds_in(key, middle, middle + 1)) <= at then
      from = middle + 1
    else
      to = middle
    end
  end
  return from
end

-- The place of a hold that ends at `at`, and its units; nothing if it is not there.
local function find_hold(key, from, to, at, id)
  for i = place_after(key, from, to, at - 1), to - 1 do
    local ends, units, found = unpack('>I7I7c16', holds_in(key, i, i + 1))
    if ends ~= at then return end
    if found == id then return i, units end
  end
end
