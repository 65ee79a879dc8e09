// The scripts that end and renew holds.

#include <string>

#include "weir/store/redis/shared_lua.h"
#include "weir/store/redis/shared_scripts.h"

namespace weir::store::redis {
namespace {

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
    local total, n, ended = read_slots(key)
    local place, units = find_hold(key, ended, n, ends, hold)
    if place then after[i] = {kind, key, total - units, n, ended, place} end
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
    put_slots(key, m[3], holds_in(key, m[5], m[6]), '', holds_in(key, m[6] + 1, m[4]))
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
local till = now + tonumber(ARGV[2])
local hold = ARGV[3]
local after = {}
for i = 2, #KEYS do
  local key = KEYS[i]
  local total, n, ended = read_slots(key)
  local from, units = find_hold(key, ended, n, ends, hold)
  if from then
    local to = place_after(key, ended, n, till)
    local before, behind
    if to > from then
      before = holds_in(key, ended, from) .. holds_in(key, from + 1, to)
      behind = holds_in(key, to, n)
    else
      before = holds_in(key, ended, to)
      behind = holds_in(key, to, from) .. holds_in(key, from + 1, n)
    end
    after[i] = {total, before, pack('>I7I7', till, units) .. hold, behind}
  end
end
for i, m in pairs(after) do put_slots(KEYS[i], m[1], m[2], m[3], m[4]) end
put(KEYS[1], pack('>c1d', 'a', till) .. record:sub(10), till)
return {'a', now}
)lua";

}  // namespace

std::string_view end_script() {
  static const std::string text = with_meters(kEnd);
  return text;
}

std::string_view renew_script() {
  static const std::string text = with_meters(kRenew);
  return text;
}

}  // namespace weir::store::redis
