-- include epoch.lua
-- include ebbs.lua

-- Checks and charges all limits of one request.
--   KEYS   epoch, a key for each limit; if there is a hold, it, and what is known of the ebbs of each
--          limit that is a bucket or ticker
--   ARGV   now, 'c' charge or 'p' peek, the epoch as last seen, a fresh epoch, hold id (empty:
--          none), its time to live, its record, then a blob for each limit
--   reply  1 or 0, now, the epoch if it is not as last seen, else '', then two numbers for each
--          limit: its state before (bucket: full at, parts; ticker: tokens, last tick; window:
--          begin, count; log: used, freed at or -1; slots: in flight, 0)

local charging = ARGV[2] == 'c'

local first = 7
local count = #ARGV - first
local reply = {1, now, epoch_after == seen and '' or epoch_after}
local allowed = true
local after, stamps = {}, {}

for i = 1, count do
  local kind, shadow, a, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[first + i])
  local key = KEYS[1 + i]
  local x, y, passes
  if kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    x, y = at, parts
    if at < now then at, parts = now, 0 end
    at = at + a
    parts = parts + b
    if parts >= e then
      parts = parts - e
      at = at + 1
    end
    local over = at - c - now
    passes = (a == 0 and b == 0) or over < 0 or (over == 0 and parts <= d)
    if passes and (a > 0 or b > 0) then after[i] = {kind, key, at, parts, c} end
  elseif kind == 't' then
    local tokens, last, fresh = read_ticker(key, b, c, d, e == 1)
    x, y = tokens, last
    tokens, last = tick(tokens, last, b, c, d)
    passes = a == 0 or a <= tokens
    if passes and a > 0 then
      after[i] = {kind, key, tokens - a, last, b, c, d, e == 1}
    elseif fresh and e == 1 then
      after[i] = {'T', key, tokens, last, b, c, d, true}
    end
  elseif kind == 'w' or kind == 'c' then
    local bounds = kind == 'c' and {c, d, e, f}
    local since, n = read_window(key, b, c, bounds)
    x, y = since, n
    since, n = current_window(since, n, c, bounds)
    passes = a == 0 or n + a <= b
    if passes and a > 0 then after[i] = {'w', key, since, n + a, c, bounds} end
  elseif kind == 'l' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    x, y = held - gone, -1
    passes = a == 0 or held - gone + a <= b
    if passes and a > 0 then
      after[i] = {kind, key, held - gone + a, value:sub(at), c, d, a}
    elseif not passes then
      y = freed_at(value, at, c, held - gone + a - b)
    end
  else
    local total, n, ended = read_slots(key)
    if not total then total = lost(c) and b or 0 end
    x, y = total, 0
    passes = a == 0 or total + a <= b
    if passes and a > 0 then
      after[i] = {kind, key, total, n, ended, a}
    elseif ended > 0 then
      after[i] = {'S', key, total, n, ended}
    end
  end
  reply[2 + 2 * i], reply[3 + 2 * i] = x, y
  stamps[i] = passes and now or -1
  if not passes and shadow == '0' then allowed = false end
end

if not charging then
  if not allowed then reply[1] = 0 end
  reply[3] = ''
  return reply
end
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end

local hold = ARGV[5]
local ends = hold ~= '' and now + tonumber(ARGV[6])
if not allowed then
  reply[1] = 0
  for i = 1, count do
    local m = after[i]
    if m and m[1] == 'T' then put_ticker(m[2], m[3], m[4], m[5], m[6], m[7], m[8]) end
    if m and (m[1] == 'S' or m[1] == 's' and m[5] > 0) then
      put_slots(m[2], m[3], holds_in(m[2], m[5], m[4]), '', '')
    end
  end
  return reply
end

-- What is known of ebbs is read before anything is written.
local ebbs, place = {}, count + 2
if ends then
  for i = 1, count do
    local kind, _, _, b, c, d = unpack('>c1c1dddd', ARGV[first + i])
    if kind == 'b' or kind == 't' then
      place = place + 1
      local m = after[i]
      if m and m[1] == kind then
        local known, mark = mark_charge(read_ebbs(KEYS[place]), kind, m[3], m[4], b, c, d)
        ebbs[i], stamps[i] = {KEYS[place], known, ebbs_till(kind, known, b, c, d)}, mark
      end
    end
  end
end
for _, m in pairs(ebbs) do put_ebbs(m[1], m[2], m[3]) end

for i = 1, count do
  local m = after[i]
  if m then
    local kind, key = m[1], m[2]
    if kind == 'b' then
      put_bucket(key, m[3], m[4], m[5])
    elseif kind == 't' or kind == 'T' then
      put_ticker(key, m[3], m[4], m[5], m[6], m[7], m[8])
    elseif kind == 'w' then
      stamps[i] = m[3]
      put_window(key, m[3], m[4], m[5], m[6])
    elseif kind == 'l' then
      stamps[i] = stamp_of(m[6])
      put_log(key, m[3], with_units(m[4], stamps[i], m[7]), m[5])
    elseif kind == 's' then
      local n, ended, units = m[4], m[5], m[6]
      local place = place_after(key, ended, n, ends)
      put_slots(key, m[3] + units, holds_in(key, ended, place), pack('>I7I7', ends, units) .. hold,
                holds_in(key, place, n))
    else
      put_slots(key, m[3], holds_in(key, m[5], m[4]), '', '')
    end
  end
end
if ends then
  local record = {pack('>c1dB', 'a', ends, count)}
  for i = 1, count do record[i + 1] = pack('>d', stamps[i]) end
  record[count + 2] = ARGV[7]
  put(KEYS[count + 2], table.concat(record), ends)
end
return reply
