-- Budgets: Lua implementation of `budget.rs`.

local function budget_of(name)
  local budget = site.u[name]
  if not budget then
    budget = { cap = 0, g = '', c = {}, t = {}, s = {}, m = 1000, w = {} }
    site.u[name] = budget
  end
  return budget
end

local function coarse_of(budget, window)
  for _, coarse in ipairs(budget.c) do
    if coarse.l == window.limit and coarse.p == window.per then return coarse end
  end
  return nil
end

local function remember(budget, windows, spacings)
  local keep = 0
  for _, spacing in ipairs(spacings) do keep = math.max(keep, spacing.limit) end
  for _, window in ipairs(windows) do
    if window.limit <= EXACT_LIMIT then
      keep = math.max(keep, window.limit)
    else
      local coarse = coarse_of(budget, window)
      if coarse then
        coarse.w = math.max(coarse.w, window.width)
      else
        local share = math.ceil(window.limit / COARSE_BUCKETS)
        budget.c[#budget.c + 1] = { l = window.limit, p = window.per, w = window.width, s = share, t = 0, b = '' }
      end
    end
  end
  budget.cap = math.max(budget.cap, keep)
end

local function spend_all(budget, weight, instants)
  if weight == 0 then return end
  ring_push(budget, instants, weight)
  for _, coarse in ipairs(budget.c) do coarse_push(coarse, instants, weight) end
end

local function spend(budget, weight, at)
  spend_all(budget, weight, { at })
end

local function take_back(budget, weight, at)
  ring_take_back(budget, at, weight)
  for _, coarse in ipairs(budget.c) do coarse_take_back(coarse, at, weight) end
end

-- Makes a reservation (i holder, p position, a instant, w weight, x expiry, s sent), or moves the one
-- that its holder has.
local function reserve(budget, reservation)
  for index, existing in ipairs(budget.t) do
    if existing.i == reservation.i then
      budget.t[index] = reservation
      return
    end
  end
  table.insert(budget.t, reservation)
end

-- Returns the reservation under which a holder waits.
local function waiting(budget, id)
  for _, existing in ipairs(budget.t) do
    if existing.i == id and not existing.s then return existing end
  end
  return nil
end

local function release(list, id)
  local found = false
  for index = #list, 1, -1 do
    if list[index].i == id then
      table.remove(list, index)
      found = true
    end
  end
  return found
end

local function drop_expired(list)
  for index = #list, 1, -1 do
    if list[index].x <= now then table.remove(list, index) end
  end
end

local function expire(budget)
  local index = 1
  while budget.t[index] do
    local existing = budget.t[index]
    if existing.x <= now then
      table.remove(budget.t, index)
      if existing.s then spend(budget, existing.w, existing.x) end
    else
      index = index + 1
    end
  end
  drop_expired(budget.s)
  if budget.m ~= 1000 and (not budget.y or budget.y.s + FORGET_RATE <= now) then
    budget.m, budget.y = 1000, nil
  end
end

local function used_back(budget, window, k)
  if window.limit <= EXACT_LIMIT then return ring_back(budget, k) end
  local coarse = coarse_of(budget, window)
  return coarse and coarse_back(coarse, k)
end

local function back_at(budget, window, k, counted, at)
  for index = #counted, 1, -1 do
    local use = counted[index]
    if use.a <= at then
      if k <= use.w then return use.a end
      k = k - use.w
    end
  end
  return used_back(budget, window, k)
end

local function fit_window(budget, window, width, weight, ahead, counted, from)
  local last = ahead + weight - 1
  local turns = math.floor(last / window.limit)
  local k = window.limit - last % window.limit
  local at = from
  while true do
    local used = back_at(budget, window, k, counted, at)
    if used and used + width > at then
      at = used + width
    else
      local crowded = nil
      for _, use in ipairs(counted) do
        if use.a > at and use.a < at + width then
          local before = back_at(budget, window, k, counted, use.a)
          if before and before + width > use.a then
            crowded = use.a
            break
          end
        end
      end
      if not crowded then return at + width * turns end
      at = crowded
    end
  end
end

local function width_of(budget, window)
  if budget.m == 1000 or window.per > PACING then return window.width end
  return math.floor(window.per * 1000 / budget.m) + window.guard
end

-- Returns whether a spacing holds: where it spreads a long window, while the backlog exceeds what that
-- window has left. `pace` is the backlog, or nil for a request that goes by the windows alone.
local function holds(budget, windows, spacing, pace, from)
  if not pace then return false end
  if spacing.spread == 0 then return true end
  local window = windows[spacing.spread]
  if pace > window.limit then return true end
  local used = pace > 0 and used_back(budget, window, window.limit + 1 - pace)
  return used and used + window.width > from
end

-- Returns the weight and width with which a request counts in a spacing window.
local function spaced_weight(spacing, width, weight)
  if weight <= spacing.limit then return weight, width end
  return spacing.limit, width + math.floor(width * (weight - spacing.limit) / spacing.limit)
end

-- Returns the first instant that fits beside what is counted, and the window that says so.
local function budget_fit(budget, cost, weight, ahead, counted, from, pace)
  local windows = cost.windows
  local at, because = from, nil
  if weight == 0 then return at, nil end
  if #counted == 0 and budget.m == 1000 and not ahead then
    for _, window in ipairs(windows) do
      local used = used_back(budget, window, window.limit + 1 - weight)
      if used and used + window.width > at then at, because = used + window.width, window end
    end
    for _, spacing in ipairs(cost.spacings) do
      if holds(budget, windows, spacing, pace, from) then
        local counts, width = spaced_weight(spacing, spacing.width, weight)
        local used = ring_back(budget, spacing.limit + 1 - counts)
        if used and used + width > at then at, because = used + width, spacing end
      end
    end
    return at, because
  end
  while true do
    local before = at
    for _, window in ipairs(windows) do
      local start = ahead and from or at
      local fit = fit_window(budget, window, width_of(budget, window), weight, ahead or 0, counted, start)
      if fit > at then at, because = fit, window end
    end
    for _, spacing in ipairs(cost.spacings) do
      if holds(budget, windows, spacing, pace, from) then
        local counts, width = math.min(weight, spacing.limit), width_of(budget, spacing)
        if not ahead then counts, width = spaced_weight(spacing, width, weight) end
        local fit = fit_window(budget, spacing, width, counts, ahead or 0, counted, ahead and from or at)
        if fit > at then at, because = fit, spacing end
      end
    end
    if at == before or #counted == 0 or ahead then return at, because end
  end
end

-- Returns the turn behind the requests that are due, or will be within a turn, and its window.
local function turn_behind(budget, windows)
  local turn, last = nil, nil
  for _, window in ipairs(windows) do
    local of_window = math.floor(width_of(budget, window) / (4 * window.limit))
    if not turn or of_window < turn then turn = of_window end
  end
  if not turn or turn < SHORTEST_TURN then return nil end
  turn = math.min(turn, LONGEST_TURN)
  for _, existing in ipairs(budget.t) do
    local near = not existing.s and existing.w > 0 and existing.a <= now + turn
    if near and (not last or existing.a >= last.a) then last = existing end
  end
  if not last then return nil end
  return math.max(last.a, now) + turn, windows[1]
end
