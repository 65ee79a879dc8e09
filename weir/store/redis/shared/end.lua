-- include ebbs.lua

-- Ends a hold.
--   KEYS   the hold, a key for each limit it was charged at, then what is known of the ebbs of each
--          limit that is a bucket or ticker
--   ARGV   now, 's' or 'c', the epoch as last seen, hold id, then for each limit a blob with what
--          to give back (an overage: the second letter is '-', and two more numbers are the most
--          that it may owe), and under which instant or mark it was charged
--   reply  how the hold stands: 's', 'c', or 'g' if it is gone; now; then the place of each limit
--          that was not charged all of its overage

lost_at = loss_in(ARGV[3])
local record = read(KEYS[1])
if not record then return {'g', now} end
if #record < 9 then foreign(KEYS[1]) end
local state, ends = unpack('>c1d', record)
if state ~= 'a' and state ~= 's' and state ~= 'c' then foreign(KEYS[1]) end
if ends <= now then return {'g', now} end
if state ~= 'a' then return {state, now} end

local hold = ARGV[4]
local first = 4
local count = (#ARGV - first) / 2
local after, ebbs, place = {}, {}, 1 + count
local reply = {ARGV[2], now}
local function clipped(i) reply[#reply + 1] = i end
for i = 1, count do
  local key = KEYS[1 + i]
  local blob = ARGV[first + 2 * i - 1]
  local kind, sign, a, b, c, d, e, f = unpack('>c1c1dddddd', blob)
  local most, most_parts
  if sign == '-' then most, most_parts = unpack('>dd', blob, 51) end
  local stamp = tonumber(ARGV[first + 2 * i])
  local known
  if kind == 'b' or kind == 't' then
    place = place + 1
    known = read_ebbs(KEYS[place])
  end
  if kind == 's' then
    local total, n, ended = read_slots(key)
    local place, units = find_hold(key, ended, n, ends, hold)
    if place then after[i] = {kind, key, total - units, n, ended, place} end
  elseif sign == '+' and (kind == 'b' or kind == 't') then
    after[i] = given_back_to(known, stamp, kind, key, a, b, c, d, e)
  elseif sign == '+' then
    after[i] = given_back(kind, key, stamp, a, b, c, d, e, f)
  elseif kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    if at < now then at, parts = now, 0 end
    local old_at, old_parts = at, parts
    at = at + a
    parts = parts + b
    if parts >= e then
      parts = parts - e
      at = at + 1
    end
    local last = now + most
    if at > last or at == last and parts > most_parts then
      clipped(i)
      at, parts = last, most_parts
      if old_at > at or old_at == at and old_parts > parts then at, parts = old_at, old_parts end
    end
    after[i] = {kind, key, min(at, EXACT - 1), parts, c}
  elseif kind == 't' then
    local tokens, last = read_ticker(key, b, c, d, e == 1)
    tokens, last = tick(tokens, last, b, c, d)
    local units = min(a, max(0, tokens + most))
    if units < a then clipped(i) end
    after[i] = {kind, key, tokens - units, last, b, c, d, e == 1}
  elseif kind == 'l' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    held = held - gone
    local units = min(a, max(0, min(b + most, EXACT) - held))
    if units < a then clipped(i) end
    after[i] = {kind, key, held + units, with_units(value:sub(at), stamp_of(d), units), c}
  else
    local bounds = kind == 'c' and {c, d, e, f}
    local since, n = read_window(key, b, c, bounds)
    since, n = current_window(since, n, c, bounds)
    local units = min(a, max(0, min(b + most, EXACT) - n))
    if units < a then clipped(i) end
    after[i] = {'w', key, since, n + units, c, bounds}
  end
  if known and after[i] then
    if sign == '-' then
      lower_all(known, in_use(kind, known.x, known.y, b, c, d))
      known.x, known.y = after[i][3], after[i][4]
    end
    ebbs[i] = {KEYS[place], known, ebbs_till(kind, known, b, c, d)}
  end
end

for _, m in pairs(ebbs) do put_ebbs(m[1], m[2], m[3]) end

for _, m in pairs(after) do
  if m[1] == 's' then
    put_slots(m[2], m[3], holds_in(m[2], m[5], m[6]), '', holds_in(m[2], m[6] + 1, m[4]))
  else
    write(m)
  end
end
put(KEYS[1], pack('>c1d', ARGV[2], ends), ends)
return reply
