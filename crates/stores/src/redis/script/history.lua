-- The history of used permits: Lua implementation of `ring.rs`.

-- The k-th latest permit; the latest is the first.
local function ring_back(budget, k)
  local at = #budget.g - 8 * k + 1
  if k < 1 or at < 1 then return nil end
  return (read('<I8', budget.g, at))
end

local function ring_push(budget, instants, weight)
  if budget.cap == 0 then return end
  local latest, permits = ring_back(budget, 1) or 0, {}
  for index, at in ipairs(instants) do
    if at > latest then latest = at end
    permits[index] = struct.pack('<I8', latest)
    if weight > 1 then permits[index] = string.rep(permits[index], math.min(weight, budget.cap)) end
  end
  budget.g = string.sub(budget.g .. table.concat(permits), -8 * budget.cap)
end

local function ring_take_back(budget, at, weight)
  local later = 0
  while (ring_back(budget, later + 1) or 0) > at do later = later + 1 end
  local taken = 0
  while taken < weight and ring_back(budget, later + taken + 1) == at do taken = taken + 1 end
  local cut = #budget.g - 8 * later
  budget.g = string.sub(budget.g, 1, cut - 8 * taken) .. string.sub(budget.g, cut + 1)
end

-- Buckets are counted from one, the oldest.
local function bucket(coarse, index)
  local latest, count = read('<I8I8', coarse.b, index * 16 - 15)
  return latest, count
end

local function buckets(coarse)
  return #coarse.b / 16
end

local function coarse_back(coarse, k)
  local rank = coarse.t + 1 - k
  if rank <= 0 then return nil end
  local seen = 0
  for index = 1, buckets(coarse) do
    local latest, count = bucket(coarse, index)
    seen = seen + count
    if seen >= rank then return latest end
  end
  return nil
end

local function coarse_push(coarse, instants, weight)
  -- The buckets that are there, those that are added, and the last one, which is being filled.
  local from, to, added, first = 1, #coarse.b - 16, {}, 1
  local latest, filling = 0, 0
  if to >= 0 then latest, filling = bucket(coarse, buckets(coarse)) end
  for _, at in ipairs(instants) do
    while filling > 0 do
      local leaves, count
      if from <= to then
        leaves, count = read('<I8I8', coarse.b, from)
      elseif added[first] then
        leaves, count = read('<I8I8', added[first])
      else
        leaves, count = latest, filling
      end
      if leaves + coarse.w > at then break end
      coarse.t = coarse.t - count
      if from <= to then
        from = from + 16
      elseif added[first] then
        first = first + 1
      else
        filling = 0
      end
    end
    coarse.t = coarse.t + weight
    if filling > 0 and filling < coarse.s then
      latest, filling = math.max(latest, at), filling + weight
    else
      if filling > 0 then
        added[#added + 1] = struct.pack('<I8I8', latest, filling)
        at = math.max(latest, at)
      end
      latest, filling = at, weight
    end
  end
  local kept = string.sub(coarse.b, from, math.max(to, 0))
  coarse.b = kept .. table.concat(added, '', first) .. struct.pack('<I8I8', latest, filling)
end

local function coarse_take_back(coarse, at, weight)
  for index = 1, buckets(coarse) do
    local latest, count = bucket(coarse, index)
    if latest >= at then
      local taken = math.min(count, weight)
      coarse.t = coarse.t - taken
      local left = count > taken and struct.pack('<I8I8', latest, count - taken) or ''
      coarse.b = string.sub(coarse.b, 1, index * 16 - 16) .. left .. string.sub(coarse.b, index * 16 + 1)
      return
    end
  end
end
