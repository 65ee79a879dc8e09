-- The same as decide.lua for one bucket, without a hold, where no data was lost since before it has
-- refilled. It takes less time: it does without the functions of meters.lua, which are made anew at
-- each call. Whole numbers are handed to commands as text, because a number would be printed with
-- 17 digits. A missing key is looked at once more, because MGET says of a value of another type
-- that it is missing.
--   KEYS   epoch, the bucket
--   ARGV   now (empty: the time of this Redis), the epoch as last seen, the blob without its sixth
--          number
--   reply  0: the epoch is another one, ask decide.lua; else the numbers of its reply, without the
--          epoch, as big-endian doubles in one string

local call, pack, read = redis.call, struct.pack, struct.unpack
local key = KEYS[2]
local found = call('MGET', KEYS[1], key)
if found[1] ~= ARGV[2] then return 0 end
local now = ARGV[1]
local injected = now ~= ''
if injected then
  now = tonumber(now)
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local shadow, a, b, c, d, e = read('>xBddddd', ARGV[3])
local value = found[2]
local before, before_parts = 0, 0
if value then
  local size, tag = #value
  if size == 8 then
    tag, before = read('>BI7', value)
  elseif size == 15 then
    tag, before, before_parts = read('>BI7I7', value)
    if before_parts >= e then before, before_parts = before + 1, 0 end
  end
  if tag ~= 98 then error({err = 'FOREIGN ' .. key}) end
end

local at, parts = before, before_parts
if at < now then at, parts = now, 0 end
at = at + a
parts = parts + b
if parts >= e then
  parts = parts - e
  at = at + 1
end
local over = at - c - now
local charges = a > 0 or b > 0
local passes = not charges or over < 0 or (over == 0 and parts <= d)
if passes and charges then
  local text
  local till = at
  if parts == 0 then
    text = pack('>BI7', 98, at)
  else
    text = pack('>BI7I7', 98, at, parts)
    till = at + 1
  end
  local how, ms = 'PXAT', till / 1000
  if injected then how, ms = 'PX', 600000 + (till - now) / 1000 end
  ms = ('%d'):format(ms + 1)
  if value then
    call('SET', key, text, how, ms)
  elseif not call('SET', key, text, how, ms, 'NX') then
    error({err = 'FOREIGN ' .. key})
  end
end
return pack('>dddd', (passes or shadow == 49) and 1 or 0, now, before, before_parts)
