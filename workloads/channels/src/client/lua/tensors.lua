-- KEYS: the target, its velocity, the sources in order; or a list alone. ARGV: the name of a command,
-- its settings or the value sent with it.
-- Tensors are strings of little-endian f32; Lua has only f64.

local target, velocity, first_source = KEYS[1], KEYS[2], 3

-- By its name, each command: it returns the reply.
local commands = {}

-- Values that are packed by one call: Lua's stack is small.
local PACKED = 100

local function refused(reason)
  return redis.error_reply('ERR failed to combine tensors: ' .. reason)
end

-- The elements of a tensor, or none and a refusal.
local function unpacked(bytes)
  if #bytes % 4 ~= 0 then
    return nil, refused(#bytes .. ' bytes are no multiple of 4')
  end
  local values, at = {}, 1
  for i = 1, #bytes / 4 do values[i], at = struct.unpack('<f', bytes, at) end
  return values
end

local function packed(values)
  local parts = {}
  for first = 1, #values, PACKED do
    local last = math.min(first + PACKED - 1, #values)
    local format = '<' .. string.rep('f', last - first + 1)
    parts[#parts + 1] = struct.pack(format, unpack(values, first, last))
  end
  return table.concat(parts)
end

-- The tensor at `key`, of as many elements as `like` if there is one; or none
-- and a refusal.
local function fetched(key, like)
  local bytes = redis.call('GET', key)
  if not bytes then
    return nil, redis.error_reply('ERR no such key ' .. cjson.encode(key))
  end
  local values, refusal = unpacked(bytes)
  if values and like and #values ~= #like then
    return nil, refused('the tensor at ' .. cjson.encode(key) .. ' has ' .. #values
      .. ' elements instead of ' .. #like)
  end
  return values, refusal
end

-- The mean of the sources, in order.
local function mean()
  local sum, refusal = fetched(KEYS[first_source])
  if not sum then return nil, refusal end
  for i = first_source + 1, #KEYS do
    local values, unsuited = fetched(KEYS[i], sum)
    if not values then return nil, unsuited end
    for j = 1, #sum do sum[j] = sum[j] + values[j] end
  end
  local count = #KEYS - first_source + 1
  for j = 1, #sum do sum[j] = sum[j] / count end
  return sum
end

commands['TENSOR.ACCUMULATE'] = function()
  local values, refusal = unpacked(ARGV[2])
  if not values then return refusal end
  if redis.call('EXISTS', target) == 0 then return redis.call('SET', target, ARGV[2]) end
  local sum, unsuited = fetched(target, values)
  if not sum then return unsuited end
  for j = 1, #sum do sum[j] = sum[j] + values[j] end
  return redis.call('SET', target, packed(sum))
end

commands['TENSOR.MEAN'] = function()
  local sum, refusal = mean()
  if not sum then return refusal end
  return redis.call('SET', target, packed(sum))
end

-- Settings: learning rate, momentum, weight decay.
commands['TENSOR.MEANSGD'] = function()
  local rate, momentum, decay = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
  local step, refusal = mean()
  if not step then return refusal end
  local parameters, unsuited = fetched(target, step)
  if not parameters then return unsuited end
  for j = 1, #step do step[j] = step[j] + decay * parameters[j] end
  if momentum ~= 0 then
    if redis.call('EXISTS', velocity) == 1 then
      local before, misfit = fetched(velocity, step)
      if not before then return misfit end
      for j = 1, #step do step[j] = momentum * before[j] + step[j] end
    end
    redis.call('SET', velocity, packed(step))
  end
  for j = 1, #step do parameters[j] = parameters[j] - rate * step[j] end
  return redis.call('SET', target, packed(parameters))
end

-- What the published SPIRT function does with a list of gradients: decode, add,
-- divide by the number found, encode. Setting: how many items.
commands['TENSOR.JSONMEAN'] = function()
  local texts = redis.call('LRANGE', KEYS[1], 0, math.max(ARGV[2] - 1, 0))
  if #texts == 0 then
    return redis.error_reply('ERR no such key ' .. cjson.encode(KEYS[1]))
  end
  if tonumber(ARGV[2]) < 1 then return refused('no texts to average') end
  local sum = cjson.decode(texts[1])
  for i = 2, #texts do
    local values = cjson.decode(texts[i])
    if #values ~= #sum then
      return refused('item ' .. i .. ' has ' .. #values .. ' elements instead of ' .. #sum)
    end
    for j = 1, #sum do sum[j] = sum[j] + values[j] end
  end
  for j = 1, #sum do sum[j] = sum[j] / #texts end
  if #sum == 0 then return '[]' end
  return cjson.encode(sum)
end
