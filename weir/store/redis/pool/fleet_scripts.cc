// The scripts by which instances come, stay and go.

#include <string>
#include <string_view>

#include "weir/store/redis/pool/lua.h"
#include "weir/store/redis/pool/scripts.h"

namespace weir::store::redis {
namespace {

// KEYS[2]: registrations by the instant at which their leases end. `channel` is set.
constexpr std::string_view kFleet = R"lua(
local leases = KEYS[2]
local function forget(b, registration)
  local jobs = redis.call('HGET', books, 'r:' .. registration)
  if jobs then b.flying = math.max(0, b.flying - struct.unpack('<d', jobs)) end
  redis.call('ZREM', leases, registration)
  redis.call('HDEL', books, 'r:' .. registration, 'i:' .. registration)
end
local function changed(b)
  b.count = redis.call('ZCARD', leases)
  b.epoch = b.epoch + 1
  redis.call('PUBLISH', channel, 'fleet')
end
-- Ends leases that are over, a bounded number at a time. What their jobs were estimated to
-- use stays counted. If nobody at all was heard for a whole lease, rather Redis was away than
-- everybody dead: then whoever lives has half a lease, at most three seconds, to say so.
local function clean_up(b, lease)
  if now - b.now >= lease then
    local rest = now + math.min(3000000, math.floor(lease / 2))
    local list = redis.call('ZRANGEBYSCORE', leases, '-inf', rest, 'LIMIT', 0, 10000)
    for _, registration in ipairs(list) do redis.call('ZADD', leases, rest, registration) end
    return
  end
  local dead = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)
  for _, registration in ipairs(dead) do forget(b, registration) end
  if #dead > 0 then changed(b) end
end
-- Keeps the highest totals that anybody has seen, for the end of a recovery.
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
-- Ends a recovery if everybody has reported, or if nobody will any more: then, if the data were
-- lost, those who have not count at their full share. What was seen in the books before counts
-- even if whoever used it has left.
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
end
)lua";

constexpr std::string_view kRegister = R"lua(
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
-- Whoever may be dead does not decide on the limits.
local alive = redis.call('ZCOUNT', leases, now, '+inf')
local own_end = redis.call('ZSCORE', leases, before)
if is_there then clean_up(b, lease) end
local found =
  redis.call('HMGET', books, 'limits', 'r:' .. before, 'recovered', 'run', 'kept_until', 'run_since')
if is_there and found[4] and found[4] ~= run then
  -- Redis came back with its data, which may be older than what it has answered: nothing is
  -- admitted until everybody has said whether his last change is there.
  found[5], found[6] = b.now, now
  redis.call('HSET', books, 'kept_until', b.now, 'run_since', now)
  if registered > 0 and b.recover_at == 0 then
    b.recover_at = now + lease
    redis.call('HSET', books, 'expected', registered, 'reported', 0, 'checked', b.epoch)
  end
end
if is_there and remembered == b.marker and found[5] and change > tonumber(found[5]) and
    change < tonumber(found[6]) then
  -- It is not: everybody reports anew.
  redis.call('DEL', books, leases)
  redis.call('HSET', books, 'expected', registered)
  remember(b.minute, b.mt, b.mr, b.day, b.dt, b.dr)
  epoch = math.max(epoch, b.epoch)
  b, is_there = load()
  found = {}
end
redis.call('HSET', books, 'run', run)
local is_lost = remembered > 0 and (not is_there or b.marker ~= remembered)
local is_in = is_there and not is_lost and before ~= '' and found[2]
local others = alive - (is_in and own_end and tonumber(own_end) >= now and 1 or 0)
if is_there and others > 0 then
  local is_other = found[1] ~= ARGV[3] or version ~= b.version
  if is_other and version <= b.version then
    -- Its jobs go on, and so does its lease.
    if is_in then redis.call('ZADD', leases, now + lease, before) end
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
  -- lease, whoever is alive would have come by now.
  local age = tonumber(string.match(info, 'uptime_in_seconds:(%d+)'))
  local rest = lease - age * 1000000
  if not is_lost and rest > 0 and trusted == 0 then b.recover_at = now + rest end
end
b.epoch = math.max(b.epoch, epoch) + 1
local number = b.epoch
local registration = string.format('%.0f', number)
local kind, mine = '0', struct.pack('<dd', 0, last)
if is_in then
  kind, mine = '1', found[2]
  redis.call('HDEL', books, 'r:' .. before, 'i:' .. before)
  redis.call('ZREM', leases, before)
  local checked = redis.call('HGET', books, 'checked')
  if checked and tonumber(before) <= tonumber(checked) then
    redis.call('HINCRBY', books, 'reported', 1)
  end
elseif is_lost then
  kind, mine = '2', struct.pack('<dd', flying, last)
  b.flying = b.flying + flying
  if b.recover_at == 0 and not found[3] then b.recover_at = now + lease end
  if b.recover_at > 0 then
    local expected = tonumber(redis.call('HGET', books, 'expected') or 0)
    redis.call('HSET', books, 'expected', math.max(expected, count))
    redis.call('HINCRBY', books, 'reported', 1)
    redis.call('HSETNX', books, 'lost_minute', b.minute)
    remember(seen_minute, seen_mt, seen_mr, seen_day, seen_dt, seen_dr)
  end
  if minute == b.minute then
    add(b, 'mt', mt)
    add(b, 'mr', mr)
  end
  if day == b.day then
    add(b, 'dt', dt)
    add(b, 'dr', dr)
  end
end
redis.call('HSET', books, 'r:' .. registration, mine, 'i:' .. registration, ARGV[2])
redis.call('ZADD', leases, now + lease, registration)
end_recovery(b)
changed(b)
save(b)
keep(day_length)
local _, settled = struct.unpack('<dd', mine)
return '0' .. kind .. packed(b) .. struct.pack('<dd', number, settled)
)lua";

constexpr std::string_view kHeartbeat = R"lua(
-- ARGV: channel, registration; marker, lease, minute, day, jobs in flight or -1
local marker, lease, minute_length, day_length, flying = struct.unpack('<ddddd', ARGV[3])
local b, is_there = load()
if not is_there or b.marker ~= marker then return '5' end
local mine = redis.call('HGET', books, 'r:' .. ARGV[2])
if not mine then return '3' end
redis.call('ZADD', leases, now + lease, ARGV[2])
clean_up(b, lease)
roll(b, minute_length, day_length)
end_recovery(b)
if flying >= 0 then
  local n, last = struct.unpack('<dd', mine)
  b.flying = math.max(0, b.flying + flying - n)
  redis.call('HSET', books, 'r:' .. ARGV[2], struct.pack('<dd', flying, last))
end
save(b)
keep(day_length)
return '00' .. packed(b)
)lua";

constexpr std::string_view kUnregister = R"lua(
-- ARGV: channel, registration; marker
local b, is_there = load()
if not is_there or b.marker ~= struct.unpack('<d', ARGV[3]) then return '5' end
if not redis.call('ZSCORE', leases, ARGV[2]) then return '3' end
forget(b, ARGV[2])
changed(b)
save(b)
return '0'
)lua";

std::string of_fleet(std::string_view text) {
  return joined({kPoolTime, kPoolBooks, "local channel = ARGV[1]\n", kFleet, text});
}

}  // namespace

const PoolFleetScripts& pool_fleet_scripts() {
  static const PoolFleetScripts scripts{.enrol{"pool register", of_fleet(kRegister)},
                                        .heartbeat{"pool heartbeat", of_fleet(kHeartbeat)},
                                        .unregister{"pool unregister", of_fleet(kUnregister)}};
  return scripts;
}

}  // namespace weir::store::redis
