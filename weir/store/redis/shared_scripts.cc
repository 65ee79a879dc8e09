#include "weir/store/redis/shared_scripts.h"

#include <string>

namespace weir::store::redis {
namespace {

// What every script begins with: the time, how values are read and written, and what a
// meter is that has no key.
constexpr std::string_view kCommon = R"lua(
local call, try, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local EXACT = 9007199254740991

local injected = ARGV[1] ~= ''
local now
if injected then
  now = tonumber(ARGV[1])
else
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

local function foreign(key)
  error({err = 'FOREIGN ' .. key})
end

local function read(key)
  local value = try('GET', key)
  if type(value) == 'table' then foreign(key) end
  return value
end

-- A key lives until its meter is back in its initial state. On a clock of its own a test
-- must not lose it earlier.
local function put(key, value, till)
  if injected then
    call('SET', key, value, 'PX', 600000 + max(0, ceil((till - now) / 1000)))
  else
    call('SET', key, value, 'PXAT', ceil(till / 1000))
  end
end

local function live(key, till)
  if injected then
    call('PEXPIRE', key, 600000 + max(0, ceil((till - now) / 1000)))
  else
    call('PEXPIREAT', key, ceil(till / 1000))
  end
end

-- When data was lost, if that was less than `span` ago: a meter that has no key counts as
-- fully used at that instant.
local lost_at
local function lost(span)
  return lost_at and lost_at + span > now
end

local function read_bucket(key, fill_us, fill_parts, num)
  local value = read(key)
  if not value then
    if lost(fill_us + 1) then return lost_at + fill_us, fill_parts end
    return 0, 0
  end
  local size = #value
  if size == 8 then
    local tag, at = unpack('>BI7', value)
    if tag ~= 98 then foreign(key) end
    return at, 0
  end
  if size ~= 15 then foreign(key) end
  local tag, at, parts = unpack('>BI7I7', value)
  if tag ~= 98 then foreign(key) end
  if parts >= num then return at + 1, 0 end
  return at, parts
end

local function put_bucket(key, at, parts)
  if parts == 0 then
    put(key, pack('>BI7', 98, at), at)
  else
    put(key, pack('>BI7I7', 98, at, parts), at + 1)
  end
end

-- Tokens and last tick; whether there was no key.
local function read_ticker(key, limit, interval, per_tick, empty)
  local value = read(key)
  if not value then
    if empty then return 0, now, true end
    local fill = ceil(limit / per_tick) * interval
    if lost(fill) then return 0, lost_at - lost_at % interval, false end
    return limit, now - now % interval, true
  end
  if #value ~= 17 then foreign(key) end
  local tag, tokens, last = unpack('>Bdd', value)
  if tag ~= 116 then foreign(key) end
  return tokens, last, false
end

local function tick(tokens, last, limit, interval, per_tick)
  if now - last < interval then return tokens, last end
  local ticks = floor((now - last) / interval)
  return min(tokens + ticks * per_tick, limit), last + ticks * interval
end

local function put_ticker(key, tokens, last, limit, interval, per_tick, empty)
  local till = last + ceil((limit - tokens) / per_tick) * interval
  if empty then
    till = till + 86400000000
  elseif tokens >= limit then
    call('DEL', key)
    return
  end
  put(key, pack('>Bdd', 116, tokens, last), till)
end

-- The window that holds `at`: from the bounds of the calendar, or by its length.
local function window(at, length, bounds)
  if not bounds then
    local begin = at - at % length
    return begin, begin + length
  end
  for i = 1, 3 do
    if at >= bounds[i] and at < bounds[i + 1] then return bounds[i], bounds[i + 1] end
  end
  error({err = 'CLOCK ' .. string.format('%.0f', now)})
end

local function read_window(key, limit, length, bounds)
  local value = read(key)
  if not value then
    if lost_at then
      local begin, till = window(now, length, bounds)
      if begin <= lost_at and lost_at < till then return begin, limit end
    end
    return 0, 0
  end
  if #value ~= 15 then foreign(key) end
  local tag, begin, count = unpack('>BI7I7', value)
  if tag ~= 119 then foreign(key) end
  return begin, count
end

local function put_window(key, begin, count, length, bounds)
  local till
  if bounds then
    till = bounds[4]
    for i = 1, 3 do
      if bounds[i] == begin then till = bounds[i + 1] end
    end
  else
    till = begin + length
  end
  put(key, pack('>BI7I7', 119, begin, count), till)
end

-- A log is its units and then its runs, 14 bytes each, oldest first.
local RUN = 14
local function read_log(key, limit, span)
  local value = read(key)
  if not value then
    if lost(span) and limit > 0 then
      return pack('>BI7I7I7', 108, limit, lost_at, limit), limit
    end
    return '', 0
  end
  local size = #value
  if size < 8 + RUN or (size - 8) % RUN ~= 0 then foreign(key) end
  local tag, held = unpack('>BI7', value)
  if tag ~= 108 then foreign(key) end
  return value, held
end

-- Where the first run that counts begins, and the units before it.
local function forgotten(value, span)
  local at, units, size = 9, 0, #value
  while at < size do
    local stamp, n = unpack('>I7I7', value, at)
    if stamp + span > now then break end
    units = units + n
    at = at + RUN
  end
  return at, units
end

local function freed_at(value, at, span, units)
  local freed, size = 0, #value
  while at < size do
    local stamp, n = unpack('>I7I7', value, at)
    freed = freed + n
    if freed >= units then return stamp + span end
    at = at + RUN
  end
  return -1
end

local function put_log(key, held, runs, span)
  if runs == '' then
    call('DEL', key)
    return
  end
  local newest = unpack('>I7', runs, #runs - RUN + 1)
  put(key, pack('>BI7', 108, held) .. runs, newest + span)
end

local function stamp_of(grain)
  local past = now % grain
  if past == 0 then return now end
  return now - past + grain
end

-- The runs of a log with `units` more.
local function with_units(runs, stamp, units)
  local at = #runs - RUN + 1
  while at > 0 do
    local before, n = unpack('>I7I7', runs, at)
    if before <= stamp then
      if before == stamp then
        return runs:sub(1, at - 1) .. pack('>I7I7', stamp, n + units) .. runs:sub(at + RUN)
      end
      break
    end
    at = at - RUN
  end
  at = at + RUN
  if #runs == 1024 * RUN then
    at = min(at, #runs - RUN + 1)
    local later, n = unpack('>I7I7', runs, at)
    return runs:sub(1, at - 1) .. pack('>I7I7', max(later, stamp), n + units) .. runs:sub(at + RUN)
  end
  return runs:sub(1, at - 1) .. pack('>I7I7', stamp, units) .. runs:sub(at)
end

-- Slots are a sorted set of holds by the instant they end, and one member without a name
-- whose score is minus what is in flight.
local function ended_slots(key)
  local ended = try('ZRANGEBYSCORE', key, 0, now)
  if ended.err then foreign(key) end
  local units = 0
  for _, member in ipairs(ended) do
    units = units + (tonumber(member:match('/(%d+)$')) or foreign(key))
  end
  return ended, units
end

local function read_slots(key)
  local total = try('ZSCORE', key, '')
  if type(total) == 'table' then foreign(key) end
  if not total then
    if call('EXISTS', key) == 1 then foreign(key) end
    return false, {}, 0
  end
  local ended, units = ended_slots(key)
  return -tonumber(total) - units, ended, units
end

local function drop_ended(key, ended, total)
  for _, member in ipairs(ended) do call('ZREM', key, member) end
  if total == 0 then
    call('DEL', key)
  else
    call('ZADD', key, -total, '')
  end
end

local function member_of(hold, units)
  return hold .. '/' .. string.format('%.0f', units)
end

local function outlive(key)
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  live(key, tonumber(last[2]))
end
)lua";

constexpr std::string_view kDecide = R"lua(
local charging = ARGV[2] == 'c'
local epoch = read(KEYS[1])
local seen = ARGV[3]
local epoch_after = epoch
if not epoch then
  epoch_after = ARGV[4] .. ':' .. (seen == '' and '0' or string.format('%.0f', now))
elseif epoch ~= seen then
  if #epoch < 18 or epoch:sub(17, 17) ~= ':' then foreign(KEYS[1]) end
  if seen ~= '' and epoch:sub(1, 16) ~= seen:sub(1, 16) and epoch:sub(18) == '0' then
    epoch_after = epoch:sub(1, 17) .. string.format('%.0f', now)
  end
end
lost_at = tonumber(epoch_after:sub(18))
if lost_at == 0 then lost_at = nil end

local first = 7
local count = #ARGV - first
local reply = {1, now, epoch_after == seen and '' or epoch_after}
local allowed = true
local after, stamps = {}, {}

for i = 1, count do
  local kind, shadow, a, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[first + i])
  local key = KEYS[1 + i]
  local x, y, passes
  if kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    x, y = at, parts
    if at < now then at, parts = now, 0 end
    at = at + a
    parts = parts + b
    if parts >= e then
      parts = parts - e
      at = at + 1
    end
    local over = at - c - now
    passes = (a == 0 and b == 0) or over < 0 or (over == 0 and parts <= d)
    if passes and (a > 0 or b > 0) then after[i] = {kind, key, at, parts} end
  elseif kind == 't' then
    local tokens, last, fresh = read_ticker(key, b, c, d, e == 1)
    x, y = tokens, last
    tokens, last = tick(tokens, last, b, c, d)
    passes = a == 0 or a <= tokens
    if passes and a > 0 then
      after[i] = {kind, key, tokens - a, last, b, c, d, e == 1}
    elseif fresh and e == 1 then
      after[i] = {'T', key, tokens, last, b, c, d, true}
    end
  elseif kind == 'w' or kind == 'c' then
    local bounds = kind == 'c' and {c, d, e, f}
    local begin, n = read_window(key, b, c, bounds)
    x, y = begin, n
    local current = window(now, c, bounds)
    if current > begin then begin, n = current, 0 end
    passes = a == 0 or n + a <= b
    if passes and a > 0 then after[i] = {'w', key, begin, n + a, c, bounds} end
  elseif kind == 'l' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    x, y = held - gone, -1
    passes = a == 0 or held - gone + a <= b
    if passes and a > 0 then
      after[i] = {kind, key, held - gone + a, value:sub(at), c, d, a}
    elseif not passes then
      y = freed_at(value, at, c, held - gone + a - b)
    end
  else
    local total, ended, units = read_slots(key)
    if not total then
      total = 0
      if lost(c) then total = b end
    end
    x, y = total, 0
    passes = a == 0 or total + a <= b
    if passes and a > 0 then
      after[i] = {kind, key, total + a, ended, a}
    elseif #ended > 0 then
      after[i] = {'S', key, total, ended}
    end
  end
  reply[2 + 2 * i], reply[3 + 2 * i] = x, y
  stamps[i] = passes and now or -1
  if not passes and shadow == '0' then allowed = false end
end

if not charging then
  if not allowed then reply[1] = 0 end
  reply[3] = ''
  return reply
end
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end

local hold = ARGV[5]
local ends = hold ~= '' and now + tonumber(ARGV[6])
if not allowed then
  reply[1] = 0
  for i = 1, count do
    local m = after[i]
    if m and m[1] == 'T' then put_ticker(m[2], m[3], m[4], m[5], m[6], m[7], m[8]) end
    if m and (m[1] == 'S' or m[1] == 's' and #m[4] > 0) then
      drop_ended(m[2], m[4], m[1] == 's' and m[3] - m[5] or m[3])
    end
  end
  return reply
end

for i = 1, count do
  local m = after[i]
  if m then
    local kind, key = m[1], m[2]
    if kind == 'b' then
      put_bucket(key, m[3], m[4])
    elseif kind == 't' or kind == 'T' then
      put_ticker(key, m[3], m[4], m[5], m[6], m[7], m[8])
    elseif kind == 'w' then
      stamps[i] = m[3]
      put_window(key, m[3], m[4], m[5], m[6])
    elseif kind == 'l' then
      stamps[i] = stamp_of(m[6])
      put_log(key, m[3], with_units(m[4], stamps[i], m[7]), m[5])
    elseif kind == 's' then
      drop_ended(key, m[4], m[3])
      call('ZADD', key, ends, member_of(hold, m[5]))
      outlive(key)
    else
      drop_ended(key, m[4], m[3])
    end
  end
end
if ends then
  local record = {pack('>c1dB', 'a', ends, count)}
  for i = 1, count do record[i + 1] = pack('>d', stamps[i]) end
  record[count + 2] = ARGV[7]
  put(KEYS[#KEYS], table.concat(record), ends)
end
return reply
)lua";

constexpr std::string_view kEnd = R"lua(
local seen = ARGV[3]
lost_at = tonumber(seen:sub(18))
if lost_at == 0 then lost_at = nil end
local record = read(KEYS[1])
if not record then return {'g', now} end
if #record < 9 then foreign(KEYS[1]) end
local state, ends = unpack('>c1d', record)
if state ~= 'a' and state ~= 's' and state ~= 'c' then foreign(KEYS[1]) end
if ends <= now then return {'g', now} end
if state ~= 'a' then return {state, now} end

local hold = ARGV[4]
local first = 4
local after = {}
for i = 1, #KEYS - 1 do
  local key = KEYS[1 + i]
  local kind, sign, a, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[first + 2 * i - 1])
  local stamp = tonumber(ARGV[first + 2 * i])
  local back = sign == '+'
  if kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    if back then
      at = at - a
      parts = parts - b
      if parts < 0 then
        parts = parts + e
        at = at - 1
      end
      if at >= now then after[i] = {kind, key, at, parts} else after[i] = {'-', key} end
    elseif sign == '-' then
      if at < now then at, parts = now, 0 end
      at = at + a
      parts = parts + b
      if parts >= e then
        parts = parts - e
        at = at + 1
      end
      after[i] = {kind, key, min(at, EXACT - 1), parts}
    end
  elseif kind == 't' and sign ~= '0' then
    local tokens, last, fresh = read_ticker(key, b, c, d, e == 1)
    if not (fresh and back) then
      tokens, last = tick(tokens, last, b, c, d)
      if back then
        tokens = max(tokens, min(tokens + a, b))
      else
        tokens = max(tokens - a, -4503599627370496)
      end
      after[i] = {kind, key, tokens, last, b, c, d, e == 1}
    end
  elseif (kind == 'w' or kind == 'c') and sign ~= '0' then
    local bounds = kind == 'c' and {c, d, e, f}
    local begin, n = read_window(key, b, c, bounds)
    local current = window(now, c, bounds)
    if back then
      if begin == stamp and current <= stamp then
        after[i] = {'w', key, begin, max(0, n - a), c, bounds}
      end
    else
      if current > begin then begin, n = current, 0 end
      after[i] = {'w', key, begin, min(n + a, EXACT), c, bounds}
    end
  elseif kind == 'l' and sign ~= '0' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    local runs = value:sub(at)
    held = held - gone
    if back then
      for from = 1, #runs, RUN do
        local run, n = unpack('>I7I7', runs, from)
        if run == stamp then
          local given = min(a, n)
          local left = n > given and pack('>I7I7', run, n - given) or ''
          after[i] = {kind, key, held - given, runs:sub(1, from - 1) .. left .. runs:sub(from + RUN), c}
          break
        end
      end
    else
      local units = min(a, EXACT - held)
      after[i] = {kind, key, held + units, with_units(runs, stamp_of(d), units), c}
    end
  elseif kind == 's' then
    local total, ended = read_slots(key)
    local member = member_of(hold, a)
    if total and call('ZSCORE', key, member) then
      ended[#ended + 1] = member
      after[i] = {kind, key, total - a, ended}
    end
  end
end

for _, m in pairs(after) do
  local kind, key = m[1], m[2]
  if kind == 'b' then
    put_bucket(key, m[3], m[4])
  elseif kind == '-' then
    call('DEL', key)
  elseif kind == 't' then
    put_ticker(key, m[3], m[4], m[5], m[6], m[7], m[8])
  elseif kind == 'w' then
    if m[4] == 0 then call('DEL', key) else put_window(key, m[3], m[4], m[5], m[6]) end
  elseif kind == 'l' then
    put_log(key, m[3], m[4], m[5])
  else
    drop_ended(key, m[4], m[3])
  end
end
put(KEYS[1], pack('>c1d', ARGV[2], ends), ends)
return {ARGV[2], now}
)lua";

constexpr std::string_view kRenew = R"lua(
local record = read(KEYS[1])
if not record then return {'g', now} end
if #record < 9 then foreign(KEYS[1]) end
local state, ends = unpack('>c1d', record)
if state ~= 'a' and state ~= 's' and state ~= 'c' then foreign(KEYS[1]) end
if ends <= now then return {'g', now} end
if state ~= 'a' then return {state, now} end
ends = now + tonumber(ARGV[2])
for i = 2, #KEYS do
  if type(try('ZSCORE', KEYS[i], '')) == 'table' then foreign(KEYS[i]) end
end
for i = 2, #KEYS do
  call('ZADD', KEYS[i], 'XX', ends, member_of(ARGV[3], tonumber(ARGV[2 + i])))
  if call('EXISTS', KEYS[i]) == 1 then outlive(KEYS[i]) end
end
put(KEYS[1], pack('>c1d', 'a', ends) .. record:sub(10), ends)
return {'a', now}
)lua";

std::string joined(std::string_view body) {
  std::string text(kCommon);
  text += body;
  return text;
}

}  // namespace

std::string_view decide_script() {
  static const std::string text = joined(kDecide);
  return text;
}

std::string_view end_script() {
  static const std::string text = joined(kEnd);
  return text;
}

std::string_view renew_script() {
  static const std::string text = joined(kRenew);
  return text;
}

}  // namespace weir::store::redis
