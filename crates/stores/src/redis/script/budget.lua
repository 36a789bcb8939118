-- Budgets: twin of `budget.rs`.

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

local function remember(budget, windows)
  local keep = 0
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

local function hold(budget, id, at, weight, expires)
  if weight == 0 then return end
  local place = 1
  while budget.t[place] and budget.t[place].a <= at do place = place + 1 end
  table.insert(budget.t, place, { i = id, a = at, w = weight, x = expires })
end

local function release(list, id)
  local found = false
  for place = #list, 1, -1 do
    if list[place].i == id then
      table.remove(list, place)
      found = true
    end
  end
  return found
end

local function drop_expired(list)
  for place = #list, 1, -1 do
    if list[place].x <= now then table.remove(list, place) end
  end
end

local function expire(budget)
  local place = 1
  while budget.t[place] do
    local ticket = budget.t[place]
    if ticket.x <= now then
      table.remove(budget.t, place)
      if ticket.s then spend(budget, ticket.w, ticket.x) end
    else
      place = place + 1
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

local function back_at(budget, window, k, at)
  for place = #budget.t, 1, -1 do
    local ticket = budget.t[place]
    if ticket.a <= at then
      if k <= ticket.w then return math.max(ticket.a, now) end
      k = k - ticket.w
    end
  end
  return used_back(budget, window, k)
end

local function fit_window(budget, window, width, weight, ahead, from)
  local last = ahead + weight - 1
  local turns = math.floor(last / window.limit)
  local k = window.limit - last % window.limit
  local at = from
  while true do
    local grant = back_at(budget, window, k, at)
    if grant and grant + width > at then
      at = grant + width
    else
      local crowded = nil
      for _, ticket in ipairs(budget.t) do
        if ticket.a > at and ticket.a < at + width then
          local before = back_at(budget, window, k, ticket.a)
          if before and before + width > ticket.a then
            crowded = ticket.a
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

-- Returns the first instant that fits, and the window that says so.
local function budget_fit(budget, charge, ahead, from)
  local at, because = from, nil
  if charge.weight == 0 then return at, nil end
  if #budget.t == 0 and budget.m == 1000 and not ahead then
    for _, window in ipairs(charge.windows) do
      local grant = used_back(budget, window, window.limit + 1 - charge.weight)
      if grant and grant + window.width > at then at, because = grant + window.width, window end
    end
    return at, because
  end
  while true do
    local before = at
    for _, window in ipairs(charge.windows) do
      local start = ahead and from or at
      local fit = fit_window(budget, window, width_of(budget, window), charge.weight, ahead or 0, start)
      if fit > at then at, because = fit, window end
    end
    if at == before or #budget.t == 0 or ahead then return at, because end
  end
end

-- Returns the turn behind everybody who waits for one within COURTESY of now, and a window that it is for.
local function turn_behind(budget, windows)
  local last = nil
  for _, ticket in ipairs(budget.t) do
    if not ticket.s and ticket.a <= now + COURTESY and ticket.a + COURTESY > now then last = ticket end
  end
  if not last then return nil end
  for _, window in ipairs(windows) do
    if width_of(budget, window) < 4 * TURN * window.limit then return nil end
  end
  if not windows[1] then return nil end
  return math.max(last.a, now) + TURN, windows[1]
end
