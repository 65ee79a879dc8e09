// What the scripts of a model's books begin with.
//
// Lua has only doubles. Every number here is whole and below 2^53: times are microseconds
// (2^53 of them end in the year 2255), limits end at 10^15, what one job uses at 10^12, and
// sums are cut at 2^53 - 1, which also stands for no limit.
//
// A script's time goes into calls and into turning numbers to text and back, so the numbers of
// the books are one field, `state`: twenty doubles, in the order of PoolTotals' reader. It is
// also what scripts answer, after a letter for the code and one more.
//
// Internal to this folder.
//
// Thread safety: none needed. Texts and a pure function.

#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace weir::store::redis {

inline constexpr std::string_view kPoolTime = R"lua(
local books = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
)lua";

// The books for scripts that run seldom: `b` has the numbers of the state by name.
inline constexpr std::string_view kPoolBooks = R"lua(
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

inline std::string joined(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text.append(part);
  return text;
}

}  // namespace weir::store::redis
