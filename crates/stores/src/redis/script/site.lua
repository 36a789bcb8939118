-- Questions and answers: twin of `site.rs`.

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
      local turn, mine = turn_behind(charge.budget, charge.windows)
      if turn and (not behind or turn >= behind) then behind, window = turn, mine end
    end
  end
  if not behind then return at, because end
  local later = first_fit(ask, behind)
  if later > behind or later > ask.latest or later > ask.deadline then return at, because end
  return behind, window
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
