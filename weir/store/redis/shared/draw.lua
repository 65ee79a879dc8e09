-- include epoch.lua
-- include leases.lua

-- Draws units ahead of need: charges the first amount that fits.
--   KEYS   epoch, the limit, its record of leases; of a bucket or ticker what is
--          known of its ebbs
--   ARGV   now, '', the epoch as last seen, a fresh epoch, a blob with a cost to be told about, the
--          id of the server, the length of its lease in us, what it holds beside: instants (7
--          bytes) and amounts; then each amount to be tried, and the same without what is used at
--          once; the number of this message; the first 16 bytes of the epoch in which was drawn
--          what it holds; from when on it counts as taken back
--   reply  which amount it was, from 1, or 0: none; now; the epoch if it is not as last seen, else
--          ''; the state afterwards, two numbers as decide.lua says, a log's for the cost to be
--          told about; under which instant it was charged

local key = KEYS[2]
local kind, _, told, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[5])
local id, length, beside, amounts = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9]
local word, drawn_from, till = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local leases = read_leases()
end_leases(leases, kind, b, c, d, e, f)
-- What has come back, now or before, or belongs to other data, is not kept.
if now >= till or drawn_from ~= epoch_after:sub(1, 16) then beside = '' end
local chosen, x, y, stamp = 0, 0, 0, now
local AMOUNT = 32
local count = #amounts / AMOUNT
local function amount(i)
  return unpack('>dd', amounts, 1 + (i - 1) * AMOUNT)
end

if kind == 'b' then
  local at, parts = read_bucket(key, c, d, e)
  x, y = at, parts
  if at < now then at, parts = now, 0 end
  for i = 1, count do
    local us, rest = amount(i)
    local full, over_parts = at + us, parts + rest
    if over_parts >= e then full, over_parts = full + 1, over_parts - e end
    local over = full - c - now
    if (us == 0 and rest == 0) or over < 0 or (over == 0 and over_parts <= d) then
      chosen = i
      if us > 0 or rest > 0 then
        put_bucket(key, full, over_parts, c)
        x, y = full, over_parts
      end
      break
    end
  end
elseif kind == 't' then
  local tokens, last, fresh = read_ticker(key, b, c, d, e == 1)
  tokens, last = tick(tokens, last, b, c, d)
  local empty = e == 1
  for i = 1, count do
    local units = amount(i)
    if units == 0 or units <= tokens then
      chosen = i
      tokens = tokens - units
      if units > 0 then put_ticker(key, tokens, last, b, c, d, empty) end
      break
    end
  end
  if chosen == 0 and fresh and empty then put_ticker(key, tokens, last, b, c, d, true) end
  x, y = tokens, last
elseif kind == 'w' or kind == 'c' then
  local bounds = kind == 'c' and {c, d, e, f}
  local since, n = read_window(key, b, c, bounds)
  since, n = current_window(since, n, c, bounds)
  for i = 1, count do
    local units = amount(i)
    if units == 0 or n + units <= b then
      chosen = i
      n = n + units
      if units > 0 then put_window(key, since, n, c, bounds) end
      break
    end
  end
  x, y, stamp = since, n, since
else
  local value, held = read_log(key, b, c)
  local at, gone = forgotten(value, c)
  held = held - gone
  stamp = stamp_of(d)
  for i = 1, count do
    local units = amount(i)
    if units == 0 or held + units <= b then
      chosen = i
      if units > 0 then
        held = held + units
        put_log(key, held, with_units(value:sub(at), stamp, units), c)
      end
      break
    end
  end
  x, y = held, -1
  if chosen == 0 then y = freed_at(value, at, c, held + told - b) end
end
local own = lease_of(leases, id) or {id = id, word = 0, parts = ''}
-- Who has spoken since has given up on this draw, and said what it holds without it.
if word > own.word then
  own.word, own.parts = word, beside
  if chosen > 0 then
    local units, parts = unpack('>dd', amounts, 17 + (chosen - 1) * AMOUNT)
    if units > 0 or parts > 0 then own.parts = pack('>I7dd', stamp, units, parts) .. beside end
  end
end
if own.parts ~= '' then
  if not own.ends then leases[#leases + 1] = own end
  own.ends = now + length
end
leases.is_changed = leases.is_changed or own.ends
put_leases(leases)
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {chosen, now, epoch_after == seen and '' or epoch_after, x, y, stamp}
