-- include epoch.lua

-- Forgets what one key has used. Not for slots. Each kind is read first, so that no value of
-- another program is overwritten.
--   KEYS   epoch, the key, the record of its leases; of a bucket or ticker what is known of its ebbs
--   ARGV   now, nothing, the epoch as last seen, a fresh epoch, a blob of no cost
--   reply  now, the epoch if it is not as last seen, else ''

local key = KEYS[2]
local record = read(KEYS[3])
if record and record:sub(1, 1) ~= 'd' then foreign(KEYS[3]) end
local kind, _, _, b, c, d, e, f = unpack('>c1c1dddddd', ARGV[5])
if kind == 'b' then
  read_bucket(key, c, d, e)
  put_bucket(key, now, 0, c)
elseif kind == 't' then
  local empty = e == 1
  read_ticker(key, b, c, d, empty)
  if empty then
    put_ticker(key, 0, now, b, c, d, true)
  else
    put_ticker(key, b, now - now % c, b, c, d, false)
  end
elseif kind == 'l' then
  read_log(key, b, c)
  put_log(key, 0, '', c)
else
  local bounds = kind == 'c' and {c, d, e, f}
  read_window(key, b, c, bounds)
  put_window(key, now, 0, c, bounds)
end
-- What servers have drawn before does not come back.
if record then call('DEL', KEYS[3]) end
-- Nor does what was charged to holds before.
if KEYS[4] then call('DEL', KEYS[4]) end
if epoch_after ~= epoch then call('SET', KEYS[1], epoch_after) end
return {now, epoch_after == seen and '' or epoch_after}
