-- include leases.lua

-- Gives drawn units back. Nothing happens if the data is not the same any more, or the lease has
-- ended.
--   KEYS   epoch, the limit, its record of leases; of a bucket or ticker what is
--          known of its ebbs
--   ARGV   now, the first 16 bytes of the epoch in which they were drawn, a blob of no cost, what
--          goes back, the id of the server, what it holds still, the end of its lease, the number
--          of this message
--   reply  1, or 0: too late

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
