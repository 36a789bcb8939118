-- Breakers: Lua implementation of `breaker.rs`.

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
  for _, known in ipairs(breaker.t.l) do
    if known.i == id then
      known.x = expires
      return
    end
  end
  table.insert(breaker.t.l, { i = id, o = role, x = expires })
end

local function reset_after(policy, opens, learned)
  local doublings = policy.early_probes and math.min(math.max(opens - 1, 0), 20) or 0
  local reset = math.max(policy.reset, learned) * 2 ^ doublings
  return math.min(reset, math.max(policy.ceiling, policy.reset))
end

-- Returns the fixed reset of the open in force.
local function cap_of(breaker, policy)
  local past = breaker.p
  return reset_after(policy, past and past.o or 0, past and past.l or 0)
end

-- Early probes: `breaker/early.rs`.

local function early_wait(elapsed, cap, jitter_sample)
  local middle = math.min(math.max(math.floor(elapsed / 5), 1000000), cap)
  return math.floor(middle * (1 - 0.1 + 2 * 0.1 * jitter_sample))
end

local function outage_began(breaker)
  local past = breaker.t and breaker.p
  return past and past.c > 0 and past.c or nil
end

local function probes_early(breaker, policy)
  local began = policy.early_probes and outage_began(breaker)
  return began and now < began + cap_of(breaker, policy)
end

-- `length` is how long the host is to be left alone, if that was stated or learned.
local function await_next_probe(breaker, policy, jitter_sample, length, sent)
  local began = outage_began(breaker)
  if not began or not jitter_sample then return nil end
  local wait = early_wait(math.max(now - began, 0), cap_of(breaker, policy), jitter_sample)
  local till = math.max(sent + wait, now + math.floor(wait / 2), now + (length or 0))
  local from, trip = state_of(breaker), breaker.t
  trip.u, trip.h, trip.l = till, false, {}
  breaker.e = breaker.e + 1
  return { from = from, to = 'open', fails = breaker.f, reset = till - now, reason = 'early-probe-failed' }
end

-- `early` is the jitter sample of early probes, where they apply.
local function open(breaker, policy, reason, length, early)
  local from, was_closed = state_of(breaker), not breaker.t
  local past = past_of(breaker)
  if was_closed and past.o > 0 and past.c + reset_after(policy, past.o, past.l) <= now then past.o = 0 end
  if was_closed and past.l > 0 and past.c + 3600000000 <= now then
    local half = math.floor(past.l / 2)
    past.l = half > policy.reset and half or 0
  end
  past.o = past.o + 1
  past.r = {}
  local reset = length or reset_after(policy, past.o, past.l)
  if early then reset = early_wait(0, reset, early) end
  past.c = early and math.max(now, 1) or 0
  breaker.e = breaker.e + 1
  breaker.t = { u = now + reset, r = reason, h = false, l = {} }
  return { from = from, to = 'open', fails = breaker.f, reset = reset, reason = reason }
end

-- `length` is how long an open lasts, if that was stated or learned.
local function fail(breaker, policy, outcome, early, length, sent)
  breaker.f = breaker.f + 1
  local past = past_of(breaker)
  past.d = now
  if breaker.t then
    if not breaker.t.h then return nil end
    return await_next_probe(breaker, policy, early, length, sent)
      or open(breaker, policy, 'probe-failed', length, early)
  end
  if policy.threshold > 0 then
    table.insert(past.r, now)
    while #past.r > policy.threshold or (past.r[1] and past.r[1] + policy.within <= now) do
      table.remove(past.r, 1)
    end
    if #past.r >= policy.threshold then
      local stated = outcome == 'throttled' and length or nil
      return open(breaker, policy, 'rolling-window', stated or policy.cooldown, nil)
    end
  end
  if breaker.f >= policy.fail_max then return open(breaker, policy, 'consecutive', length, early) end
  return nil
end

local function shut(breaker)
  breaker.t, breaker.f = nil, 0
  local past = past_of(breaker)
  past.r, past.c = {}, now
  return { from = 'half_open', to = 'closed', fails = 0, reset = -1, reason = '' }
end

local function breaker_settle(breaker, ask, outcome, generation, sent, wait)
  local policy = ask.policy
  if generation ~= breaker.e then return nil end
  if outcome == 'success' or outcome == 'neutral' then
    if outcome == 'success' then breaker.f = 0 end
    if breaker.t and breaker.t.h then return shut(breaker) end
    return nil
  end
  if outcome == 'throttled' then
    if policy.one_per_epoch and breaker.p and sent < breaker.p.h then return nil end
    past_of(breaker).h = now
  end
  local length = wait and math.max(wait, SHORTEST_OPEN)
  local early = policy.early_probes and outcome == 'failure' and ask.jitter_sample or nil
  return fail(breaker, policy, outcome, early, length, sent)
end

local function breaker_block(breaker, till, reason)
  if till <= now then return nil end
  local from = state_of(breaker)
  if from == 'open' then
    local trip = breaker.t
    if not trip.b or trip.b.u < till then trip.b = { u = till, r = reason } end
    return nil
  end
  if from == 'closed' and breaker.p then breaker.p.c = 0 end
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
