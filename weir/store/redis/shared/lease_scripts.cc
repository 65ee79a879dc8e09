#include "weir/store/redis/shared/lease_scripts.h"

#include <string>

#include "weir/store/redis/shared/lua.h"

namespace weir::store::redis {
namespace {

// What servers hold of a limit, KEYS[3]: for each the end, its id, which message said it, how many
// parts, and for each part under which instant it was charged, and its amount.
constexpr std::string_view kLeases = R"lua(
local HEAD, PART = 31, 23
local function read_leases()
  local leases, value = {}, read(KEYS[3])
  if not value then return leases end
  local at, size = 2, #value
  if value:sub(1, 1) ~= 'd' then foreign(KEYS[3]) end
  while at <= size do
    if at + HEAD > size + 1 then foreign(KEYS[3]) end
    local ends, id, word, count, from = unpack('>I7c16I7B', value, at)
    at = from + count * PART
    if at > size + 1 then foreign(KEYS[3]) end
    leases[#leases + 1] = {ends = ends, id = id, word = word, parts = value:sub(from, at - 1)}
  end
  return leases
end

-- Gives parts back to the meter.
local function give_parts(parts, kind, b, c, d, e, f)
  for at = 1, #parts, PART do
    local stamp, units, rest = unpack('>I7dd', parts, at)
    local second = b
    if kind == 'b' then second = rest < e and rest or 0 end
    local after = given_back(kind, KEYS[2], stamp, units, second, c, d, e, f)
    if after then write(after) end
  end
end

-- Takes out the leases that have ended. Who let one end without a word has crashed or was out of
-- touch; what it held goes back.
local function end_leases(leases, kind, b, c, d, e, f)
  for i = #leases, 1, -1 do
    local lease = leases[i]
    if lease.ends <= now then
      give_parts(lease.parts, kind, b, c, d, e, f)
      leases.is_changed = true
      table.remove(leases, i)
    end
  end
end

local function lease_of(leases, id)
  for _, lease in ipairs(leases) do
    if lease.id == id then return lease end
  end
end

-- A meter in its initial state has everything back, so the record lives as long as the meter. Who
-- holds nothing any more stays in it until its end: an older message may be on its way.
local function put_leases(leases)
  if not leases.is_changed then return end
  local value, till, is_held = {'d'}, 0, false
  for _, lease in ipairs(leases) do
    value[#value + 1] = pack('>I7c16I7B', lease.ends, lease.id, lease.word, #lease.parts / PART)
    value[#value + 1] = lease.parts
    till = max(till, lease.ends)
    is_held = is_held or lease.parts ~= ''
  end
  local span = #leases > 0 and call('PTTL', KEYS[2]) or 0
  if not is_held then span = min(span, ceil((till - now) / 1000)) end
  if span > 0 then
    call('SET', KEYS[3], table.concat(value), 'PX', span)
  else
    call('DEL', KEYS[3])
  end
end
)lua";

constexpr std::string_view kDraw = R"lua(
local key = KEYS[2]
local kind, _, told, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[5])
local id, length, beside, amounts = ARGV[6], tonumber(ARGV[7]), ARGV[8], ARGV[9]
local word, drawn_from, till = tonumber(ARGV[10]), ARGV[11], tonumber(ARGV[12])
local leases = read_leases()
end_leases(leases, kind, b, c, d, e, f)
-- What has come back, now or before, or belongs to other data, is not kept.
if now >= till or drawn_from ~= epoch_after:sub(1, 16) then beside = '' end
local chosen, x, y, stamp = 0, 0, 0, now
local AMOUNT = 32
local count = #amounts / AMOUNT
local function amount(i)
  return unpack('>dd', amounts, 1 + (i - 1) * AMOUNT)
end

if kind == 'b' then
  local at, parts = read_bucket(key, c, d, e)
  x, y = at, parts
  if at < now then at, parts = now, 0 end
  for i = 1, count do
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
  for i = 1, count do
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
  local since, n = read_window(key, b, c, bounds)
  since, n = current_window(since, n, c, bounds)
  for i = 1, count do
    local units = amount(i)
    if units == 0 or n + units <= b then
      chosen = i
      n = n + units
      if units > 0 then put_window(key, since, n, c, bounds) end
      break
    end
  end
  x, y, stamp = since, n, since
else
  local value, held = read_log(key, b, c)
  local at, gone = forgotten(value, c)
  held = held - gone
  stamp = stamp_of(d)
  for i = 1, count do
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
local own = lease_of(leases, id) or {id = id, word = 0, parts = ''}
-- Who has spoken since has given up on this draw, and said what it holds without it.
if word > own.word then
  own.word, own.parts = word, beside
  if chosen > 0 then
    local units, parts = unpack('>dd', amounts, 17 + (chosen - 1) * AMOUNT)
    if units > 0 or parts > 0 then own.parts = pack('>I7dd', stamp, units, parts) .. beside end
  end
end
if own.parts ~= '' then
  if not own.ends then leases[#leases + 1] = own end
  own.ends = now + length
end
leases.is_changed = leases.is_changed or own.ends
put_leases(leases)
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {chosen, now, epoch_after == seen and '' or epoch_after, x, y, stamp}
)lua";

constexpr std::string_view kGiveBack = R"lua(
local epoch = read(KEYS[1])
if not epoch or epoch:sub(1, 16) ~= ARGV[2] then return 0 end
lost_at = loss_in(epoch)
local kind, _, _, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[3])
local id, held, till, word = ARGV[5], ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
local leases = read_leases()
end_leases(leases, kind, b, c, d, e, f)
local is_held = now < till
if is_held then
  give_parts(ARGV[4], kind, b, c, d, e, f)
  local own = lease_of(leases, id)
  if not own and held ~= '' then
    own = {id = id, word = 0, ends = till}
    leases[#leases + 1] = own
  end
  if own and word > own.word then
    own.word, own.parts, own.ends = word, held, max(own.ends, till)
    leases.is_changed = true
  end
end
put_leases(leases)
return is_held and 1 or 0
)lua";

}  // namespace

std::string_view draw_script() {
  static const std::string text = with_epoch(std::string(kLeases) + std::string(kDraw));
  return text;
}

std::string_view give_back_script() {
  static const std::string text = with_meters(std::string(kLeases) + std::string(kGiveBack));
  return text;
}

}  // namespace weir::store::redis
