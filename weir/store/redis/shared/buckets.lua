-- The same as one_bucket.lua for several requests, each of one bucket or more, none with a key of
-- another. What this script cannot decide for one of them, it leaves to decide.lua for all of them.
--   KEYS   epoch, a key for each limit of each request
--   ARGV   now, the epoch as last seen, the plan, then blobs, each different: in the plan is for
--          each request a byte with the number of its limits, and one for each with the place of
--          its blob, from 1
--   reply  0: another epoch, or something foreign under a key, ask decide.lua for each; else now,
--          then for each request 1 or 0 and two numbers for each of its limits, as one_bucket.lua
--          does

local call, pack, read, byte, list = redis.call, struct.pack, struct.unpack, string.byte, unpack
local found = call('MGET', list(KEYS))
if found[1] ~= ARGV[2] then return 0 end
local now = ARGV[1]
local injected = now ~= ''
if injected then
  now = tonumber(now)
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local terms = {}
for i = 4, #ARGV do terms[i - 3] = {read('>xBddddd', ARGV[i])} end

local plan, place, key = ARGV[3], 1, 1
local numbers, n = {now}, 1
local ats, rests, missing = {}, {}, {}
while place <= #plan do
  local first, verdict, last = key + 1, n + 1, place + byte(plan, place)
  numbers[verdict] = 1
  n = verdict
  for i = place + 1, last do
    local term = terms[byte(plan, i)]
    local a, b, e = term[2], term[3], term[6]
    key = key + 1
    local value = found[key]
    local at, parts = 0, 0
    if value then
      local size, tag = #value
      if size == 8 then
        tag, at = read('>BI7', value)
      elseif size == 15 then
        tag, at, parts = read('>BI7I7', value)
        if parts >= e then at, parts = at + 1, 0 end
      end
      if tag ~= 98 then return 0 end
    else
      missing[#missing + 1] = KEYS[key]
    end
    numbers[n + 1], numbers[n + 2] = at, parts
    n = n + 2
    if a > 0 or b > 0 then
      if at < now then at, parts = now, 0 end
      at = at + a
      parts = parts + b
      if parts >= e then
        parts = parts - e
        at = at + 1
      end
      local over = at - term[4] - now
      if over < 0 or (over == 0 and parts <= term[5]) then
        ats[key], rests[key] = at, parts
      elseif term[1] == 48 then
        numbers[verdict] = 0
      end
    end
  end
  if numbers[verdict] == 0 then
    for i = first, key do ats[i] = nil end
  end
  place = last + 1
end
if missing[1] and call('EXISTS', list(missing)) > 0 then return 0 end

for i = 2, key do
  local at, parts = ats[i], rests[i]
  if at then
    local text
    local till = at
    if parts == 0 then
      text = pack('>BI7', 98, at)
    else
      text = pack('>BI7I7', 98, at, parts)
      till = at + 1
    end
    if injected then
      call('SET', KEYS[i], text, 'PX', ('%d'):format(600001 + (till - now) / 1000))
    else
      call('SET', KEYS[i], text, 'PXAT', ('%d'):format(till / 1000 + 1))
    end
  end
end
return pack('>' .. ('d'):rep(n), list(numbers))
