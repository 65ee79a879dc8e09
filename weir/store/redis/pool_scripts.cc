#include "weir/store/redis/pool_scripts.h"

#include <string>
#include <string_view>

namespace weir::store::redis {
namespace {

// Lua has only doubles. Every number here is whole and below 2^53: times are microseconds
// (2^53 of them end in the year 2255), limits end at 10^15, what one job uses at 10^12, and
// sums are cut at 2^53 - 1, which also stands for no limit.
//
// A script's time goes into calls and into turning numbers to text and back, so the numbers of
// the books are one field, `state`: twenty doubles, in the order of PoolTotals' reader. It is
// also what scripts answer, after a letter for the code and one more.

constexpr std::string_view kTime = R"lua(
local books = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
)lua";

// Acquires and releases of one instance, in the order in which it asked.
constexpr std::string_view kWork = R"lua(
-- ARGV: registration, channel; marker, version, minute, day, least distance of announcements,
-- how many, and for each 0 (acquire), tokens, requests, or 1 (release), number, estimated
-- tokens and requests, used tokens and requests, minute and day of the grant, 1 if its
-- registration has ended
local mine, input = 'r:' .. ARGV[1], ARGV[3]
local found = redis.call('HMGET', books, 'state', mine)
if not found[1] then return '50' end
local marker, version, minute_length, day_length, distance, asked, at =
  struct.unpack('<dddddd', input)
local m, v, epoch, count, minute, mt, mr, day, dt, dr, flying, tm, rm, td, rd, most, recover_at,
  wanted, said_at = struct.unpack('<ddddddddddddddddddd', found[1])
if m ~= marker then return '50' end
if not found[2] then return '30' end
local n, last = struct.unpack('<dd', found[2])
-- A clock that goes back keeps the window.
local current = now - now % minute_length
if current > minute then minute, mt, mr = current, 0, 0 end
current = now - now % day_length
if current > day then day, dt, dr = current, 0, 0 end
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
      -- Of several that bind, the one that takes longest to pass is named.
      code = '00'
      if flying >= most then code = '24' end
      if requests > 0 then
        if mr + requests > rm then code = '11' end
        if dr + requests > rd then code = '13' end
      end
      if tokens > 0 then
        if mt + tokens > tm and code ~= '13' then code = '10' end
        if dt + tokens > td then code = '12' end
      end
      if code == '00' then
        mt, mr, dt, dr = mt + tokens, mr + requests, dt + tokens, dr + requests
        flying, n, is_changed = flying + 1, n + 1, true
      else
        wants, is_refused = 1, true
      end
    end
  else
    local number, minute_of, day_of, fenced
    number, minute_of, day_of, fenced, at = struct.unpack('<dddd', input, at)
    if fenced == 0 and number <= last then
      code = '80'
    else
      -- Less than estimated is given back in the same window only, and not by a registration
      -- that has ended; more counts in the current one. `tokens` and `requests` are what is
      -- more than estimated.
      local mt_more, mr_more, dt_more, dr_more = tokens, requests, tokens, requests
      if fenced == 1 or minute ~= minute_of then
        mt_more, mr_more = math.max(0, tokens), math.max(0, requests)
      end
      if fenced == 1 or day ~= day_of then
        dt_more, dr_more = math.max(0, tokens), math.max(0, requests)
      end
      mt = math.min(math.max(0, mt + mt_more), 9007199254740991)
      mr = math.min(math.max(0, mr + mr_more), 9007199254740991)
      dt = math.min(math.max(0, dt + dt_more), 9007199254740991)
      dr = math.min(math.max(0, dr + dr_more), 9007199254740991)
      mt_sum, mr_sum, dt_sum, dr_sum =
        mt_sum + mt_more, mr_sum + mr_more, dt_sum + dt_more, dr_sum + dr_more
      code = '30'
      if fenced == 0 then
        code, flying, n, last = '00', math.max(0, flying - 1), math.max(0, n - 1), number
      end
      is_changed, is_freed = true, true
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
  redis.call('HSET', books, 'state', state, mine, struct.pack('<dd', n, last))
elseif wants ~= wanted then
  redis.call('HSET', books, 'state', state)
end
return '0' .. owed .. state .. struct.pack('<dddd', mt_sum, mr_sum, dt_sum, dr_sum) ..
  table.concat(codes)
)lua";

// The books for scripts that run seldom: `b` has the numbers of the state by name.
constexpr std::string_view kBooks = R"lua(
local names = {'marker', 'version', 'epoch', 'count', 'minute', 'mt', 'mr', 'day', 'dt', 'dr',
  'flying', 'tm', 'rm', 'td', 'rd', 'most', 'recover_at', 'wanted', 'said_at', 'now'}
local function load()
  local text, b = redis.call('HGET', books, 'state'), {}
  local numbers = text and {struct.unpack('<dddddddddddddddddddd', text)}
  for i, name in ipairs(names) do b[name] = numbers and numbers[i] or 0 end
  return b, text and true or false
end
local function packed(b)
  local numbers = {}
  for i, name in ipairs(names) do numbers[i] = b[name] end
  return struct.pack('<dddddddddddddddddddd', unpack(numbers))
end
local function save(b)
  b.now = now
  redis.call('HSET', books, 'state', packed(b))
end
local function roll(b, minute_length, day_length)
  local current = now - now % minute_length
  if current > b.minute then b.minute, b.mt, b.mr = current, 0, 0 end
  current = now - now % day_length
  if current > b.day then b.day, b.dt, b.dr = current, 0, 0 end
end
local function add(b, field, more) b[field] = math.min(b[field] + more, 9007199254740991) end
)lua";

constexpr std::string_view kTell = R"lua(
-- ARGV: channel
local b, is_there = load()
if is_there and b.wanted == 1 then
  b.wanted, b.said_at = 0, now
  save(b)
  redis.call('PUBLISH', ARGV[1], 'freed')
end
return '0'
)lua";

constexpr std::string_view kReplay = R"lua(
-- ARGV: marker, minute, day, tokens, requests, minute and day in which they were used
local a = {struct.unpack('<ddddddd', ARGV[1])}
local b, is_there = load()
if not is_there or b.marker ~= a[1] then return '5' end
roll(b, a[2], a[3])
if a[6] == b.minute then
  add(b, 'mt', a[4])
  add(b, 'mr', a[5])
end
if a[7] == b.day then
  add(b, 'dt', a[4])
  add(b, 'dr', a[5])
end
save(b)
return '00' .. packed(b)
)lua";

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
-- use stays counted.
local function clean_up(b)
  local dead = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)
  for _, registration in ipairs(dead) do forget(b, registration) end
  if #dead > 0 then changed(b) end
end
-- Ends a recovery if everybody has reported, or if nobody will any more: then those who have
-- not count at their full share.
local function end_recovery(b)
  if b.recover_at == 0 then return end
  local r = redis.call('HMGET', books, 'expected', 'reported', 'lost_minute')
  local expected = tonumber(r[1] or 0)
  local silent = math.max(0, expected - tonumber(r[2] or 0))
  if now < b.recover_at and (expected == 0 or silent > 0) then return end
  if silent > 0 then
    local function count(field, limit)
      if limit < 9007199254740991 then add(b, field, silent * math.floor(limit / expected)) end
    end
    if tonumber(r[3] or 0) == b.minute then
      count('mt', b.tm)
      count('mr', b.rm)
    end
    count('dt', b.td)
    count('dr', b.rd)
  end
  b.recover_at = 0
  redis.call('HDEL', books, 'expected', 'reported', 'lost_minute')
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
-- limits; 1 if an empty store is trusted
local lease, version, minute_length, day_length, remembered, new_marker, last, flying, epoch,
  count, minute, mt, mr, day, dt, dr, tm, rm, td, rd, most, trusted =
  struct.unpack('<dddddddddddddddddddddd', ARGV[5])
local before = ARGV[4]
local b, is_there = load()
if is_there then clean_up(b) end
local found = redis.call('HMGET', books, 'limits', 'r:' .. before, 'recovered')
local is_lost = remembered > 0 and (not is_there or b.marker ~= remembered)
local is_in = is_there and not is_lost and before ~= '' and found[2]
local others = b.count - (is_in and 1 or 0)
if is_there and others > 0 then
  local is_other = found[1] ~= ARGV[3] or version ~= b.version
  if is_other and version <= b.version then
    save(b)
    return '60' .. struct.pack('<d', b.version) .. found[1]
  end
end
b.version, b.tm, b.rm, b.td, b.rd, b.most = version, tm, rm, td, rd, most
redis.call('HSET', books, 'limits', ARGV[3])
roll(b, minute_length, day_length)
if not is_there then
  b.marker = new_marker
  -- An empty store may be one that has lost what was in it. If Redis has run for longer than a
  -- lease, whoever is alive would have come by now.
  local age = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
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
elseif is_lost then
  kind, mine = '2', struct.pack('<dd', flying, last)
  b.flying = b.flying + flying
  if b.recover_at == 0 and not found[3] then b.recover_at = now + lease end
  if b.recover_at > 0 then
    local expected = tonumber(redis.call('HGET', books, 'expected') or 0)
    redis.call('HSET', books, 'expected', math.max(expected, count))
    redis.call('HINCRBY', books, 'reported', 1)
    redis.call('HSETNX', books, 'lost_minute', b.minute)
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
clean_up(b)
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

constexpr std::string_view kReport = R"lua(
-- ARGV: marker, minute, day, most instances
local marker, minute_length, day_length, most = struct.unpack('<dddd', ARGV[1])
local b, is_there = load()
if not is_there or b.marker ~= marker then return {'5'} end
roll(b, minute_length, day_length)
b.now = now
local reply = {'00' .. packed(b)}
local list = redis.call('ZRANGE', KEYS[2], 0, most - 1, 'WITHSCORES')
for i = 1, #list, 2 do
  local f = redis.call('HMGET', books, 'i:' .. list[i], 'r:' .. list[i])
  local n = f[2] and struct.unpack('<d', f[2]) or 0
  table.insert(reply, {f[1] or '', n, list[i + 1]})
end
return reply
)lua";

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(part);
  return text;
}

std::string of_fleet(std::string_view text) {
  return joined({kTime, kBooks, "local channel = ARGV[1]\n", kFleet, text});
}

}  // namespace

const PoolScripts& pool_scripts() {
  static const PoolScripts scripts{.work{"pool work", joined({kTime, kWork})},
                                   .tell{"pool tell", joined({kTime, kBooks, kTell})},
                                   .replay{"pool replay", joined({kTime, kBooks, kReplay})},
                                   .enrol{"pool register", of_fleet(kRegister)},
                                   .heartbeat{"pool heartbeat", of_fleet(kHeartbeat)},
                                   .unregister{"pool unregister", of_fleet(kUnregister)},
                                   .report{"pool report", joined({kTime, kBooks, kReport})}};
  return scripts;
}

}  // namespace weir::store::redis
