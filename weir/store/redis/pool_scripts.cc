#include "weir/store/redis/pool_scripts.h"

#include <string>
#include <string_view>

namespace weir::store::redis {
namespace {

// Lua has only doubles. Every number here is whole and below 2^53: times are microseconds
// (2^53 of them end in the year 2255), limits end at 10^15, what one job uses at 10^12, and
// sums are cut at 2^53 - 1. Numbers are never joined into text: `..` would round them to 14
// digits; as arguments and in replies they are exact.

// KEYS[1]: the books of a model.
constexpr std::string_view kTime = R"lua(
local books = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
)lua";

// The windows that contain `now`. A clock that goes back keeps the window.
constexpr std::string_view kWindows = R"lua(
local function window(length, begin, tokens, requests)
  local current = now - now % length
  if begin and tonumber(begin) >= current then
    return tonumber(begin), tonumber(tokens), tonumber(requests)
  end
  return current, 0, 0
end
)lua";

constexpr std::string_view kAcquire = R"lua(
-- ARGV: registration, marker, version, minute, day, tokens, requests
local mine = 'n:' .. ARGV[1]
local b = redis.call('HMGET', books, 'marker', 'version', 'recover_at', mine,
  'minute', 'minute_tokens', 'minute_requests', 'day', 'day_tokens', 'day_requests',
  'in_flight', 'epoch', 'count', 'limit_tm', 'limit_rm', 'limit_td', 'limit_rd', 'limit_c',
  'wanted')
if b[1] ~= ARGV[2] then return {5} end
if not b[4] then return {3} end
if b[2] ~= ARGV[3] then return {6} end
if b[3] then return {4, now, tonumber(b[3])} end
local minute, mt, mr = window(tonumber(ARGV[4]), b[5], b[6], b[7])
local day, dt, dr = window(tonumber(ARGV[5]), b[8], b[9], b[10])
local tokens, requests, flying = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(b[11])
local code, bound = 0, 0
-- Of several that bind, the one that takes longest to pass is named.
if b[18] and flying + 1 > tonumber(b[18]) then code, bound = 2, 4 end
if requests > 0 and b[15] and mr + requests > tonumber(b[15]) then code, bound = 1, 1 end
if tokens > 0 and b[14] and mt + tokens > tonumber(b[14]) then code, bound = 1, 0 end
if requests > 0 and b[17] and dr + requests > tonumber(b[17]) then code, bound = 1, 3 end
if tokens > 0 and b[16] and dt + tokens > tonumber(b[16]) then code, bound = 1, 2 end
if code == 0 then
  mt, mr, dt, dr, flying = mt + tokens, mr + requests, dt + tokens, dr + requests, flying + 1
  redis.call('HSET', books, 'minute', minute, 'minute_tokens', mt, 'minute_requests', mr,
    'day', day, 'day_tokens', dt, 'day_requests', dr, 'in_flight', flying,
    mine, tonumber(b[4]) + 1)
elseif not b[19] then
  redis.call('HSET', books, 'wanted', 1)
end
return {code, bound, now, tonumber(b[12]), tonumber(b[13]), minute, mt, mr, day, dt, dr, flying}
)lua";

constexpr std::string_view kRelease = R"lua(
-- ARGV: registration, marker, number, minute, day, estimated tokens and requests, used tokens
-- and requests, minute and day of the grant, channel, least distance of announcements, and
-- whether it is known that the registration has ended
local mine, last = 'n:' .. ARGV[1], 's:' .. ARGV[1]
local b = redis.call('HMGET', books, 'marker', mine, last, 'in_flight',
  'minute', 'minute_tokens', 'minute_requests', 'day', 'day_tokens', 'day_requests',
  'epoch', 'count', 'wanted', 'said_at')
if b[1] ~= ARGV[2] then return {5} end
if not b[2] and ARGV[14] == '' then return {3} end
local number, flying = tonumber(ARGV[3]), tonumber(b[4])
if b[3] and number <= tonumber(b[3]) then return {8} end
local minute, mt, mr = window(tonumber(ARGV[4]), b[5], b[6], b[7])
local day, dt, dr = window(tonumber(ARGV[5]), b[8], b[9], b[10])
local tokens, requests = ARGV[8] - ARGV[6], ARGV[9] - ARGV[7]
-- Less than estimated is given back in the same window only, and not by a registration that
-- has ended; more counts in the current one.
local function settled(count, more, begin, current)
  if more < 0 and (not b[2] or tonumber(begin) ~= current) then return count, 0 end
  local after = math.min(math.max(0, count + more), 9007199254740991)
  return after, after - count
end
local mt_more, mr_more, dt_more, dr_more
mt, mt_more = settled(mt, tokens, ARGV[10], minute)
mr, mr_more = settled(mr, requests, ARGV[10], minute)
dt, dt_more = settled(dt, tokens, ARGV[11], day)
dr, dr_more = settled(dr, requests, ARGV[11], day)
local code = 3
if b[2] then
  code = 0
  flying = math.max(0, flying - 1)
  redis.call('HSET', books, 'minute', minute, 'minute_tokens', mt, 'minute_requests', mr,
    'day', day, 'day_tokens', dt, 'day_requests', dr, 'in_flight', flying,
    mine, math.max(0, b[2] - 1), last, number)
else
  redis.call('HSET', books, 'minute', minute, 'minute_tokens', mt, 'minute_requests', mr,
    'day', day, 'day_tokens', dt, 'day_requests', dr)
end
local owed = 0
if b[13] then
  if b[14] and now - b[14] < tonumber(ARGV[13]) then
    owed = 1
  else
    redis.call('HDEL', books, 'wanted')
    redis.call('HSET', books, 'said_at', now)
    redis.call('PUBLISH', ARGV[12], 'freed')
  end
end
return {code, owed, now, tonumber(b[11]), tonumber(b[12]), minute, mt, mr, day, dt, dr, flying,
  mt_more, mr_more, dt_more, dr_more}
)lua";

constexpr std::string_view kTell = R"lua(
-- ARGV: channel
if redis.call('HDEL', books, 'wanted') == 1 then
  redis.call('HSET', books, 'said_at', now)
  redis.call('PUBLISH', ARGV[1], 'freed')
end
return {0}
)lua";

constexpr std::string_view kReplay = R"lua(
-- ARGV: marker, minute, day, tokens, requests, minute and day in which they were used
local b = redis.call('HMGET', books, 'marker', 'minute', 'minute_tokens', 'minute_requests',
  'day', 'day_tokens', 'day_requests')
if b[1] ~= ARGV[1] then return {5} end
local minute, mt, mr = window(tonumber(ARGV[2]), b[2], b[3], b[4])
local day, dt, dr = window(tonumber(ARGV[3]), b[5], b[6], b[7])
local function more(count, used) return math.min(count + used, 9007199254740991) end
if tonumber(ARGV[6]) == minute then mt, mr = more(mt, ARGV[4]), more(mr, ARGV[5]) end
if tonumber(ARGV[7]) == day then dt, dr = more(dt, ARGV[4]), more(dr, ARGV[5]) end
redis.call('HSET', books, 'minute', minute, 'minute_tokens', mt, 'minute_requests', mr,
  'day', day, 'day_tokens', dt, 'day_requests', dr)
return {0, minute, day}
)lua";

// KEYS[2]: registrations by the instant at which their leases end. In what follows
// `lengths` and `channel` are set.
constexpr std::string_view kFleet = R"lua(
local leases = KEYS[2]
local function get(field) return tonumber(redis.call('HGET', books, field) or 0) end
local function forget(registration)
  local flying = get('n:' .. registration)
  redis.call('ZREM', leases, registration)
  redis.call('HDEL', books, 'n:' .. registration, 's:' .. registration, 'i:' .. registration)
  redis.call('HSET', books, 'in_flight', math.max(0, get('in_flight') - flying))
end
local function changed()
  redis.call('HSET', books, 'count', redis.call('ZCARD', leases))
  redis.call('HINCRBY', books, 'epoch', 1)
  redis.call('PUBLISH', channel, 'fleet')
end
-- Ends leases that are over, a bounded number at a time. What their jobs were estimated to
-- use stays counted.
local function clean_up()
  local dead = redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 100)
  for _, registration in ipairs(dead) do forget(registration) end
  if #dead > 0 then changed() end
end
local function roll()
  local b = redis.call('HMGET', books, 'minute', 'minute_tokens', 'minute_requests',
    'day', 'day_tokens', 'day_requests')
  local minute, mt, mr = window(lengths[1], b[1], b[2], b[3])
  local day, dt, dr = window(lengths[2], b[4], b[5], b[6])
  redis.call('HSET', books, 'minute', minute, 'minute_tokens', mt, 'minute_requests', mr,
    'day', day, 'day_tokens', dt, 'day_requests', dr)
  return minute, day
end
local function add(field, more)
  redis.call('HSET', books, field, math.min(get(field) + more, 9007199254740991))
end
-- Ends a recovery if everybody has reported, or if nobody will any more: then those who have
-- not count at their full share.
local function end_recovery()
  local b = redis.call('HMGET', books, 'recover_at', 'expected', 'reported',
    'limit_tm', 'limit_rm', 'limit_td', 'limit_rd')
  if not b[1] then return end
  local expected, reported = tonumber(b[2]), tonumber(b[3])
  local silent = math.max(0, expected - reported)
  if now < tonumber(b[1]) and (expected == 0 or silent > 0) then return end
  if silent > 0 then
    roll()
    local fields = {'minute_tokens', 'minute_requests', 'day_tokens', 'day_requests'}
    for i, field in ipairs(fields) do
      if b[3 + i] then add(field, silent * math.floor(b[3 + i] / expected)) end
    end
  end
  redis.call('HDEL', books, 'recover_at', 'expected', 'reported')
  redis.call('HSET', books, 'recovered', 1)
  redis.call('PUBLISH', channel, 'freed')
end
local function totals(reply)
  roll()
  local b = redis.call('HMGET', books, 'epoch', 'count', 'minute', 'minute_tokens',
    'minute_requests', 'day', 'day_tokens', 'day_requests', 'in_flight')
  table.insert(reply, now)
  for i = 1, 9 do table.insert(reply, tonumber(b[i] or 0)) end
  return reply
end
local function keep()
  redis.call('PEXPIRE', books, lengths[2] / 500)
  redis.call('PEXPIRE', leases, lengths[2] / 500)
end
)lua";

constexpr std::string_view kRegister = R"lua(
-- ARGV: instance, lease, version, limits in words, minute, day, channel; registration and
-- marker before, or nothing; a new marker, number of the last release, jobs in flight, epoch
-- and count known; minute, tokens, requests, day, tokens, requests of its own; the limits
local before, remembered = ARGV[8], ARGV[9]
clean_up()
local b = redis.call('HMGET', books, 'marker', 'version', 'limits', 'count', 'n:' .. before,
  's:' .. before, 'recover_at', 'recovered')
local marker, is_lost = b[1], remembered ~= '' and b[1] ~= remembered
local is_there = marker and not is_lost and before ~= '' and b[5]
local version, others = b[2], tonumber(b[4] or 0)
if is_there then others = others - 1 end
if not marker or others == 0 or b[3] ~= ARGV[4] or version ~= ARGV[3] then
  local is_newer = marker and tonumber(ARGV[3]) > tonumber(version)
  if marker and others > 0 and not is_newer then return {6, tonumber(version), b[3]} end
  version = ARGV[3]
  redis.call('HSET', books, 'version', version, 'limits', ARGV[4])
  for i, field in ipairs({'limit_tm', 'limit_rm', 'limit_td', 'limit_rd', 'limit_c'}) do
    if ARGV[20 + i] == '' then
      redis.call('HDEL', books, field)
    else
      redis.call('HSET', books, field, ARGV[20 + i])
    end
  end
end
local minute, day = roll()
if not marker then
  marker = ARGV[10]
  redis.call('HSET', books, 'marker', marker, 'in_flight', 0)
  -- An empty store may be one that has lost what was in it. If Redis has run for longer than a
  -- lease, whoever is alive would have come by now.
  local age = tonumber(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)'))
  local rest = tonumber(ARGV[2]) - age * 1000000
  if not is_lost and rest > 0 then
    redis.call('HSET', books, 'recover_at', now + rest, 'expected', 0, 'reported', 0)
  end
end
local epoch = math.max(get('epoch'), tonumber(ARGV[13])) + 1
redis.call('HSET', books, 'epoch', epoch)
local registration = string.format('%.0f', epoch)
local kind, flying, last = 0, 0, ARGV[11]
if is_there then
  kind, flying, last = 1, b[5], b[6]
  redis.call('HDEL', books, 'n:' .. before, 's:' .. before, 'i:' .. before)
  redis.call('ZREM', leases, before)
elseif is_lost then
  kind, flying = 2, ARGV[12]
  redis.call('HSET', books, 'in_flight', get('in_flight') + flying)
  if not b[7] and not b[8] then
    redis.call('HSETNX', books, 'recover_at', now + ARGV[2])
    redis.call('HSETNX', books, 'expected', 0)
    redis.call('HSETNX', books, 'reported', 0)
  end
  if redis.call('HEXISTS', books, 'recover_at') == 1 then
    redis.call('HSET', books, 'expected', math.max(get('expected'), tonumber(ARGV[14])))
    redis.call('HINCRBY', books, 'reported', 1)
  end
  if tonumber(ARGV[15]) == minute then
    add('minute_tokens', ARGV[16])
    add('minute_requests', ARGV[17])
  end
  if tonumber(ARGV[18]) == day then
    add('day_tokens', ARGV[19])
    add('day_requests', ARGV[20])
  end
end
redis.call('HSET', books, 'n:' .. registration, flying, 's:' .. registration, last,
  'i:' .. registration, ARGV[1])
redis.call('ZADD', leases, now + ARGV[2], registration)
end_recovery()
changed()
keep()
return totals({0, kind, tonumber(last), epoch, tonumber(version), marker})
)lua";

constexpr std::string_view kHeartbeat = R"lua(
-- ARGV: registration, marker, lease, minute, day, channel, jobs in flight or nothing
local mine = 'n:' .. ARGV[1]
local b = redis.call('HMGET', books, 'marker', mine, 'version')
if b[1] ~= ARGV[2] then return {5} end
if not b[2] then return {3} end
redis.call('ZADD', leases, now + ARGV[3], ARGV[1])
clean_up()
end_recovery()
if ARGV[7] ~= '' then
  redis.call('HSET', books, 'in_flight', math.max(0, get('in_flight') + ARGV[7] - b[2]),
    mine, ARGV[7])
end
keep()
return totals({0, tonumber(b[3])})
)lua";

constexpr std::string_view kUnregister = R"lua(
-- ARGV: registration, marker, minute, day, channel
if redis.call('HGET', books, 'marker') ~= ARGV[2] then return {5} end
if not redis.call('ZSCORE', leases, ARGV[1]) then return {3} end
forget(ARGV[1])
changed()
return {0}
)lua";

constexpr std::string_view kReport = R"lua(
-- ARGV: marker, most instances, minute, day, channel
if redis.call('HGET', books, 'marker') ~= ARGV[1] then return {5} end
local reply = totals({0})
local list = redis.call('ZRANGE', leases, 0, ARGV[2] - 1, 'WITHSCORES')
for i = 1, #list, 2 do
  local b = redis.call('HMGET', books, 'i:' .. list[i], 'n:' .. list[i])
  table.insert(reply, {list[i], b[1], b[2], list[i + 1]})
end
return reply
)lua";

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(part);
  return text;
}

// With the lengths of the windows and the channel at these places of ARGV.
std::string of_fleet(std::string_view places, std::string_view text) {
  return joined({kTime, kWindows, places, kFleet, text});
}

}  // namespace

const PoolScripts& pool_scripts() {
  static const PoolScripts scripts{
      .acquire{"pool acquire", joined({kTime, kWindows, kAcquire})},
      .release{"pool release", joined({kTime, kWindows, kRelease})},
      .tell{"pool tell", joined({kTime, kTell})},
      .replay{"pool replay", joined({kTime, kWindows, kReplay})},
      .enrol{"pool register",
             of_fleet("local lengths, channel = {tonumber(ARGV[5]), tonumber(ARGV[6])}, ARGV[7]",
                      kRegister)},
      .heartbeat{
          "pool heartbeat",
          of_fleet("local lengths, channel = {tonumber(ARGV[4]), tonumber(ARGV[5])}, ARGV[6]",
                   kHeartbeat)},
      .unregister{
          "pool unregister",
          of_fleet("local lengths, channel = {tonumber(ARGV[3]), tonumber(ARGV[4])}, ARGV[5]",
                   kUnregister)},
      .report{"pool report",
              of_fleet("local lengths, channel = {tonumber(ARGV[3]), tonumber(ARGV[4])}, ARGV[5]",
                       kReport)}};
  return scripts;
}

}  // namespace weir::store::redis
