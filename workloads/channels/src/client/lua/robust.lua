
-- The sources, their number and length, and the two settings of the rule.
local vectors, count, n, first, second = {}

local function mean_of(ranks)
  table.sort(ranks)
  local mean = {}
  for j = 1, n do
    local sum = 0
    for _, rank in ipairs(ranks) do sum = sum + vectors[rank][j] end
    mean[j] = sum / #ranks
  end
  return mean
end

-- A distance that is not a number is infinite.
local function squared_distance(a, b)
  local sum = 0
  for j = 1, n do
    local difference = a[j] - b[j]
    sum = sum + difference * difference
  end
  if sum ~= sum then return math.huge end
  return sum
end

local function squared_distances()
  local distances = {}
  for i = 1, count do distances[i] = { [i] = 0 } end
  for i = 1, count do
    for k = i + 1, count do
      local distance = squared_distance(vectors[i], vectors[k])
      distances[i][k], distances[k][i] = distance, distance
    end
  end
  return distances
end

-- All ranks, those of the smallest value first, and by rank where these are equal.
local function ranked(values)
  local ranks = {}
  for rank = 1, count do ranks[rank] = rank end
  table.sort(ranks, function(a, b)
    if values[a] ~= values[b] then return values[a] < values[b] end
    return a < b
  end)
  return ranks
end

local function first_of(ranks, kept)
  local found = {}
  for i = 1, kept do found[i] = ranks[i] end
  return found
end

local function mixed(faulty)
  if 2 * faulty >= count then
    return nil, refused('mixing needs more than ' .. 2 * faulty .. ' vectors')
  end
  local distances, all = squared_distances(), {}
  for i = 1, count do all[i] = mean_of(first_of(ranked(distances[i]), count - faulty)) end
  return all
end

-- Krum's ranks, the lowest score first.
local function krum(faulty)
  if 2 * faulty + 2 >= count then
    return nil, refused('Krum needs more than ' .. 2 * faulty + 2 .. ' vectors')
  end
  local distances, scores = squared_distances(), {}
  for i = 1, count do
    local others = {}
    for k = 1, count do
      if k ~= i then others[#others + 1] = distances[i][k] end
    end
    table.sort(others)
    scores[i] = 0
    for k = 1, count - faulty - 2 do scores[i] = scores[i] + others[k] end
  end
  return ranked(scores)
end

-- The values of a coordinate in order; what is not a number is last, whatever its sign.
local function column(j)
  local values = {}
  for i = 1, count do values[i] = vectors[i][j] end
  table.sort(values, function(a, b)
    return a < b or (a == a and b ~= b)
  end)
  return values
end

local rules = {}

function rules.MEDIAN()
  local low, high, median = math.floor((count + 1) / 2), math.floor(count / 2) + 1, {}
  for j = 1, n do
    local values = column(j)
    median[j] = (values[low] + values[high]) / 2
  end
  return median
end

function rules.TRIMMED()
  if 2 * first >= count then
    return nil, refused('trimming ' .. first .. ' at each end leaves no vector')
  end
  local mean = {}
  for j = 1, n do
    local values, sum = column(j), 0
    for i = first + 1, count - first do sum = sum + values[i] end
    mean[j] = sum / (count - 2 * first)
  end
  return mean
end

function rules.KRUM()
  local ranks, refusal = krum(first)
  if not ranks then return nil, refusal end
  return vectors[ranks[1]]
end

function rules.MULTIKRUM()
  local ranks, refusal = krum(first)
  if not ranks then return nil, refusal end
  if second < 1 or second > count - first then
    return nil, refused('Multi-Krum cannot keep ' .. second .. ' vectors')
  end
  return mean_of(first_of(ranks, second))
end

local function unusable(iterations, size)
  if iterations < 1 or iterations > 1000 then
    return refused('the number of iterations is not from 1 to 1000')
  end
  if size <= 0 then return refused('the smoothing or radius is not positive') end
end

function rules.GEOMETRIC()
  local refusal = unusable(first, second)
  if refusal then return nil, refusal end
  local centre = {}
  for j = 1, n do centre[j] = 0 end
  for _ = 1, first do
    local total, sums = 0, {}
    for j = 1, n do sums[j] = 0 end
    for i = 1, count do
      local distance = math.sqrt(squared_distance(centre, vectors[i]))
      if distance < math.huge then
        local weight = 1 / math.max(second, distance)
        total = total + weight
        for j = 1, n do sums[j] = sums[j] + weight * vectors[i][j] end
      end
    end
    if total == 0 then return nil, refused('no vector is finite') end
    for j = 1, n do centre[j] = sums[j] / total end
  end
  return centre
end

function rules.CLIPPED()
  local refusal = unusable(second, first)
  if refusal then return nil, refusal end
  local centre = {}
  if redis.call('EXISTS', target) == 1 then
    local unsuited
    centre, unsuited = fetched(target, vectors[1])
    if not centre then return nil, unsuited end
  else
    for j = 1, n do centre[j] = 0 end
  end
  for _ = 1, second do
    local moved = {}
    for j = 1, n do moved[j] = 0 end
    for i = 1, count do
      local distance = math.sqrt(squared_distance(centre, vectors[i]))
      if distance < math.huge then
        local factor = distance > first and first / distance or 1
        for j = 1, n do moved[j] = moved[j] + factor * (vectors[i][j] - centre[j]) end
      end
    end
    for j = 1, n do centre[j] = centre[j] + moved[j] / count end
  end
  return centre
end

-- Settings: MIXED and the vectors to survive, if sources are mixed; the rule and its settings.
commands['TENSOR.ROBUST'] = function()
  for i = first_source, #KEYS do
    local values, unsuited = fetched(KEYS[i], vectors[1])
    if not values then return unsuited end
    vectors[#vectors + 1] = values
  end
  count, n = #vectors, #vectors[1]
  local rule = 2
  if ARGV[rule] == 'MIXED' then
    local all, refusal = mixed(tonumber(ARGV[3]))
    if not all then return refusal end
    vectors, rule = all, 4
  end
  first, second = tonumber(ARGV[rule + 1]), tonumber(ARGV[rule + 2])
  local result, refusal = rules[ARGV[rule]]()
  if not result then return refusal end
  return redis.call('SET', target, packed(result))
end

return commands[ARGV[1]]()
