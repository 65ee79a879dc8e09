-- include books.lua

-- How instances join and leave, and what happens if books or instances were lost.
--   KEYS[2]  registrations by the instant at which their leases end
--   KEYS[3]  the same of those whose instances have left while jobs of theirs ran
--   ARGV[1]  the channel on which news are published

local channel = ARGV[1]
local leases, left = KEYS[2], KEYS[3]
local gone_size, gone_most = 64, 1000
-- What it was charged, for an instance that comes back after all; nothing if it was not there, or
-- its record is one of a version that did not write that down: in `gone` all are of one size.
local function forget(b, registration)
  local jobs = redis.call('HGET', books, 'r:' .. registration)
  if jobs then b.flying = math.max(0, b.flying - struct.unpack('<d', jobs)) end
  redis.call('ZREM', leases, registration)
  redis.call('ZREM', left, registration)
  redis.call('HDEL', books, 'r:' .. registration, 'i:' .. registration, 'a:' .. registration)
  if not jobs or #jobs ~= gone_size then return '' end
  return struct.pack('<d', tonumber(registration)) .. string.sub(jobs, 9)
end
-- A list that is out of step, as an earlier version could leave it, is none.
local function gone_records()
  local text = redis.call('HGET', books, 'gone') or ''
  return #text % gone_size == 0 and text or ''
end
-- What `registration` had settled last and was charged, if it ended a short while ago.
local function gone(registration)
  local text = gone_records()
  for at = 1, #text, gone_size do
    if struct.unpack('<d', text, at) == tonumber(registration) then
      redis.call('HSET', books, 'gone', string.sub(text, 1, at - 1) ..
        string.sub(text, at + gone_size))
      return string.sub(text, at + 8, at + gone_size - 1)
    end
  end
end
local function changed(b)
  b.count = redis.call('ZCARD', leases)
  b.epoch = b.epoch + 1
  redis.call('PUBLISH', channel, 'fleet')
end
-- Ends leases that are over, a bounded number at a time. What their jobs were estimated to
-- use stays counted. If no instance was heard for a whole lease, rather Redis was away than all
-- of them dead: then those that live have half a lease, at most three seconds, to say so, and the
-- successors of those that have left as long to take their jobs over.
local function clean_up(b, lease)
  if now - b.now >= lease then
    local rest = now + math.min(3000000, math.floor(lease / 2))
    local list = redis.call('ZRANGEBYSCORE', leases, '-inf', rest, 'LIMIT', 0, 10000)
    for _, registration in ipairs(list) do redis.call('ZADD', leases, rest, registration) end
    list = redis.call('ZRANGEBYSCORE', left, '-inf', rest, 'LIMIT', 0, 10000)
    for _, registration in ipairs(list) do redis.call('ZADD', left, rest, registration) end
    return
  end
  local dead = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)
  local lapsed = redis.call('ZRANGEBYSCORE', left, '-inf', now, 'LIMIT', 0, 100)
  if #dead + #lapsed == 0 then return end
  local records = gone_records()
  for _, registration in ipairs(dead) do records = records .. forget(b, registration) end
  for _, registration in ipairs(lapsed) do records = records .. forget(b, registration) end
  redis.call('HSET', books, 'gone', string.sub(records, -gone_size * gone_most))
  changed(b)
end
-- An instance listens on a channel that is its own. When it is killed its connections are closed,
-- and nobody listens there: it has two seconds left to say that it lives. Two at a time, of those
-- heard longest ago, so that a fleet is looked over as often as it has half as many heartbeats.
local grace = 2000000
local function look_at_channels(own)
  local list = redis.call('ZRANGEBYSCORE', leases, '(' .. string.format('%.0f', now + grace), '+inf',
    'LIMIT', 0, 2)
  for _, registration in ipairs(list) do
    local alive = registration ~= own and redis.call('HGET', books, 'a:' .. registration)
    -- A user who may not ask finds nobody dead by this.
    if alive and redis.pcall('PUBSUB', 'NUMSUB', alive)[2] == 0 then
      redis.call('ZADD', leases, now + grace, registration)
    end
  end
end
-- Keeps the highest totals that an instance has seen, for the end of a recovery.
local function remember(minute, mt, mr, day, dt, dr)
  local text = redis.call('HGET', books, 'seen')
  local s = text and {struct.unpack('<dddddd', text)} or {0, 0, 0, 0, 0, 0}
  local function higher(at, window, tokens, requests)
    if window < s[at] then return end
    if window > s[at] then s[at], s[at + 1], s[at + 2] = window, 0, 0 end
    s[at + 1], s[at + 2] = math.max(s[at + 1], tokens), math.max(s[at + 2], requests)
  end
  higher(1, minute, mt, mr)
  higher(4, day, dt, dr)
  redis.call('HSET', books, 'seen', struct.pack('<dddddd', unpack(s)))
end
-- Ends a recovery if all instances have reported, or those that have not will not any more: then,
-- if the data were lost, these count at their full share. What was seen in the books before counts
-- even if the instance that used it has left.
local function end_recovery(b)
  if b.recover_at == 0 then return end
  local r = redis.call('HMGET', books, 'expected', 'reported', 'lost_minute', 'seen')
  local expected = tonumber(r[1] or 0)
  local silent = math.max(0, expected - tonumber(r[2] or 0))
  if now < b.recover_at and (expected == 0 or silent > 0) then return end
  if silent > 0 and r[3] then
    local function count(field, limit)
      if limit < 9007199254740991 then add(b, field, silent * math.floor(limit / expected)) end
    end
    if tonumber(r[3]) == b.minute then
      count('mt', b.tm)
      count('mr', b.rm)
    end
    count('dt', b.td)
    count('dr', b.rd)
  end
  if r[4] then
    local minute, mt, mr, day, dt, dr = struct.unpack('<dddddd', r[4])
    if minute == b.minute then b.mt, b.mr = math.max(b.mt, mt), math.max(b.mr, mr) end
    if day == b.day then b.dt, b.dr = math.max(b.dt, dt), math.max(b.dr, dr) end
  end
  b.recover_at = 0
  redis.call('HDEL', books, 'expected', 'reported', 'lost_minute', 'seen', 'checked')
  redis.call('HSET', books, 'recovered', 1)
  redis.call('PUBLISH', channel, 'freed')
end
-- Two days of the longest window after the last sign of life.
local function keep(day_length)
  redis.call('PEXPIRE', books, day_length / 500)
  redis.call('PEXPIRE', leases, day_length / 500)
  redis.call('PEXPIRE', left, day_length / 500)
end
