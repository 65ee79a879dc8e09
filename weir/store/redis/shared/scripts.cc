#include "weir/store/redis/shared/scripts.h"

#include <string>

#include "weir/store/redis/shared/lua.h"

namespace weir::store::redis {
namespace {

constexpr std::string_view kDecide = R"lua(
local charging = ARGV[2] == 'c'

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
    if passes and (a > 0 or b > 0) then after[i] = {kind, key, at, parts, c} end
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
    local since, n = read_window(key, b, c, bounds)
    x, y = since, n
    since, n = current_window(since, n, c, bounds)
    passes = a == 0 or n + a <= b
    if passes and a > 0 then after[i] = {'w', key, since, n + a, c, bounds} end
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
    local total, n, ended = read_slots(key)
    if not total then total = lost(c) and b or 0 end
    x, y = total, 0
    passes = a == 0 or total + a <= b
    if passes and a > 0 then
      after[i] = {kind, key, total, n, ended, a}
    elseif ended > 0 then
      after[i] = {'S', key, total, n, ended}
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
    if m and (m[1] == 'S' or m[1] == 's' and m[5] > 0) then
      put_slots(m[2], m[3], holds_in(m[2], m[5], m[4]), '', '')
    end
  end
  return reply
end

for i = 1, count do
  local m = after[i]
  if m then
    local kind, key = m[1], m[2]
    if kind == 'b' then
      put_bucket(key, m[3], m[4], m[5])
    elseif kind == 't' or kind == 'T' then
      put_ticker(key, m[3], m[4], m[5], m[6], m[7], m[8])
    elseif kind == 'w' then
      stamps[i] = m[3]
      put_window(key, m[3], m[4], m[5], m[6])
    elseif kind == 'l' then
      stamps[i] = stamp_of(m[6])
      put_log(key, m[3], with_units(m[4], stamps[i], m[7]), m[5])
    elseif kind == 's' then
      local n, ended, units = m[4], m[5], m[6]
      local place = place_after(key, ended, n, ends)
      put_slots(key, m[3] + units, holds_in(key, ended, place), pack('>I7I7', ends, units) .. hold,
                holds_in(key, place, n))
    else
      put_slots(key, m[3], holds_in(key, m[5], m[4]), '', '')
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

// The same as kDecide for the most common kinds of request, without its functions, which are
// made anew at each call. Whole numbers are handed to commands as text, because a number would
// be printed with 17 digits. A missing key is looked at once more, because MGET says of a value
// of another type that it is missing. What kBuckets cannot decide, for whomever, it leaves to
// kDecide, for each by itself.
constexpr std::string_view kOneBucket = R"lua(
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
)lua";

constexpr std::string_view kBuckets = R"lua(
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
)lua";

}  // namespace

std::string_view decide_script() {
  static const std::string text = with_epoch(kDecide);
  return text;
}

std::string_view one_bucket_script() { return kOneBucket; }

std::string_view buckets_script() { return kBuckets; }

}  // namespace weir::store::redis
