-- KEYS: parameters, velocity, sources. ARGV: learning rate, momentum, weight decay.
local rate, momentum, decay = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local step, refusal = mean(3)
if not step then return refusal end
local parameters, unsuited = fetched(KEYS[1], step)
if not parameters then return unsuited end
for j = 1, #step do step[j] = step[j] + decay * parameters[j] end
if momentum ~= 0 then
  if redis.call('EXISTS', KEYS[2]) == 1 then
    local velocity, misfit = fetched(KEYS[2], step)
    if not velocity then return misfit end
    for j = 1, #step do step[j] = momentum * velocity[j] + step[j] end
  end
  redis.call('SET', KEYS[2], packed(step))
end
for j = 1, #step do parameters[j] = parameters[j] - rate * step[j] end
return redis.call('SET', KEYS[1], packed(parameters))
