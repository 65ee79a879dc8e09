-- For wrk: POST /v1/acquire for one of 100,000 clients at random, made beforehand.
local requests = {}
function init()
  for i = 1, 100000 do
    local body = '{"attributes":{"client":"' .. string.format('%012d', i) .. '"}}'
    requests[i] = wrk.format('POST', '/v1/acquire', {['Content-Type'] = 'application/json'}, body)
  end
end
function request() return requests[math.random(100000)] end
