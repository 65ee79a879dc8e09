-- include fleet.lua

-- Ends the registration of an instance.
-- ARGV: channel, registration; marker
local b, is_there = load()
if not is_there or b.marker ~= struct.unpack('<d', ARGV[3]) then return '5' end
if not redis.call('ZSCORE', leases, ARGV[2]) then return '3' end
forget(b, ARGV[2])
changed(b)
save(b)
return '0'
