-- KEYS: the tensor. ARGV: what to add.
local values, refusal = unpacked(ARGV[1])
if not values then return refusal end
if redis.call('EXISTS', KEYS[1]) == 0 then
  return redis.call('SET', KEYS[1], ARGV[1])
end
local sum, unsuited = fetched(KEYS[1], values)
if not sum then return unsuited end
for j = 1, #sum do sum[j] = sum[j] + values[j] end
return redis.call('SET', KEYS[1], packed(sum))
