-- include fleet.lua

-- Registers an instance, anew or again.
-- ARGV: channel, instance, limits in words, registration before or nothing; lease, version,
-- minute, day, marker before or 0, a new marker, number of the last release, jobs in flight,
-- epoch and count known; minute, tokens, requests, day, tokens, requests of its own; the five
-- limits; 1 if an empty store is trusted; instant of the last change it knows to be made; and
-- minute, tokens, requests, day, tokens, requests as it saw them last
local lease, version, minute_length, day_length, remembered, new_marker, last, flying, epoch,
  count, minute, mt, mr, day, dt, dr, tm, rm, td, rd, most, trusted, change, seen_minute, seen_mt,
  seen_mr, seen_day, seen_dt, seen_dr = struct.unpack('<' .. string.rep('d', 29), ARGV[5])
local before = ARGV[4]
local info = redis.call('INFO', 'server')
local run = string.match(info, 'run_id:(%w+)')
local b, is_there = load()
local registered = b.count
-- An instance that may be dead does not decide on the limits.
local alive = redis.call('ZCOUNT', leases, now, '+inf')
local own_end = redis.call('ZSCORE', leases, before)
if is_there then clean_up(b, lease) end
local found =
  redis.call('HMGET', books, 'limits', 'r:' .. before, 'recovered', 'run', 'kept_until', 'run_since')
if is_there and found[4] and found[4] ~= run then
  -- Redis came back with its data, which may be older than what it has answered: nothing is
  -- admitted until each instance has said whether its last change is there.
  found[5], found[6] = b.now, now
  redis.call('HSET', books, 'kept_until', b.now, 'run_since', now)
  if registered > 0 and b.recover_at == 0 then
    b.recover_at = now + lease
    redis.call('HSET', books, 'expected', registered, 'reported', 0, 'checked', b.epoch)
  end
end
if is_there and remembered == b.marker and found[5] and change > tonumber(found[5]) and
    change < tonumber(found[6]) then
  -- It is not: all instances report anew.
  redis.call('DEL', books, leases, left)
  redis.call('HSET', books, 'expected', registered)
  remember(b.minute, b.mt, b.mr, b.day, b.dt, b.dr)
  epoch = math.max(epoch, b.epoch)
  b, is_there = load()
  found = {}
end
redis.call('HSET', books, 'run', run)
local is_lost = remembered > 0 and (not is_there or b.marker ~= remembered)
-- A record of another size is of another version, and none to this one: it ends with its lease.
local is_in = is_there and not is_lost and before ~= '' and found[2] and #found[2] == gone_size
local others = alive - (is_in and own_end and tonumber(own_end) >= now and 1 or 0)
if is_there and others > 0 then
  local is_other = found[1] ~= ARGV[3] or version ~= b.version
  if is_other and version <= b.version then
    -- Its jobs go on, and so does its lease.
    if is_in and own_end then redis.call('ZADD', leases, now + lease, before) end
    save(b)
    return (is_in and '61' or '60') .. struct.pack('<d', b.version) .. found[1]
  end
end
b.version, b.tm, b.rm, b.td, b.rd, b.most = version, tm, rm, td, rd, most
redis.call('HSET', books, 'limits', ARGV[3])
roll(b, minute_length, day_length)
if not is_there then
  b.marker = new_marker
  -- An empty store may be one that has lost what was in it. If Redis has run for longer than a
  -- lease, every instance that is alive would have come by now.
  local age = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  local rest = lease - age * 1000000
  if not is_lost and rest > 0 and trusted == 0 then b.recover_at = now + rest end
end
b.epoch = math.max(b.epoch, epoch) + 1
local number = b.epoch
local registration = string.format('%.0f', number)
-- In flight, number of the last release; minute, tokens, requests, day, tokens, requests charged.
local kind, settled = '0', 0
local mine = struct.pack('<dddddddd', 0, last, b.minute, 0, 0, b.day, 0, 0)
if is_in then
  kind, mine = '1', found[2]
  settled = struct.unpack('<d', mine, 9)
  redis.call('HDEL', books, 'r:' .. before, 'i:' .. before, 'a:' .. before)
  redis.call('ZREM', leases, before)
  redis.call('ZREM', left, before)
  local checked = redis.call('HGET', books, 'checked')
  if checked and tonumber(before) <= tonumber(checked) then
    redis.call('HINCRBY', books, 'reported', 1)
  end
elseif is_lost then
  kind, settled = '2', last
  b.flying = b.flying + flying
  if b.recover_at == 0 and not found[3] then b.recover_at = now + lease end
  if b.recover_at > 0 then
    local expected = tonumber(redis.call('HGET', books, 'expected') or 0)
    redis.call('HSET', books, 'expected', math.max(expected, count))
    redis.call('HINCRBY', books, 'reported', 1)
    redis.call('HSETNX', books, 'lost_minute', b.minute)
    remember(seen_minute, seen_mt, seen_mr, seen_day, seen_dt, seen_dr)
  end
  if minute ~= b.minute then mt, mr = 0, 0 end
  if day ~= b.day then dt, dr = 0, 0 end
  add(b, 'mt', mt)
  add(b, 'mr', mr)
  add(b, 'dt', dt)
  add(b, 'dr', dr)
  mine = struct.pack('<dddddddd', flying, last, b.minute, mt, mr, b.day, dt, dr)
elseif is_there and before ~= '' then
  -- It was taken for dead: its jobs have lost their places, and what it was charged goes on.
  local record = gone(before)
  if record then
    settled = struct.unpack('<d', record)
    mine = struct.pack('<dd', 0, last) .. string.sub(record, 9)
  end
end
redis.call('HSET', books, 'r:' .. registration, mine, 'i:' .. registration, ARGV[2])
redis.call('ZADD', leases, now + lease, registration)
end_recovery(b)
changed(b)
save(b)
keep(day_length)
return '0' .. kind .. packed(b) .. struct.pack('<dd', number, settled) .. string.sub(mine, 17)
