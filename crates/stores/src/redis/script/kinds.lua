-- Kinds of questions, and the log of those that went at once.

-- Calls `visit` with each budget of a kind, and with each of its windows.
local function each(asked, visit)
  local costs, from = read('B', asked)
  for _ = 1, costs do
    local name, windows
    name, windows, from = read('<sB', asked, from)
    visit(site.u[name])
    for _ = 1, windows do
      local limit, per, guard
      limit, per, guard, from = read('<I4I8I8', asked, from)
      visit(site.u[name], { limit = limit, per = per, guard = guard, width = per + guard })
    end
  end
end

-- Folds the log into the snapshot.
local function fold()
  local kinds, spent = {}, {}
  for index, known in ipairs(site.q) do
    kinds[index] = {}
    each(known.a, function(budget, window)
      if window then return end
      spent[budget] = spent[budget] or {}
      table.insert(kinds[index], spent[budget])
    end)
  end
  for at = log + 1, #raw - (over and 8 or 0), 8 do
    local instant, index = read('<I7B', raw, at)
    for _, instants in ipairs(kinds[index + 1]) do instants[#instants + 1] = instant end
  end
  for budget, instants in pairs(spent) do
    if #instants > 0 then spend_all(budget, 1, instants) end
  end
end

-- Returns from when on questions of a kind may go at once, and how many in a row over all known kinds:
-- the permits that the last of them has to wait for have left every window by then.
local function plan(asked)
  local free, most = 0, (site.b.t or has_limits()) and 0 or LOGGED
  each(asked, function(budget, window)
    if not window then
      if #budget.t > 0 or budget.m ~= 1000 then most = 0 end
    elseif window.limit > EXACT_LIMIT then
      local coarse = coarse_of(budget, window)
      most = coarse and coarse.w >= window.width and math.max(0, math.min(most, window.limit - coarse.t)) or 0
    elseif budget.cap < window.limit then
      most = 0
    elseif most > 0 then
      local low, high = 1, math.min(most, window.limit)
      while low < high do
        local middle = math.ceil((low + high) / 2)
        local used = ring_back(budget, window.limit + 1 - middle)
        if not used or used + window.width <= now then low = middle else high = middle - 1 end
      end
      local used = ring_back(budget, window.limit + 1 - low)
      most, free = low, used and math.max(free, used + window.width) or free
    end
  end)
  return free, most
end

-- Remembers the kind of a question, the latest first.
local function know(asked)
  if not kind or site.q[1] and site.q[1].k == kind then return end
  for index, known in ipairs(site.q) do
    if known.k == kind then table.remove(site.q, index) end
  end
  table.insert(site.q, 1, { k = kind, a = asked })
  site.q[KINDS + 1] = nil
end
