-- include meters.lua

-- Lets a hold last longer.
--   KEYS   the hold, the keys of the slots it has
--   ARGV   now, time to live, hold id
--   reply  'a', 's', 'c' or 'g', now

local record = read(KEYS[1])
if not record then return {'g', now} end
if #record < 9 then foreign(KEYS[1]) end
local state, ends = unpack('>c1d', record)
if state ~= 'a' and state ~= 's' and state ~= 'c' then foreign(KEYS[1]) end
if ends <= now then return {'g', now} end
if state ~= 'a' then return {state, now} end
local till = now + tonumber(ARGV[2])
local hold = ARGV[3]
local after = {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local total, n, ended = read_slots(key)
  local from, units = find_hold(key, ended, n, ends, hold)
  if from then
    local to = place_after(key, ended, n, till)
    local before, behind
    if to > from then
      before = holds_in(key, ended, from) .. holds_in(key, from + 1, to)
      behind = holds_in(key, to, n)
    else
      before = holds_in(key, ended, to)
      behind = holds_in(key, to, from) .. holds_in(key, from + 1, n)
    end
    after[i] = {total, before, pack('>I7I7', till, units) .. hold, behind}
  end
end
for i, m in pairs(after) do put_slots(KEYS[i], m[1], m[2], m[3], m[4]) end
put(KEYS[1], pack('>c1d', 'a', till) .. record:sub(10), till)
return {'a', now}
