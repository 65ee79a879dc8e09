-- include meters.lua

-- Which data this is, and whether some was lost. A script that uses this writes `epoch_after`, if
-- it is not `epoch`, once nothing can fail any more.
--   KEYS[1]  the epoch
--   ARGV[3]  the epoch as last seen
--   ARGV[4]  the id of a fresh epoch

local epoch = read(KEYS[1])
local seen = ARGV[3]
local epoch_after = epoch
if not epoch then
  epoch_after = ARGV[4] .. ':' .. (seen == '' and '0' or string.format('%.0f', now))
elseif epoch ~= seen then
  if #epoch > 33 or not epoch:find('^:%d+$', 17) then foreign(KEYS[1]) end
  if seen ~= '' and epoch:sub(1, 16) ~= seen:sub(1, 16) and epoch:sub(18) == '0' then
    epoch_after = epoch:sub(1, 17) .. string.format('%.0f', now)
  end
end
lost_at = loss_in(epoch_after)
