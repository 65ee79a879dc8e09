#include "weir/store/redis/lease_scripts.h"

#include <string>

#include "weir/store/redis/shared_lua.h"

namespace weir::store::redis {
namespace {

constexpr std::string_view kDraw = R"lua(
local key = KEYS[2]
local first = 5
local kind, _, told, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[first])
local chosen, x, y, stamp = 0, 0, 0, now
local function amount(i)
  local _, _, units, parts = unpack('>c1c1dd', ARGV[first + i])
  return units, parts
end

if kind == 'b' then
  local at, parts = read_bucket(key, c, d, e)
  x, y = at, parts
  if at < now then at, parts = now, 0 end
  for i = 1, #ARGV - first do
    local us, rest = amount(i)
    local full, over_parts = at + us, parts + rest
    if over_parts >= e then full, over_parts = full + 1, over_parts - e end
    local over = full - c - now
    if (us == 0 and rest == 0) or over < 0 or (over == 0 and over_parts <= d) then
      chosen = i
      if us > 0 or rest > 0 then
        put_bucket(key, full, over_parts, c)
        x, y = full, over_parts
      end
      break
    end
  end
elseif kind == 't' then
  local tokens, last, fresh = read_ticker(key, b, c, d, e == 1)
  tokens, last = tick(tokens, last, b, c, d)
  local empty = e == 1
  for i = 1, #ARGV - first do
    local units = amount(i)
    if units == 0 or units <= tokens then
      chosen = i
      tokens = tokens - units
      if units > 0 then put_ticker(key, tokens, last, b, c, d, empty) end
      break
    end
  end
  if chosen == 0 and fresh and empty then put_ticker(key, tokens, last, b, c, d, true) end
  x, y = tokens, last
elseif kind == 'w' or kind == 'c' then
  local bounds = kind == 'c' and {c, d, e, f}
  local begin, n = read_window(key, b, c, bounds)
  local current, till = window(now, c, bounds)
  if current > begin then begin, n = current, 0 end
  for i = 1, #ARGV - first do
    local units = amount(i)
    if units == 0 or n + units <= b then
      chosen = i
      n = n + units
      if units > 0 then put_window(key, begin, n, c, bounds) end
      break
    end
  end
  x, y, stamp = begin, n, begin
else
  local value, held = read_log(key, b, c)
  local at, gone = forgotten(value, c)
  held = held - gone
  stamp = stamp_of(d)
  for i = 1, #ARGV - first do
    local units = amount(i)
    if units == 0 or held + units <= b then
      chosen = i
      if units > 0 then
        held = held + units
        put_log(key, held, with_units(value:sub(at), stamp, units), c)
      end
      break
    end
  end
  x, y = held, -1
  if chosen == 0 then y = freed_at(value, at, c, held + told - b) end
end
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {chosen, now, epoch_after == seen and '' or epoch_after, x, y, stamp}
)lua";

constexpr std::string_view kGiveBack = R"lua(
local epoch = read(KEYS[1])
if not epoch or epoch:sub(1, 16) ~= ARGV[2] then return 0 end
lost_at = loss_in(epoch)
local kind, _, a, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[3])
local after = given_back(kind, KEYS[2], tonumber(ARGV[4]), a, b, c, d, e, f)
if after then write(after) end
return 1
)lua";

}  // namespace

std::string_view draw_script() {
  static const std::string text = with_epoch(kDraw);
  return text;
}

std::string_view give_back_script() {
  static const std::string text = with_meters(kGiveBack);
  return text;
}

}  // namespace weir::store::redis
