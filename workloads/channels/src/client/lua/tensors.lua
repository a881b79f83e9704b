-- Tensors are strings of little-endian f32; Lua has only f64.

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

-- The mean of the tensors at KEYS[first] and behind it, in order.
local function mean(first)
  local sum, refusal = fetched(KEYS[first])
  if not sum then return nil, refusal end
  for i = first + 1, #KEYS do
    local values, unsuited = fetched(KEYS[i], sum)
    if not values then return nil, unsuited end
    for j = 1, #sum do sum[j] = sum[j] + values[j] end
  end
  local count = #KEYS - first + 1
  for j = 1, #sum do sum[j] = sum[j] / count end
  return sum
end

