-- KEYS: destination, sources.
local sum, refusal = mean(2)
if not sum then return refusal end
return redis.call('SET', KEYS[1], packed(sum))
