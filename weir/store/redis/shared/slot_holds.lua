-- include meters.lua

-- The holds that have slots of one key.
--   KEYS   the key
--   ARGV   now, how many at most
--   reply  30 bytes for each that has not ended, those that end first first: the end, the units, the
--          id

local _, n, ended = read_slots(KEYS[1])
return holds_in(KEYS[1], ended, min(n, ended + tonumber(ARGV[2])))
