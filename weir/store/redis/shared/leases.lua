-- include ebbs.lua

-- What servers hold of a limit: for each the end, its id, which message said it, how many parts,
-- and for each part under which instant it was charged, and its amount.
--   KEYS[2]  the limit
--   KEYS[3]  its record of leases
--   KEYS[4]  of a bucket or ticker: what is known of its ebbs

local HEAD, PART = 31, 23
local function read_leases()
  local leases, value = {}, read(KEYS[3])
  if not value then return leases end
  local at, size = 2, #value
  if value:sub(1, 1) ~= 'd' then foreign(KEYS[3]) end
  while at <= size do
    if at + HEAD > size + 1 then foreign(KEYS[3]) end
    local ends, id, word, count, from = unpack('>I7c16I7B', value, at)
    at = from + count * PART
    if at > size + 1 then foreign(KEYS[3]) end
    leases[#leases + 1] = {ends = ends, id = id, word = word, parts = value:sub(from, at - 1)}
  end
  return leases
end

-- Gives parts back to the meter.
local function give_parts(parts, kind, b, c, d, e, f)
  for at = 1, #parts, PART do
    local stamp, units, rest = unpack('>I7dd', parts, at)
    local second = b
    if kind == 'b' then second = rest < e and rest or 0 end
    local after = given_back(kind, KEYS[2], stamp, units, second, c, d, e, f)
    local known = after and KEYS[4] and read_ebbs(KEYS[4])
    if known then
      note_returned(known, 0, units, kind == 'b' and second or 0, kind == 'b' and e or 1)
      put_ebbs(KEYS[4], known, ebbs_till(kind, known, b, c, d))
    end
    if after then write(after) end
  end
end

-- Takes out the leases that have ended. Who let one end without a word has crashed or was out of
-- touch; what it held goes back.
local function end_leases(leases, kind, b, c, d, e, f)
  for i = #leases, 1, -1 do
    local lease = leases[i]
    if lease.ends <= now then
      give_parts(lease.parts, kind, b, c, d, e, f)
      leases.is_changed = true
      table.remove(leases, i)
    end
  end
end

local function lease_of(leases, id)
  for _, lease in ipairs(leases) do
    if lease.id == id then return lease end
  end
end

-- A meter in its initial state has everything back, so the record lives as long as the meter. Who
-- holds nothing any more stays in it until its end: an older message may be on its way.
local function put_leases(leases)
  if not leases.is_changed then return end
  local value, till, is_held = {'d'}, 0, false
  for _, lease in ipairs(leases) do
    value[#value + 1] = pack('>I7c16I7B', lease.ends, lease.id, lease.word, #lease.parts / PART)
    value[#value + 1] = lease.parts
    till = max(till, lease.ends)
    is_held = is_held or lease.parts ~= ''
  end
  local span = #leases > 0 and call('PTTL', KEYS[2]) or 0
  if not is_held then span = min(span, ceil((till - now) / 1000)) end
  if span > 0 then
    call('SET', KEYS[3], table.concat(value), 'PX', span)
  else
    call('DEL', KEYS[3])
  end
end
