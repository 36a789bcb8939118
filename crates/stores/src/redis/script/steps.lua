-- The operations, by name.

local steps = {}

-- Returns whether the permits of the asking process are lost: the server was flushed, or restarted
-- empty.
local function is_forgotten(ask)
  return ask.birth > 0 and ask.birth ~= site.n
end

local FORGOTTEN = redis.error_reply('FORGOTTEN the site is not the one that the process knows')

-- Returns whether a process asks by other limits of the host than those that are known here.
local function is_stale(ask)
  local limits = ask.limits
  if not limits then return has_limits() end
  return not limits.forced and limits.version ~= limits_version()
end

local function known_version(ask)
  return ask.limits and ask.limits.version or 0
end

-- Records what an answer changes, saves, and replies; one that has to send more gets that answer first.
local function conclude(ask, answer, transition)
  local limits = ask.limits
  if answer.kind == 'stale' then return stale(known_version(ask), answer.waiting) end
  if limits then
    local goes = answer.kind == 'go' and limits.permit ~= ''
    note(goes and limits.permit or limits.advance)
  end
  save(ask.who)
  local reply = entered(answer, transition)
  if limits then add_lacking(reply, limits.version) end
  return reply
end

local function confirm(ask, id)
  if is_stale(ask) then return stale(known_version(ask), -1) end
  local transition = advance_site(ask)
  for _, cost in ipairs(ask.costs) do release(cost.budget.s, id) end
  local answer = decide(ask, id)
  if answer.kind == 'stale' then return conclude(ask, answer) end
  if answer.kind ~= 'go' and answer.kind ~= 'wait' and answer.kind ~= 'slot' then
    for _, cost in ipairs(ask.costs) do release(cost.budget.t, id) end
    local trip = breaker_for(ask).t
    if trip then release(trip.l, id) end
  end
  return conclude(ask, answer, transition)
end

function steps.enter()
  local ask = read_ask()
  if is_forgotten(ask) then return FORGOTTEN end
  -- A call whose answer was lost is repeated: the reservation that it made counts, not a second one.
  if own_reservation(ask, ask.id) then return confirm(ask, ask.id) end
  if is_stale(ask) then return stale(known_version(ask), -1) end
  local transition = advance_site(ask)
  return conclude(ask, decide(ask, nil), transition)
end

function steps.confirm()
  local id, ask = number(), read_ask()
  if is_forgotten(ask) then return FORGOTTEN end
  return confirm(ask, id)
end

function steps.leave()
  local id, spent, event, ask = number(), number(), text(), read_ask()
  for _, cost in ipairs(ask.costs) do
    release(cost.budget.s, id)
    if not release(cost.budget.t, id) and spent >= 0 then take_back(cost.budget, cost.weight, spent) end
  end
  local trip = breaker_for(ask).t
  local freed = trip and release(trip.l, id)
  if has_limits() then note(event) end
  save(ask.who)
  return { now, truth(freed) }
end

function steps.hold()
  local id, at, longest, ask = number(), number(), number(), read_ask()
  for _, cost in ipairs(ask.costs) do
    take_back(cost.budget, cost.weight, at)
    if cost.weight > 0 then
      reserve(cost.budget, { i = id, p = 0, a = at, w = cost.weight, x = now + longest, s = true })
    end
  end
  save(ask.who)
  return { now }
end

function steps.sent()
  local id, generation, longest, ask = number(), number(), number(), read_ask()
  for _, cost in ipairs(ask.costs) do
    for _, reservation in ipairs(cost.budget.t) do
      if reservation.i == id then reservation.s, reservation.x = true, now + longest end
    end
  end
  local breaker = breaker_for(ask)
  local blocked = state_of(breaker) == 'open' and breaker.e ~= generation and not ask.policy.shadow
  save(ask.who)
  if blocked then return { now, 1, trip_until(breaker.t), trip_reason(breaker.t) } end
  return { now, 0 }
end

function steps.stamp()
  local id, ask = number(), read_ask()
  for _, cost in ipairs(ask.costs) do
    expire(cost.budget)
    if release(cost.budget.t, id) then spend(cost.budget, cost.weight, now) end
  end
  save(ask.who)
  return { now }
end

function steps.settle_headers()
  local id, generation, at, probe, outcome = number(), number(), number(), flag(), text()
  local version, event, ask = number(), text(), read_ask()
  if has_limits() then note(event) end
  local released, transition = nil, nil
  if probe then
    local breaker = breaker_for(ask)
    released = breaker.t and release(breaker.t.l, id)
    transition = breaker_settle(breaker, ask, outcome, generation, at)
  end
  save(ask.who)
  local reply = add_transition({ now, truth(released or transition), -1, -1, 0, 0, '' }, transition)
  return version >= 0 and add_lacking(reply, version) or reply
end

function steps.settle()
  local id, generation, probe, outcome, asked, sent_ago = number(), number(), flag(), text(), number(), number()
  local may_retry = settle_retries(outcome, flag() and not probe)
  -- What the answer changes in the limits of the host: -1 as the version if nothing.
  local version, forced, event, throttle_wait, begins = number(), flag(), text(), number(), flag()
  local is_throttling, ask = flag(), read_ask()
  local policy, history = ask.policy, begins and ask.costs[1] and ask.costs[1].budget.g or ''
  if outcome == 'throttled' and version >= 0 then
    -- How long nothing is sent depends on all that is known.
    if not forced and version ~= limits_version() or throttle_wait == -2 then
      local reply = stale(version, -1)
      reply[5] = history
      return reply
    end
    note(event .. history)
  elseif has_limits() then
    note(event)
  end
  local wait = outcome == 'throttled' and throttle_wait >= 0 and throttle_wait or nil
  if asked > 0 then wait = math.min(asked, policy.cap) end
  for _, cost in ipairs(ask.costs) do
    if cost.slots > 0 then release(cost.budget.s, id) end
  end
  local breaker = breaker_for(ask)
  local released = probe and breaker.t and release(breaker.t.l, id)
  local transition = breaker_settle(breaker, ask, outcome, generation, now - sent_ago, wait)
  if outcome == 'failure' or outcome == 'throttled' then
    local length, reason = nil, nil
    if asked > 0 then
      learn(breaker, policy, asked)
      length, reason = math.min(asked, policy.cap), 'retry-after'
    elseif outcome == 'throttled' and policy.throttle_block >= 0 then
      length, reason = policy.throttle_block, 'throttled'
    end
    if length then transition = block_all(now + length, reason) or transition end
  end
  local till = state_of(breaker) == 'open' and trip_until(breaker.t) or -1
  local adjusted = nil
  if ask.aimd and ask.costs[1] then
    adjusted = observe(ask.costs[1].budget, ask.aimd, is_throttling)
  end
  save(ask.who)
  local wakes = truth(released or transition) + (may_retry and 0 or 2)
  local reply = { now, wakes, till, adjusted and 0 or -1 }
  for index = 1, 3 do reply[4 + index] = adjusted and adjusted[index] or 0 end
  add_transition(reply, transition)
  return version >= 0 and add_lacking(reply, version) or reply
end

-- Records what the headers of an answer state.
function steps.state()
  local who, version, event = text(), number(), text()
  note(event)
  save(who)
  return add_lacking({ now }, version)
end

-- Replaces events of the host's limits by a snapshot.
function steps.compact()
  local who, version, snapshot = text(), number(), text()
  local done = compact(version, snapshot)
  if done then save(who) end
  return { now, truth(done) }
end

-- Forgets the host's limits, and returns what a process lacks to know what they were.
function steps.forget()
  local who, version = text(), number()
  local reply = add_lacking({ now }, version)
  if has_limits() then
    forget_limits()
    save(who)
  end
  return reply
end

-- Forgets the adaptive rates, whose run has ended.
function steps.forget_adaptation()
  local who, forgotten = text(), false
  for _, budget in pairs(site.u) do
    forgotten = forgotten or budget.y ~= nil
    budget.m, budget.y = 1000, nil
  end
  if forgotten then save(who) end
  return { now, truth(forgotten) }
end

function steps.renew()
  local who, expires, ids = text(), now + number(), {}
  local count = number()
  for _ = 1, count do ids[number()] = true end
  if count > 0 then
    for _, budget in pairs(site.u) do renew(budget.s, ids, expires) end
    if site.b.t then renew(site.b.t.l, ids, expires) end
    for _, own in pairs(site.i) do
      if own.t then renew(own.t.l, ids, expires) end
    end
    save(who)
  end
  local state, generation, roles = state_of(site.b), site.b.e, 0
  for _, own in pairs(site.i) do
    generation = generation + own.e
    if state_of(own) == 'half_open' then roles = roles + 1 end
  end
  local half_open = state == 'half_open' and 1 or 0
  if state ~= 'open' then return { now, generation, half_open, roles } end
  return { now, generation, half_open, roles, trip_until(site.b.t), trip_reason(site.b.t) }
end

function steps.block()
  local who, length, reason = text(), number(), text()
  local transition = block_all(now + length, reason)
  save(who)
  return add_transition({ now }, transition)
end

function steps.unblock()
  local who, event = text(), text()
  if has_limits() then note(event) end
  local from, generation = state_of(site.b), site.b.e
  for _, own in pairs(site.i) do generation = generation + own.e + 1 end
  site.i = {}
  site.b = { e = generation + (from == 'closed' and 0 or 1), f = 0 }
  save(who)
  if from == 'closed' then return { now } end
  return add_transition({ now }, { from = from, to = 'closed', fails = 0, reset = -1, reason = '' })
end

-- The whole state, for display.
function steps.view()
  return { now, raw and cmsgpack.pack(site) or '', lacking(-1) }
end

if log then fold() end
return steps[ARGV[2] or 'enter']()
