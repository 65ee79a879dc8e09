-- include meters.lua

-- Ebbs: the least that a bucket or ticker has had in use since each of its holds was charged. No
-- more than that comes back when the hold ends: weir/engine/internal/ebbs.h says why, and is the same
-- in memory. What is in use is a time until it has come back, in us and parts, or it is units.
--   the record  'e'; no charge of it has an earlier mark; the last mark; the state that the last
--               call left that held or gave back; then for each entry the mark up to which it stands
--               for charges, their ebb in two numbers, how many charges it was made for
-- A charge that is not in it gets nothing back: the key began anew, or was full since. So the record
-- lives until the meter, left alone, would be full.

local EBB_HEAD, EBB, EBBS = 31, 25, 64

local function read_ebbs(key)
  local value = read(key)
  if not value then return end
  local size = #value
  if size < EBB_HEAD or (size - EBB_HEAD) % EBB ~= 0 or value:sub(1, 1) ~= 'e' then foreign(key) end
  local known = {}
  known.first, known.last, known.x, known.y = unpack('>xI7I7dd', value)
  for at = EBB_HEAD + 1, size, EBB do
    local mark, whole, parts, charges = unpack('>I7ddI2', value, at)
    known[#known + 1] = {mark = mark, whole = whole, parts = parts, charges = charges}
  end
  return known
end

local function put_ebbs(key, known, till)
  if #known == 0 then
    call('DEL', key)
    return
  end
  local value = {pack('>c1I7I7dd', 'e', known.first, known.last, known.x, known.y)}
  for i, entry in ipairs(known) do
    value[i + 1] = pack('>I7ddI2', entry.mark, entry.whole, entry.parts, entry.charges)
  end
  put(key, table.concat(value), till)
end

-- What is in use of a meter in the state x, y. The numbers are those of a blob.
local function in_use(kind, x, y, b, c, d)
  if kind == 'b' then
    if x < now then return 0, 0 end
    return x - now, y
  end
  local tokens = tick(x, y, b, c, d)
  return max(0, b - tokens), 0
end

local function is_less(whole, parts, other_whole, other_parts)
  return whole < other_whole or whole == other_whole and parts < other_parts
end

-- One amount less another, at least nothing. `num` parts are one.
local function less(whole, parts, other_whole, other_parts, num)
  if not is_less(other_whole, other_parts, whole, parts) then return 0, 0 end
  whole, parts = whole - other_whole, parts - other_parts
  if parts < 0 then whole, parts = whole - 1, parts + num end
  return whole, parts
end

-- Since the last call so much was in use at least, and no more may be claimed.
local function lower_all(known, whole, parts)
  local all
  while #known > 0 do
    local entry = known[#known]
    if is_less(entry.whole, entry.parts, whole, parts) then break end
    all = all or {mark = entry.mark, whole = whole, parts = parts, charges = 0}
    all.charges = min(all.charges + entry.charges, 65535)
    known[#known] = nil
  end
  known[#known + 1] = all
end

-- Each two entries become one, with the lower ebb.
local function thin_out(known)
  local kept = 0
  for i = 1, #known, 2 do
    local both, later = known[i], known[i + 1]
    if later then both.mark, both.charges = later.mark, min(both.charges + later.charges, 65535) end
    kept = kept + 1
    known[kept] = both
  end
  for i = #known, kept + 1, -1 do known[i] = nil end
end

-- A hold has been charged, which left x, y. Returns what is known now, and the mark of the charge.
local function mark_charge(known, kind, x, y, b, c, d)
  if known then lower_all(known, in_use(kind, known.x, known.y, b, c, d)) end
  local mark = known and max(now, known.last + 1) or now
  known = known or {first = mark}
  known.last, known.x, known.y = mark, x, y
  local whole, parts = in_use(kind, x, y, b, c, d)
  local all = 1
  for _, entry in ipairs(known) do all = all + entry.charges end
  local newest = known[#known]
  if newest and (not is_less(newest.whole, newest.parts, whole, parts) or
                 newest.charges < floor(all / (EBBS / 2))) then
    newest.mark, newest.charges = mark, min(newest.charges + 1, 65535)
  else
    known[#known + 1] = {mark = mark, whole = whole, parts = parts, charges = 1}
  end
  if #known > EBBS then thin_out(known) end
  return known, mark
end

-- How much of an amount may come back to the charge `mark`.
local function ebb_of(known, mark, whole, parts)
  if mark < known.first then return 0, 0 end
  for _, entry in ipairs(known) do
    if entry.mark >= mark then
      if is_less(entry.whole, entry.parts, whole, parts) then return entry.whole, entry.parts end
      return whole, parts
    end
  end
  return 0, 0
end

-- So much came back to the charge `mark`, of which `num` parts are one. Later charges saw a higher
-- level by as much all their time; earlier ones did from then on, and before that what their own ebb
-- says.
local function note_returned(known, mark, whole, parts, num)
  local own
  for _, entry in ipairs(known) do
    if entry.mark >= mark then
      entry.whole, entry.parts = less(entry.whole, entry.parts, whole, parts, num)
      own = own or entry
    end
  end
  local kept = {}
  for _, entry in ipairs(known) do
    if own and entry.mark < mark and is_less(own.whole, own.parts, entry.whole, entry.parts) then
      entry.whole, entry.parts = own.whole, own.parts
    end
    local before = kept[#kept]
    local alike = before and before.whole == entry.whole and before.parts == entry.parts
    kept[alike and #kept or #kept + 1] = entry
  end
  for i = 1, #known do known[i] = kept[i] end
end

-- A bucket or ticker after at most `a` (of a bucket a, b) has come back to the charge `mark`, as
-- write() takes it, with what is known of ebbs then. Nothing if nothing comes back.
local function given_back_to(known, mark, kind, key, a, b, c, d, e)
  if not known or call('EXISTS', key) == 0 then return end
  if kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    lower_all(known, in_use(kind, known.x, known.y, b, c, d))
    local whole, rest = ebb_of(known, mark, a, b)
    local used, used_parts = in_use(kind, at, parts, b, c, d)
    if is_less(used, used_parts, whole, rest) then whole, rest = used, used_parts end
    note_returned(known, mark, whole, rest, e)
    at, parts = at - whole, parts - rest
    if parts < 0 then at, parts = at - 1, parts + e end
    if at < now then at, parts = now, 0 end
    known.x, known.y = at, parts
    return {kind, key, at, parts, c}
  end
  local tokens, last = read_ticker(key, b, c, d, e == 1)
  tokens, last = tick(tokens, last, b, c, d)
  lower_all(known, in_use(kind, known.x, known.y, b, c, d))
  local units = min(ebb_of(known, mark, a, 0), max(0, b - tokens))
  note_returned(known, mark, units, 0, 1)
  known.x, known.y = tokens + units, last
  return {kind, key, tokens + units, last, b, c, d, e == 1}
end

-- Until when a record is of use: the meter would be full then if it were left alone.
local function ebbs_till(kind, known, b, c, d)
  if kind == 'b' then return known.x + 1 end
  return known.y + ceil(max(0, b - known.x) / d) * c + 1
end
