-- What the published SPIRT function does with a list of gradients: decode, add,
-- divide by the number found, encode. KEYS: the list. ARGV: how many items.
local texts = redis.call('LRANGE', KEYS[1], 0, math.max(ARGV[1] - 1, 0))
if #texts == 0 then
  return redis.error_reply('ERR no such key ' .. cjson.encode(KEYS[1]))
end
if tonumber(ARGV[1]) < 1 then
  return redis.error_reply('ERR failed to combine tensors: no texts to average')
end
local sum = cjson.decode(texts[1])
for i = 2, #texts do
  local values = cjson.decode(texts[i])
  if #values ~= #sum then
    return redis.error_reply('ERR failed to combine tensors: item ' .. i .. ' has '
      .. #values .. ' elements instead of ' .. #sum)
  end
  for j = 1, #sum do sum[j] = sum[j] + values[j] end
end
for j = 1, #sum do sum[j] = sum[j] / #texts end
if #sum == 0 then return '[]' end
return cjson.encode(sum)
