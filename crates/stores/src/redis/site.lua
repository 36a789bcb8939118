-- One step on the state of a site, atomically: the twin of `docstokg_policy::site::Site`.
--
-- Times are whole microseconds of the server's clock; what callers send and get are lengths of time. The functions bear
-- the names of those in Rust and do the same in the same order: a property test runs both side by side.
--
-- KEYS[1] is the whole state, one string of three parts:
--   the HEAD of 76 bytes: layout, day, clean, era, where the log begins; and for each of four KINDS of question (the same
--   budgets under the same windows): its name, from when on it may go at once, and how often before the log is folded;
--   the PAGE: everything as it was once, as MessagePack. The history of a budget is a string in it, eight bytes a grant,
--   oldest first; that of each large window another one, of buckets of sixteen bytes;
--   the LOG: what has gone since, eight bytes each: instant and kind.
-- An `enter` of a kind that may go at once reads the head and adds to the log. Every other step folds the log into the
-- page. The first layout was a page alone: it is read, and written as this one.
--
-- ARGV[1] is the question, packed as `wire.rs` packs it; ARGV[2] the step, if it is not `enter`; ARGV[3] the time to go by,
-- or -1 for the server's; what else the step needs follows.
--
-- The server hashes every string that a script touches and formats every number that it is given: what is short is fast.

local LAYOUT, DAY = 2, 86400000000
local key, question, call, read = KEYS[1], ARGV[1], redis.call, struct.unpack

local now = tonumber(ARGV[3] or -1)
if now < 0 then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Almost always the breaker is closed, nobody waits and the windows have room: see `plan`.
local kind, over = nil, false
if (ARGV[2] or 'enter') == 'enter' then
  local quick
  quick, kind = read('Bc8', question)
  local head = quick == 1 and call('GETRANGE', key, '0', '75') or ''
  local place = #head == 76 and string.find(head, kind, 13, true)
  if place and place % 16 == 13 then
    local layout, day, clean, era, log = read('<BI2BI4I4', head)
    local free, most = read('<I7B', head, place + 8)
    if layout == LAYOUT and most > 0 and free <= now and day == math.floor(now / DAY) then
      if call('APPEND', key, struct.pack('<I7B', now, (place - 13) / 16)) <= log + 8 * most then return { now, era, clean } end
      over = true
    end
  end
  if quick == 0 then kind = nil end
end

local FAR = 9007199254740991
-- A month, and the day that may pass before a step renews it.
local KEEP = 33 * 86400
local KINDS, LOGGED = 4, 128
local EXACT_LIMIT, COARSE_BUCKETS = 4096, 1024
local TICKET_GRACE, PACING, FORGET_RATE, WAITS = 3000000, 60000000, 600000000, 8
local COURTESY, LONGEST_TURN = 4000, 1000

local raw, site, log = call('GET', key), nil, nil
local layout = raw and string.byte(raw)
if not raw then
  site = { b = { e = 0, f = 0 }, i = {}, u = {} }
elseif layout == LAYOUT then
  local _
  _, site = cmsgpack.unpack_limit(raw, 1, 76)
  log = read('<I4', raw, 9)
elseif layout >= 0x80 and layout < 0x90 then
  site = cmsgpack.unpack(raw)
else
  return redis.error_reply('LAYOUT ' .. layout)
end
site.q = site.q or {}

-- Arguments -------------------------------------------------------------------------------------------------------------

local next_argument = 3
local function text()
  next_argument = next_argument + 1
  return ARGV[next_argument]
end
local function number()
  return tonumber(text())
end
local function flag()
  return text() == '1'
end

-- History -------------------------------------------------------------------------------------------------------------

-- The k-th latest grant; the latest is the first.
local function ring_back(budget, k)
  local at = #budget.g - 8 * k + 1
  if k < 1 or at < 1 then return nil end
  return (read('<I8', budget.g, at))
end

local function ring_push(budget, instants, weight)
  if budget.cap == 0 then return end
  local latest, grants = ring_back(budget, 1) or 0, {}
  for place, at in ipairs(instants) do
    if at > latest then latest = at end
    grants[place] = struct.pack('<I8', latest)
    if weight > 1 then grants[place] = string.rep(grants[place], math.min(weight, budget.cap)) end
  end
  budget.g = string.sub(budget.g .. table.concat(grants), -8 * budget.cap)
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
local function bucket(coarse, place)
  local latest, count = read('<I8I8', coarse.b, place * 16 - 15)
  return latest, count
end

local function buckets(coarse)
  return #coarse.b / 16
end

local function coarse_back(coarse, k)
  local rank = coarse.t + 1 - k
  if rank <= 0 then return nil end
  local seen = 0
  for place = 1, buckets(coarse) do
    local latest, count = bucket(coarse, place)
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
  coarse.b = string.sub(coarse.b, from, math.max(to, 0)) .. table.concat(added, '', first) .. struct.pack('<I8I8', latest, filling)
end

local function coarse_take_back(coarse, at, weight)
  for place = 1, buckets(coarse) do
    local latest, count = bucket(coarse, place)
    if latest >= at then
      local taken = math.min(count, weight)
      coarse.t = coarse.t - taken
      local left = count > taken and struct.pack('<I8I8', latest, count - taken) or ''
      coarse.b = string.sub(coarse.b, 1, place * 16 - 16) .. left .. string.sub(coarse.b, place * 16 + 1)
      return
    end
  end
end

-- Budgets -------------------------------------------------------------------------------------------------------------

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

-- Returns the turn behind everybody who waits for one within COURTESY of now, and the window that it is for.
local function turn_behind(budget, windows)
  local last = nil
  for _, ticket in ipairs(budget.t) do
    if not ticket.s and ticket.a <= now + COURTESY and ticket.a + COURTESY > now then last = ticket end
  end
  local turn, tightest = nil, nil
  for _, window in ipairs(windows) do
    local mine = math.min(LONGEST_TURN, math.floor(math.floor(width_of(budget, window) / window.limit) / 4))
    if not turn or mine < turn then turn, tightest = mine, window end
  end
  if not last or not turn then return nil end
  return math.max(last.a, now) + turn, tightest
end

-- Kinds of questions ---------------------------------------------------------------------------------------------------

-- Calls `visit` with each budget of a kind, and with each of its windows.
local function each(asked, visit)
  local charges, from = read('B', asked)
  for _ = 1, charges do
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

-- Folds the log into the page.
local function fold()
  local kinds, spent = {}, {}
  for place, known in ipairs(site.q) do
    kinds[place] = {}
    each(known.a, function(budget, window)
      if window then return end
      spent[budget] = spent[budget] or {}
      table.insert(kinds[place], spent[budget])
    end)
  end
  for at = log + 1, #raw - (over and 8 or 0), 8 do
    local instant, place = read('<I7B', raw, at)
    for _, instants in ipairs(kinds[place + 1]) do instants[#instants + 1] = instant end
  end
  for budget, instants in pairs(spent) do
    if #instants > 0 then spend_all(budget, 1, instants) end
  end
end

-- Returns from when on questions of a kind may go at once, and how many in a row, whoever of those known asks: the grants
-- that the last of them has to wait for have left every window by then.
local function plan(asked)
  local free, most = 0, site.b.t and 0 or LOGGED
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
        local grant = ring_back(budget, window.limit + 1 - middle)
        if not grant or grant + window.width <= now then low = middle else high = middle - 1 end
      end
      local grant = ring_back(budget, window.limit + 1 - low)
      most, free = low, grant and math.max(free, grant + window.width) or free
    end
  end)
  return free, most
end

-- Remembers the kind of a question, the latest first.
local function know(asked)
  if not kind or site.q[1] and site.q[1].k == kind then return end
  for place, known in ipairs(site.q) do
    if known.k == kind then table.remove(site.q, place) end
  end
  table.insert(site.q, 1, { k = kind, a = asked })
  site.q[KINDS + 1] = nil
end

-- Breaker -------------------------------------------------------------------------------------------------------------

local function trip_until(trip)
  if trip.b and trip.b.u > trip.u then return trip.b.u end
  return trip.u
end

local function trip_reason(trip)
  if trip.b and trip.b.u >= trip.u then return trip.b.r end
  return trip.r
end

local function state_of(breaker)
  if not breaker.t then return 'closed' end
  if trip_until(breaker.t) > now then return 'open' end
  return 'half_open'
end

local function past_of(breaker)
  breaker.p = breaker.p or { o = 0, x = 0, l = 0, c = 0, d = 0, h = 0, r = {} }
  return breaker.p
end

local function advance(breaker)
  local trip = breaker.t
  if not trip then return nil end
  if trip.h then
    drop_expired(trip.l)
    return nil
  end
  if trip_until(trip) > now then return nil end
  trip.h, trip.b = true, nil
  return { from = 'open', to = 'half_open', fails = breaker.f, reset = -1, reason = '' }
end

local function lease(breaker, id, role, expires)
  if not breaker.t then return end
  for _, held in ipairs(breaker.t.l) do
    if held.i == id then
      held.x = expires
      return
    end
  end
  table.insert(breaker.t.l, { i = id, o = role, x = expires })
end

local function reset_after(policy, opens, learned)
  local reset = math.max(policy.reset, learned) * 2 ^ math.min(math.max(opens - 1, 0), 20)
  return math.min(reset, math.max(policy.ceiling, policy.reset))
end

local function open(breaker, policy, reason, length)
  local from, was_closed = state_of(breaker), not breaker.t
  local past = past_of(breaker)
  if was_closed and past.o > 0 and past.c + reset_after(policy, past.o, past.l) <= now then past.o = 0 end
  past.o = past.o + 1
  past.r = {}
  local reset = length or reset_after(policy, past.o, past.l)
  breaker.e = breaker.e + 1
  breaker.t = { u = now + reset, r = reason, h = false, l = {} }
  return { from = from, to = 'open', fails = breaker.f, reset = reset, reason = reason }
end

local function fail(breaker, policy)
  breaker.f = breaker.f + 1
  local past = past_of(breaker)
  past.d = now
  if breaker.t then
    if breaker.t.h then return open(breaker, policy, 'probe-failed', nil) end
    return nil
  end
  if policy.threshold > 0 then
    table.insert(past.r, now)
    while #past.r > policy.threshold or (past.r[1] and past.r[1] + policy.within <= now) do table.remove(past.r, 1) end
    if #past.r >= policy.threshold then return open(breaker, policy, 'rolling-window', policy.cooldown) end
  end
  if breaker.f >= policy.fail_max then return open(breaker, policy, 'consecutive', nil) end
  return nil
end

local function shut(breaker)
  breaker.t, breaker.f = nil, 0
  local past = past_of(breaker)
  past.r, past.c = {}, now
  return { from = 'half_open', to = 'closed', fails = 0, reset = -1, reason = '' }
end

local function breaker_settle(breaker, policy, outcome, era, sent)
  if era ~= breaker.e then return nil end
  if outcome == 'success' or outcome == 'neutral' then
    if outcome == 'success' then breaker.f = 0 end
    if breaker.t and breaker.t.h then return shut(breaker) end
    return nil
  end
  if outcome == 'throttled' then
    if policy.one_per_epoch and breaker.p and sent < breaker.p.h then return nil end
    past_of(breaker).h = now
  end
  return fail(breaker, policy)
end

local function breaker_block(breaker, till, reason)
  if till <= now then return nil end
  local from = state_of(breaker)
  if from == 'open' then
    local trip = breaker.t
    if not trip.b or trip.b.u < till then trip.b = { u = till, r = reason } end
    return nil
  end
  breaker.e = breaker.e + 1
  breaker.t = { u = now, r = reason, b = { u = till, r = reason }, h = false, l = {} }
  return { from = from, to = 'open', fails = breaker.f, reset = till - now, reason = reason }
end

local function learn(breaker, policy, asked)
  local past = past_of(breaker)
  if asked <= policy.reset then
    past.x = 0
    return
  end
  past.x = past.x + 1
  if past.x >= 2 then past.l = math.max(past.l, math.min(asked, policy.ceiling)) end
end

local function breaker_for(ask)
  if not ask.isolated then return site.b end
  local own = site.i[ask.role]
  if not own then
    own = { e = 0, f = 0 }
    local block = site.b.t and site.b.t.b
    if block then own.t = { u = 0, r = block.r, b = { u = block.u, r = block.r }, h = false, l = {} } end
    site.i[ask.role] = own
  end
  return own
end

local function block_all(till, reason)
  for _, own in pairs(site.i) do breaker_block(own, till, reason) end
  return breaker_block(site.b, till, reason)
end

-- Questions and answers -----------------------------------------------------------------------------------------------

-- A length from now on, or for ever.
local function instant(length)
  if length >= FAR then return FAR end
  return now + length
end

local ROLES = { [0] = 'metadata', 'landing', 'artifact' }

local function read_ask()
  local ask, policy = { charges = {} }, {}
  local charges, from = read('B', question, 10)
  for place = 1, charges do
    local charge, windows, name = { windows = {} }, nil, nil
    name, windows, from = read('<sB', question, from)
    charge.budget = budget_of(name)
    for other = 1, windows do
      local window = {}
      window.limit, window.per, window.guard, from = read('<I4I8I8', question, from)
      window.width = window.per + window.guard
      charge.windows[other] = window
    end
    ask.charges[place] = charge
  end
  know(string.sub(question, 10, from - 1))
  for _, charge in ipairs(ask.charges) do charge.weight, charge.slots, from = read('<I4I4', question, from) end
  local latest, deadline, isolated, ahead
  ask.id, latest, deadline, ask.asked, isolated, ahead, from = read('<I8I8I8I8BI4', question, from)
  ask.latest, ask.deadline, ask.isolated = instant(latest), instant(deadline), isolated == 1
  ask.ahead = ahead > 0 and ahead - 1 or nil
  local role, waits, epoch, shadow, adaptive, metadata, landing, artifact
  ask.who, role, waits, ask.draw, ask.lease, from = read('<sBBdI8', question, from)
  ask.role, ask.waits = ROLES[role], waits == 1
  policy.fail_max, policy.reset, policy.ceiling, policy.cap, policy.threshold, policy.within, policy.cooldown, from =
    read('<I4I8I8I8I4I8I8', question, from)
  metadata, landing, artifact, policy.jitter, policy.throttle_block, epoch, shadow, adaptive, from =
    read('<I4I4I4I8dBBB', question, from)
  policy.trials = { metadata = metadata, landing = landing, artifact = artifact }
  policy.one_per_epoch, policy.shadow = epoch == 1, shadow == 1
  ask.policy = policy
  if adaptive == 1 then
    local aimd = {}
    aimd.window, aimd.high, aimd.up, aimd.down, aimd.lowest, aimd.highest = read('<I8dddI4I4', question, from)
    ask.aimd = aimd
  end
  return ask
end

local function advance_site(ask)
  for _, charge in ipairs(ask.charges) do
    remember(charge.budget, charge.windows)
    expire(charge.budget)
  end
  return advance(breaker_for(ask))
end

local function first_fit(ask, from)
  local at, because = from, nil
  while true do
    local before = at
    for _, charge in ipairs(ask.charges) do
      local fit, window = budget_fit(charge.budget, charge, ask.ahead, ask.ahead and from or at)
      if fit > at then at, because = fit, window end
    end
    if at == before or #ask.charges < 2 or ask.ahead then return at, because end
  end
end

-- Puts whoever could go at once behind those whose turn it is, as far as its patience allows.
local function give_way(ask, at, because)
  local behind, window = nil, nil
  for _, charge in ipairs(ask.charges) do
    if charge.weight > 0 then
      local turn, tightest = turn_behind(charge.budget, charge.windows)
      if turn and (not behind or turn >= behind) then behind, window = turn, tightest end
    end
  end
  if not behind then return at, because end
  local later, why = first_fit(ask, behind)
  if later > ask.latest or later > ask.deadline then return at, because end
  return later, why or window
end

local function has_slots(ask, held)
  for _, charge in ipairs(ask.charges) do
    if charge.slots > 0 and #charge.budget.s >= charge.slots then
      local mine = false
      for _, slot in ipairs(charge.budget.s) do mine = mine or slot.i == held end
      if not mine then return false end
    end
  end
  return true
end

local function grant(ask, held)
  local id = held or ask.id
  for _, charge in ipairs(ask.charges) do
    local budget = charge.budget
    spend(budget, charge.weight, now)
    if charge.slots > 0 then
      release(budget.s, id)
      table.insert(budget.s, { i = id, x = now + ask.lease })
    end
    if held and charge.weight > 0 then
      if #budget.w >= WAITS then table.remove(budget.w, 1) end
      table.insert(budget.w, { a = now, l = ask.asked })
    end
  end
  local breaker = breaker_for(ask)
  return id, not breaker.t and breaker.f == 0
end

local function judge(ask, held)
  local breaker, policy = breaker_for(ask), ask.policy
  local answer = { era = breaker.e }
  local from, probe = now, false
  local trip = breaker.t
  if trip then
    local refusal = nil
    if trip_until(trip) > now then
      refusal = { till = trip_until(trip), reason = trip_reason(trip), probing = false }
    else
      local out, mine, first = 0, false, nil
      for _, taken in ipairs(trip.l) do
        if taken.o == ask.role and taken.x > now then
          out = out + 1
          first = first or taken.x
          mine = mine or (held and taken.i == held)
        end
      end
      if mine then
        probe = true
      elseif out < policy.trials[ask.role] then
        -- Rounded as a length in nanoseconds is.
        probe, from = true, now + math.floor(policy.jitter * ask.draw + 0.0005)
      else
        refusal = { till = first or now + policy.reset, reason = trip.r, probing = true }
      end
    end
    if refusal then
      if policy.shadow then
        answer.shadow = refusal
      elseif ask.waits and now < ask.deadline and (refusal.till <= ask.deadline or refusal.probing) then
        answer.kind, answer.at, answer.probing = 'await', math.min(refusal.till, ask.deadline), refusal.probing
        return answer
      else
        answer.kind, answer.at, answer.reason, answer.probing = 'open', refusal.till, refusal.reason, refusal.probing
        return answer
      end
    end
  end
  local at, because = first_fit(ask, from)
  if at <= now and not ask.ahead and not held and not probe then at, because = give_way(ask, at, because) end
  answer.at, answer.because, answer.probe = at, because, probe
  if at <= now and not ask.ahead then
    if not has_slots(ask, held) then
      answer.kind = 'busy'
      return answer
    end
    answer.kind = 'go'
    answer.id, answer.clean = grant(ask, held)
    answer.at = now
    if probe then lease(breaker_for(ask), answer.id, ask.role, now + ask.lease) end
    return answer
  end
  if at > now and (at > math.max(ask.latest, from) or at > ask.deadline) then
    answer.kind = 'rate'
    return answer
  end
  if ask.ahead then
    answer.kind = 'queue'
    return answer
  end
  local id = held or ask.id
  for _, charge in ipairs(ask.charges) do hold(charge.budget, id, at, charge.weight, at + TICKET_GRACE) end
  if probe then lease(breaker_for(ask), id, ask.role, at + ask.lease) end
  answer.kind, answer.id = 'wait', id
  return answer
end

local function sign(breaker, who)
  if breaker.t and not breaker.t.w then breaker.t.w = who end
end

local function save(who)
  sign(site.b, who)
  for _, own in pairs(site.i) do sign(own, who) end
  local keep = KEEP
  if site.b.t then keep = keep + math.max(0, math.ceil((trip_until(site.b.t) - now) / 1000000)) end
  local page, kinds = cmsgpack.pack(site), {}
  for place, known in ipairs(site.q) do kinds[place] = struct.pack('<c8I7B', known.k, plan(known.a)) end
  local clean = site.b.f == 0 and 1 or 0
  local head = struct.pack('<BI2BI4I4', LAYOUT, math.floor(now / DAY), clean, site.b.e, 76 + #page) .. table.concat(kinds)
  local after = head .. string.rep('\0', 76 - #head) .. page
  if after ~= raw then call('SET', key, after, 'EX', keep) end
end

local function add_transition(reply, transition)
  if transition then
    for _, part in ipairs({ transition.from, transition.to, transition.fails, transition.reset, transition.reason }) do
      reply[#reply + 1] = part
    end
  end
  return reply
end

local function truth(value)
  return value and 1 or 0
end

local function entered(answer, transition)
  local because, shadow = answer.because or {}, answer.shadow or {}
  return add_transition({
    now, answer.kind, answer.at or 0, answer.id or 0, answer.era, truth(answer.probe), truth(answer.clean),
    because.limit or 0, because.per or 0, answer.reason or '', truth(answer.probing),
    shadow.till or -1, shadow.reason or '', truth(shadow.probing),
  }, transition)
end

local function observe(budget, aimd, throttled)
  local tally, adjusted = budget.y or { s = 0, c = 0, t = 0 }, nil
  if tally.c > 0 and tally.s + aimd.window <= now then
    local high = tally.t / tally.c >= aimd.high
    local factor = high and 1 - aimd.down or 1 + aimd.up
    local share = math.floor(budget.m / 1000 * factor * 1000 + 0.5)
    share = math.max(10, math.min(1000, share))
    share = math.max(aimd.lowest, math.min(aimd.highest, share))
    if share ~= budget.m then adjusted = { budget.m, share, high and 'high_429_ratio' or 'low_429_ratio' } end
  end
  if tally.c == 0 or tally.s + aimd.window <= now then tally = { s = now, c = 0, t = 0 } end
  tally.c = tally.c + 1
  if throttled then tally.t = tally.t + 1 end
  budget.y = tally
  if adjusted then budget.m = adjusted[2] end
  return adjusted
end

local function renew(list, ids, expires)
  for _, held in ipairs(list) do
    if ids[held.i] and held.x < expires then held.x = expires end
  end
end

-- Steps ---------------------------------------------------------------------------------------------------------------

local steps = {}

function steps.enter()
  local ask = read_ask()
  local transition = advance_site(ask)
  local answer = judge(ask, nil)
  save(ask.who)
  return entered(answer, transition)
end

function steps.confirm()
  local ticket, ask = number(), read_ask()
  local transition = advance_site(ask)
  for _, charge in ipairs(ask.charges) do
    release(charge.budget.t, ticket)
    release(charge.budget.s, ticket)
  end
  local answer = judge(ask, ticket)
  if answer.kind ~= 'go' and answer.kind ~= 'wait' then
    local trip = breaker_for(ask).t
    if trip then release(trip.l, ticket) end
  end
  save(ask.who)
  return entered(answer, transition)
end

function steps.leave()
  local id, spent, ask = number(), number(), read_ask()
  for _, charge in ipairs(ask.charges) do
    release(charge.budget.s, id)
    if not release(charge.budget.t, id) and spent >= 0 then take_back(charge.budget, charge.weight, spent) end
  end
  local trip = breaker_for(ask).t
  local freed = trip and release(trip.l, id)
  save(ask.who)
  return { now, truth(freed) }
end

function steps.hold()
  local id, at, longest, ask = number(), number(), number(), read_ask()
  for _, charge in ipairs(ask.charges) do
    take_back(charge.budget, charge.weight, at)
    hold(charge.budget, id, at, charge.weight, now + longest)
    for _, ticket in ipairs(charge.budget.t) do
      if ticket.i == id then ticket.s, ticket.x = true, now + longest end
    end
  end
  save(ask.who)
  return { now }
end

function steps.sent()
  local id, era, longest, ask = number(), number(), number(), read_ask()
  for _, charge in ipairs(ask.charges) do
    for _, ticket in ipairs(charge.budget.t) do
      if ticket.i == id then ticket.s, ticket.x = true, now + longest end
    end
  end
  local breaker = breaker_for(ask)
  local blocked = state_of(breaker) == 'open' and breaker.e ~= era and not ask.policy.shadow
  save(ask.who)
  if blocked then return { now, 1, trip_until(breaker.t), trip_reason(breaker.t) } end
  return { now, 0 }
end

function steps.stamp()
  local id, ask = number(), read_ask()
  for _, charge in ipairs(ask.charges) do
    expire(charge.budget)
    if release(charge.budget.t, id) then spend(charge.budget, charge.weight, now) end
  end
  save(ask.who)
  return { now }
end

function steps.settle_headers()
  local id, era, at, outcome, ask = number(), number(), number(), text(), read_ask()
  local breaker = breaker_for(ask)
  local released = breaker.t and release(breaker.t.l, id)
  local transition = breaker_settle(breaker, ask.policy, outcome, era, at)
  save(ask.who)
  return add_transition({ now, truth(released or transition), -1, -1, 0, 0, '' }, transition)
end

function steps.settle()
  local id, era, probe, outcome, asked, sent_ago = number(), number(), flag(), text(), number(), number()
  local ask = read_ask()
  local policy = ask.policy
  for _, charge in ipairs(ask.charges) do
    if charge.slots > 0 then release(charge.budget.s, id) end
  end
  local breaker = breaker_for(ask)
  local released = probe and breaker.t and release(breaker.t.l, id)
  local transition = breaker_settle(breaker, policy, outcome, era, now - sent_ago)
  if outcome == 'failure' or outcome == 'throttled' then
    local length, reason = nil, nil
    if asked >= 0 then
      learn(breaker, policy, asked)
      length, reason = math.min(asked, policy.cap), 'retry-after'
    elseif outcome == 'throttled' and policy.throttle_block >= 0 then
      length, reason = policy.throttle_block, 'throttled'
    end
    if length then transition = block_all(now + length, reason) or transition end
  end
  local till = state_of(breaker) == 'open' and trip_until(breaker.t) or -1
  local adjusted = nil
  if ask.aimd and ask.charges[1] then adjusted = observe(ask.charges[1].budget, ask.aimd, outcome == 'throttled') end
  save(ask.who)
  local reply = { now, truth(released or transition), till, adjusted and 0 or -1 }
  for place = 1, 3 do reply[4 + place] = adjusted and adjusted[place] or 0 end
  return add_transition(reply, transition)
end

function steps.renew()
  local who, expires, ids = text(), now + number(), {}
  for _ = 1, number() do ids[number()] = true end
  for _, budget in pairs(site.u) do renew(budget.s, ids, expires) end
  if site.b.t then renew(site.b.t.l, ids, expires) end
  for _, own in pairs(site.i) do
    if own.t then renew(own.t.l, ids, expires) end
  end
  save(who)
  return { now }
end

function steps.block()
  local who, length, reason = text(), number(), text()
  local transition = block_all(now + length, reason)
  save(who)
  return add_transition({ now }, transition)
end

function steps.unblock()
  local who = text()
  local from = state_of(site.b)
  site.i = {}
  site.b = { e = site.b.e + (from == 'closed' and 0 or 1), f = 0 }
  save(who)
  if from == 'closed' then return { now } end
  return add_transition({ now }, { from = from, to = 'closed', fails = 0, reset = -1, reason = '' })
end

-- Everything, for people.
function steps.view()
  return { now, raw and cmsgpack.pack(site) or '' }
end

if log then fold() end
return steps[ARGV[2] or 'enter']()
