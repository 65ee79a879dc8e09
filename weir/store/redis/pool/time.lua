-- What every script of a model's books begins with.
--   KEYS[1]  the books

local books = KEYS[1]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
