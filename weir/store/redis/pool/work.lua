-- include time.lua

-- What one instance asks and tells, in the order in which it did.
-- ARGV: registration, channel; marker, version, minute, day, least distance of announcements,
-- how many, and for each
--   0 (acquire), tokens, requests
--   1 (release), tokens and requests beyond the estimate, its number, minute and day of the
--     grant, 1 if its registration has ended
--   2 (used without a grant), tokens, requests, its number, minute and day of the use, 0
--   3 (runs without a grant), tokens, requests, minute and day of its start
local mine, input = 'r:' .. ARGV[1], ARGV[3]
local found = redis.call('HMGET', books, 'state', mine)
if not found[1] then return '50' end
local marker, version, minute_length, day_length, distance, asked, at =
  struct.unpack('<dddddd', input)
local m, v, epoch, count, minute, mt, mr, day, dt, dr, flying, tm, rm, td, rd, most, recover_at,
  wanted, said_at = struct.unpack('<ddddddddddddddddddd', found[1])
if m ~= marker then return '50' end
if not found[2] then return '30' end
-- What of the windows this registration was charged: a successor compares it with what it knows.
local n, last, minute_mine, mt_mine, mr_mine, day_mine, dt_mine, dr_mine =
  struct.unpack('<dddddddd', found[2])
-- A clock that goes back keeps the window.
local current = now - now % minute_length
if current > minute then minute, mt, mr = current, 0, 0 end
current = now - now % day_length
if current > day then day, dt, dr = current, 0, 0 end
if minute > minute_mine then minute_mine, mt_mine, mr_mine = minute, 0, 0 end
if day > day_mine then day_mine, dt_mine, dr_mine = day, 0, 0 end
local codes = {}
local is_changed, is_freed, is_refused, wants = false, false, false, wanted
local mt_sum, mr_sum, dt_sum, dr_sum = 0, 0, 0, 0
for i = 1, asked do
  local kind, tokens, requests, code
  kind, tokens, requests, at = struct.unpack('<ddd', input, at)
  if kind == 0 then
    if v ~= version then
      code = '60'
    elseif recover_at > 0 then
      code = '40'
    else
      -- A window that is full admits nothing, whatever the estimate. Of several that bind, the
      -- one that takes longest to pass is named.
      code = '00'
      if flying >= most then code = '24' end
      if mr + math.max(requests, 1) > rm then code = '11' end
      if dr + math.max(requests, 1) > rd then code = '13' end
      if mt + math.max(tokens, 1) > tm and code ~= '13' then code = '10' end
      if dt + math.max(tokens, 1) > td then code = '12' end
      if code == '00' then
        mt, mr, dt, dr = mt + tokens, mr + requests, dt + tokens, dr + requests
        mt_mine, mr_mine = mt_mine + tokens, mr_mine + requests
        dt_mine, dr_mine = dt_mine + tokens, dr_mine + requests
        flying, n, is_changed = flying + 1, n + 1, true
      else
        wants, is_refused = 1, true
      end
    end
  elseif kind == 3 then
    local minute_of, day_of
    minute_of, day_of, at = struct.unpack('<dd', input, at)
    if minute == minute_of then
      mt, mr = math.min(mt + tokens, 9007199254740991), math.min(mr + requests, 9007199254740991)
      mt_mine, mr_mine = mt_mine + tokens, mr_mine + requests
    end
    if day == day_of then
      dt, dr = math.min(dt + tokens, 9007199254740991), math.min(dr + requests, 9007199254740991)
      dt_mine, dr_mine = dt_mine + tokens, dr_mine + requests
    end
    code, flying, n, is_changed = '00', flying + 1, n + 1, true
  else
    local number, minute_of, day_of, fenced
    number, minute_of, day_of, fenced, at = struct.unpack('<dddd', input, at)
    if number <= last then
      code = '80'
    else
      -- Of a release, less than estimated is given back in the same window only, also where the
      -- registration has ended, since the books kept what it was charged; more counts in the
      -- current one. What was used without a grant counts in its own window only.
      local mt_more, mr_more, dt_more, dr_more = tokens, requests, tokens, requests
      if kind == 2 then
        if minute ~= minute_of then mt_more, mr_more = 0, 0 end
        if day ~= day_of then dt_more, dr_more = 0, 0 end
      else
        if minute ~= minute_of then
          mt_more, mr_more = math.max(0, tokens), math.max(0, requests)
        end
        if day ~= day_of then
          dt_more, dr_more = math.max(0, tokens), math.max(0, requests)
        end
      end
      mt = math.min(math.max(0, mt + mt_more), 9007199254740991)
      mr = math.min(math.max(0, mr + mr_more), 9007199254740991)
      dt = math.min(math.max(0, dt + dt_more), 9007199254740991)
      dr = math.min(math.max(0, dr + dr_more), 9007199254740991)
      mt_mine, mr_mine = math.max(0, mt_mine + mt_more), math.max(0, mr_mine + mr_more)
      dt_mine, dr_mine = math.max(0, dt_mine + dt_more), math.max(0, dr_mine + dr_more)
      mt_sum, mr_sum, dt_sum, dr_sum =
        mt_sum + mt_more, mr_sum + mr_more, dt_sum + dt_more, dr_sum + dr_more
      code, last, is_changed = '00', number, true
      if fenced == 1 then
        code = '30'
      elseif kind == 1 then
        flying, n = math.max(0, flying - 1), math.max(0, n - 1)
      end
      is_freed = is_freed or kind == 1
    end
  end
  codes[i] = code
end
local owed = '0'
if is_freed and wants == 1 then
  if now - said_at < distance then
    owed = '1'
  else
    redis.call('PUBLISH', ARGV[2], 'freed')
    -- Who was refused here may have been so after the last release.
    said_at, wants = now, is_refused and 1 or 0
  end
end
local state = struct.pack('<dddddddddddddddddddd', m, v, epoch, count, minute, mt, mr, day, dt,
  dr, flying, tm, rm, td, rd, most, recover_at, wants, said_at, now)
if is_changed then
  local most_mine = 9007199254740991
  redis.call('HSET', books, 'state', state, mine, struct.pack('<dddddddd', n, last, minute_mine,
    math.min(mt_mine, most_mine), math.min(mr_mine, most_mine), day_mine,
    math.min(dt_mine, most_mine), math.min(dr_mine, most_mine)))
elseif wants ~= wanted then
  redis.call('HSET', books, 'state', state)
end
return '0' .. owed .. state .. struct.pack('<dddd', mt_sum, mr_sum, dt_sum, dr_sum) ..
  table.concat(codes)
