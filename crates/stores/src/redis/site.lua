-- One step on the state of a site, atomically: the twin of `docstokg_policy::site::Site`.
--
-- Times are whole microseconds of the server's clock; what callers send and get are lengths of time. The functions bear
-- the names of those in Rust and do the same in the same order: a property test runs both side by side.
--
-- KEYS[1] holds breakers, tickets, slots and the counters of the histories (MessagePack). The history of a budget is a
-- string beside it: `KEYS[1]:r:NAME`, eight bytes a grant, a circle of `cap` places; each large window has another,
-- `KEYS[1]:c:NAME:LIMIT:PER`, of buckets of sixteen bytes, appended at the end.

local FAR = 9007199254740991
local EXACT_LIMIT, COARSE_BUCKETS = 4096, 1024
local TICKET_GRACE, PACING, FORGET_RATE, WAITS = 3000000, 60000000, 600000000, 8
local KEEP = 172800

local next_argument = 0
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

local op = text()
local now = number()
if now < 0 then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- A length from now on; a negative one is "for ever".
local function instant()
  local length = number()
  if length < 0 then return FAR end
  return now + length
end

local site_key = KEYS[1]
local packed = redis.call('GET', site_key)
local site = packed and cmsgpack.unpack(packed) or { b = { e = 0, f = 0 }, i = {}, u = {} }

-- History -------------------------------------------------------------------------------------------------------------

local function ring_key(budget)
  return site_key .. ':r:' .. budget.name
end

-- The k-th latest grant; the latest is the first.
local function ring_back(budget, k)
  if k < 1 or k > budget.n then return nil end
  local place = (budget.p - k) % budget.cap
  return (struct.unpack('<I8', redis.call('GETRANGE', ring_key(budget), place * 8, place * 8 + 7)))
end

local function ring_set(budget, place, at)
  redis.call('SETRANGE', ring_key(budget), place * 8, struct.pack('<I8', at))
end

-- The circle grows with the windows that are asked for: its grants are written anew from its first place on.
local function ring_grow(budget, cap)
  if cap <= budget.cap then return end
  local grants = {}
  for k = budget.n, 1, -1 do grants[#grants + 1] = struct.pack('<I8', ring_back(budget, k)) end
  budget.cap, budget.p = cap, budget.n % cap
  if #grants > 0 then redis.call('SETRANGE', ring_key(budget), 0, table.concat(grants)) end
end

local function ring_push(budget, at, weight)
  if budget.cap == 0 then return end
  local latest = budget.z or 0
  if at < latest then at = latest end
  for _ = 1, weight do
    ring_set(budget, budget.p, at)
    budget.p = (budget.p + 1) % budget.cap
    if budget.n < budget.cap then budget.n = budget.n + 1 end
  end
  budget.z = at
  redis.call('EXPIRE', ring_key(budget), KEEP)
end

local function ring_take_back(budget, at, weight)
  local later, k = {}, 1
  while k <= budget.n do
    local grant = ring_back(budget, k)
    if grant <= at then break end
    later[#later + 1] = grant
    k = k + 1
  end
  local taken = 0
  while taken < weight and ring_back(budget, k + taken) == at do taken = taken + 1 end
  if taken == 0 then return end
  budget.n = budget.n - taken
  budget.p = (budget.p - taken) % budget.cap
  for place = 1, #later do ring_set(budget, (budget.p - place) % budget.cap, later[place]) end
  budget.z = ring_back(budget, 1)
end

local function coarse_key(budget, coarse)
  return site_key .. ':c:' .. budget.name .. ':' .. string.format('%.0f', coarse.l) .. ':' .. string.format('%.0f', coarse.p)
end

-- Buckets lie between `f` (the oldest) and `n` (behind the latest), from zero on.
local function bucket(budget, coarse, place)
  local at = place * 16
  local latest, count = struct.unpack('<I8I8', redis.call('GETRANGE', coarse_key(budget, coarse), at, at + 15))
  return latest, count
end

local function set_bucket(budget, coarse, place, latest, count)
  redis.call('SETRANGE', coarse_key(budget, coarse), place * 16, struct.pack('<I8I8', latest, count))
  redis.call('EXPIRE', coarse_key(budget, coarse), KEEP)
end

local function coarse_back(budget, coarse, k)
  local rank = coarse.t + 1 - k
  if rank <= 0 then return nil end
  local seen = 0
  for place = coarse.f, coarse.n - 1 do
    local latest, count = bucket(budget, coarse, place)
    seen = seen + count
    if seen >= rank then return latest end
  end
  return nil
end

local function coarse_push(budget, coarse, at, weight)
  while coarse.f < coarse.n do
    local latest, count = bucket(budget, coarse, coarse.f)
    if latest + coarse.w > at then break end
    coarse.t, coarse.f = coarse.t - count, coarse.f + 1
  end
  if coarse.f > 4 * COARSE_BUCKETS then
    local key = coarse_key(budget, coarse)
    local kept = redis.call('GETRANGE', key, coarse.f * 16, coarse.n * 16 - 1)
    redis.call('SET', key, kept)
    coarse.n, coarse.f = coarse.n - coarse.f, 0
  end
  coarse.t = coarse.t + weight
  if coarse.n > coarse.f then
    local latest, count = bucket(budget, coarse, coarse.n - 1)
    local newer = math.max(latest, at)
    if count < coarse.s then
      set_bucket(budget, coarse, coarse.n - 1, newer, count + weight)
      return
    end
    at = newer
  end
  set_bucket(budget, coarse, coarse.n, at, weight)
  coarse.n = coarse.n + 1
end

local function coarse_take_back(budget, coarse, at, weight)
  for place = coarse.f, coarse.n - 1 do
    local latest, count = bucket(budget, coarse, place)
    if latest >= at then
      local taken = math.min(count, weight)
      coarse.t = coarse.t - taken
      if count > taken then
        set_bucket(budget, coarse, place, latest, count - taken)
      else
        for later = place + 1, coarse.n - 1 do
          local moved, counted = bucket(budget, coarse, later)
          set_bucket(budget, coarse, later - 1, moved, counted)
        end
        coarse.n = coarse.n - 1
      end
      return
    end
  end
end

-- Budgets -------------------------------------------------------------------------------------------------------------

local function budget_of(name)
  local budget = site.u[name]
  if not budget then
    budget = { cap = 0, n = 0, p = 0, c = {}, t = {}, s = {}, m = 1000, w = {} }
    site.u[name] = budget
  end
  budget.name = name
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
        budget.c[#budget.c + 1] = { l = window.limit, p = window.per, w = window.width, s = share, t = 0, f = 0, n = 0 }
      end
    end
  end
  ring_grow(budget, keep)
end

local function spend(budget, weight, at)
  if weight == 0 then return end
  ring_push(budget, at, weight)
  for _, coarse in ipairs(budget.c) do coarse_push(budget, coarse, at, weight) end
end

local function take_back(budget, weight, at)
  ring_take_back(budget, at, weight)
  for _, coarse in ipairs(budget.c) do coarse_take_back(budget, coarse, at, weight) end
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
  return coarse and coarse_back(budget, coarse, k)
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

local function read_ask()
  local ask = { id = number(), who = text(), role = text(), isolated = flag(), waits = flag() }
  ask.ahead = number()
  if ask.ahead < 0 then ask.ahead = nil end
  ask.draw, ask.lease = number(), number()
  ask.latest, ask.deadline, ask.asked = instant(), instant(), number()
  local policy = { fail_max = number(), reset = number(), ceiling = number(), cap = number() }
  policy.threshold, policy.within, policy.cooldown = number(), number(), number()
  policy.trials = { metadata = number(), landing = number(), artifact = number() }
  policy.jitter, policy.throttle_block = number(), number()
  policy.one_per_epoch, policy.shadow = flag(), flag()
  ask.policy = policy
  if flag() then
    ask.aimd = { window = number(), high = number(), up = number(), down = number(), lowest = number(), highest = number() }
  end
  ask.charges = {}
  for place = 1, number() do
    local charge = { budget = budget_of(text()), weight = number(), slots = number(), windows = {} }
    for other = 1, number() do
      local window = { limit = number(), per = number(), guard = number() }
      window.width = window.per + window.guard
      charge.windows[other] = window
    end
    ask.charges[place] = charge
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
  for _, budget in pairs(site.u) do budget.name = nil end
  local keep = KEEP
  if site.b.t then keep = keep + math.max(0, math.ceil((trip_until(site.b.t) - now) / 1000000)) end
  local after = cmsgpack.pack(site)
  if after ~= packed then redis.call('SET', site_key, after, 'EX', keep) end
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

-- Everything, for people: the state as MessagePack, then the name and the histories of each budget.
function steps.view()
  local reply = { now, packed or '' }
  for name, _ in pairs(site.u) do
    local budget = budget_of(name)
    local grants, buckets = {}, {}
    for k = budget.n, 1, -1 do grants[#grants + 1] = struct.pack('<I8', ring_back(budget, k)) end
    for place, coarse in ipairs(budget.c) do
      local key = coarse_key(budget, coarse)
      buckets[place] = coarse.n > coarse.f and redis.call('GETRANGE', key, coarse.f * 16, coarse.n * 16 - 1) or ''
    end
    reply[#reply + 1] = { name, table.concat(grants), buckets }
  end
  return reply
end

return steps[op]()
