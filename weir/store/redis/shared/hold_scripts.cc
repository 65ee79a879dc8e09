// The scripts that end and renew holds.

#include <string>

#include "weir/store/redis/shared/lua.h"
#include "weir/store/redis/shared/scripts.h"

namespace weir::store::redis {
namespace {

constexpr std::string_view kEnd = R"lua(
lost_at = loss_in(ARGV[3])
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
  if kind == 's' then
    local total, n, ended = read_slots(key)
    local place, units = find_hold(key, ended, n, ends, hold)
    if place then after[i] = {kind, key, total - units, n, ended, place} end
  elseif sign == '+' then
    after[i] = given_back(kind, key, stamp, a, b, c, d, e, f)
  elseif kind == 'b' then
    local at, parts = read_bucket(key, c, d, e)
    if at < now then at, parts = now, 0 end
    at = at + a
    parts = parts + b
    if parts >= e then
      parts = parts - e
      at = at + 1
    end
    after[i] = {kind, key, min(at, EXACT - 1), parts, c}
  elseif kind == 't' then
    local tokens, last = read_ticker(key, b, c, d, e == 1)
    tokens, last = tick(tokens, last, b, c, d)
    after[i] = {kind, key, max(tokens - a, -4503599627370496), last, b, c, d, e == 1}
  elseif kind == 'l' then
    local value, held = read_log(key, b, c)
    local at, gone = forgotten(value, c)
    held = held - gone
    local units = min(a, EXACT - held)
    after[i] = {kind, key, held + units, with_units(value:sub(at), stamp_of(d), units), c}
  else
    local bounds = kind == 'c' and {c, d, e, f}
    local since, n = read_window(key, b, c, bounds)
    since, n = current_window(since, n, c, bounds)
    after[i] = {'w', key, since, min(n + a, EXACT), c, bounds}
  end
end

for _, m in pairs(after) do
  if m[1] == 's' then
    put_slots(m[2], m[3], holds_in(m[2], m[5], m[6]), '', holds_in(m[2], m[6] + 1, m[4]))
  else
    write(m)
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
