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
  ask.birth, from = read('<I8', question, from)
  for _, charge in ipairs(ask.charges) do charge.weight, charge.slots, from = read('<I4I4', question, from) end
  local latest, deadline, isolated, ahead
  ask.id, latest, deadline, ask.asked, isolated, ahead, from = read('<I8I8I8I8BI4', question, from)
  ask.latest, ask.deadline, ask.isolated = instant(latest), instant(deadline), isolated == 1
  -- The head of its queue, behind so many weights, or overlapping with the head.
  ask.head, ask.ahead = ahead == 0, ahead > 0 and ahead < OVERLAPPING and ahead - 1 or nil
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

-- Order among requests that wait: twin of `site/order.rs`.

-- Returns a copy of the reservation under which a holder waits in the budgets of a request.
local function held_by(ask, id)
  for _, charge in ipairs(ask.charges) do
    local held = id and waiting(charge.budget, id)
    if held then return { i = id, p = held.p, a = held.a } end
  end
  return nil
end

local function next_position(ask)
  local last = 0
  for _, charge in ipairs(ask.charges) do
    for _, held in ipairs(charge.budget.t) do last = math.max(last, held.p) end
  end
  return last + 1
end

local function earlier_due(charge, mine)
  local earlier, position = 0, mine and mine.p or FAR
  for _, held in ipairs(charge.budget.t) do
    if not held.s and held.a <= now and held.p < position and not (mine and mine.i == held.i) then earlier = earlier + 1 end
  end
  return earlier
end

local NOTHING = {}

local function fit(ask, parts, before, asks, from)
  local at, because = from, nil
  local queued = asks and before.queued
  local is_behind = asks and (ask.ahead or queued)
  while true do
    local start = at
    for _, part in ipairs(parts) do
      local charge = ask.charges[part.c]
      local counted, ahead = before.counted[part.c] or NOTHING, nil
      if is_behind then ahead = (queued and queued[part.c] or 0) + (ask.ahead or 0) end
      local next, window = budget_fit(charge.budget, charge.windows, part.w, ahead, counted, is_behind and from or at)
      if next > at then at, because = next, window end
    end
    if at == start or #parts < 2 or is_behind then return at, because end
  end
end

-- Fits one waiting request as it stands now, and counts it from that instant on.
local function count_waiting(ask, id, before)
  local parts, from = {}, now
  for place, charge in ipairs(ask.charges) do
    local held = waiting(charge.budget, id)
    if held then
      local weight = held.w
      for _, window in ipairs(charge.windows) do weight = math.min(weight, window.limit) end
      parts[#parts + 1] = { c = place, w = weight }
      from = math.max(from, held.a)
      if held.a + OVERDUE < now and not (before.overdue and before.overdue <= held.x) then before.overdue = held.x end
    end
  end
  local at = fit(ask, parts, before, false, from)
  for _, part in ipairs(parts) do
    if part.w > 0 then
      local counted, place = before.counted[part.c], 1
      while counted[place] and counted[place].a <= at do place = place + 1 end
      table.insert(counted, place, { a = at, w = part.w })
    end
  end
end

-- Works out what a request has before it: what is dialling, and the waiting requests with smaller positions.
local function before_of(ask, mine)
  local before, some = { counted = {} }, false
  for _, charge in ipairs(ask.charges) do some = some or #charge.budget.t > 0 end
  if not some then return before end
  local position, earlier, seen = mine and mine.p or FAR, {}, {}
  for place, charge in ipairs(ask.charges) do
    local counted = {}
    for _, held in ipairs(charge.budget.t) do
      if held.s then
        counted[#counted + 1] = { a = now, w = held.w }
      elseif held.p < position and not seen[held.i] then
        seen[held.i] = true
        earlier[#earlier + 1] = held
      end
    end
    before.counted[place] = counted
  end
  table.sort(earlier, function(one, other)
    if one.p ~= other.p then return one.p < other.p end
    return one.i < other.i
  end)
  for place = 1, math.min(#earlier, FITTED) do count_waiting(ask, earlier[place].i, before) end
  if #earlier > FITTED then
    local last = earlier[FITTED].p
    before.queued = {}
    for place, charge in ipairs(ask.charges) do
      local queued = 0
      for _, held in ipairs(charge.budget.t) do
        if not held.s and held.p > last and held.p < position then queued = queued + held.w end
      end
      before.queued[place] = queued
    end
  end
  return before
end

local function first_fit(ask, before, from)
  local parts = {}
  for place, charge in ipairs(ask.charges) do parts[place] = { c = place, w = charge.weight } end
  return fit(ask, parts, before, true, from)
end

-- Puts a newcomer that could go at once behind those whose turn it is, as far as its patience allows.
local function give_way(ask, before, at, because)
  local behind, window = nil, nil
  for _, charge in ipairs(ask.charges) do
    if charge.weight > 0 then
      local turn, mine = turn_behind(charge.budget, charge.windows)
      if turn and (not behind or turn >= behind) then behind, window = turn, mine end
    end
  end
  if not behind then return at, because end
  local later = first_fit(ask, before, behind)
  if later > behind or later > ask.latest or later > ask.deadline then return at, because end
  return behind, window
end

-- Reserves a place, or moves the one that the holder has: its position stays.
local function reserve_place(ask, id, mine, at, for_slots)
  local position = mine and mine.p or next_position(ask)
  id = id or ask.id
  for _, charge in ipairs(ask.charges) do
    if charge.weight > 0 or for_slots and charge.slots > 0 then
      reserve(charge.budget, { i = id, p = position, a = at, w = charge.weight, x = at + GRACE })
    end
  end
  return id
end

-- Returns nothing where every shared slot is there, else how many requests with an earlier position are about to take one.
local function waits_for_slot(ask, id, mine)
  local missing = nil
  for _, charge in ipairs(ask.charges) do
    if charge.slots > 0 then
      local earlier, has = earlier_due(charge, mine), false
      if #charge.budget.s + earlier < charge.slots then has = true end
      for _, slot in ipairs(charge.budget.s) do has = has or slot.i == id end
      if not has then missing = math.max(missing or 0, earlier) end
    end
  end
  return missing
end

local function grant(ask, held)
  local id = held or ask.id
  for _, charge in ipairs(ask.charges) do
    local budget = charge.budget
    if held then release(budget.t, id) end
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

local function judge(ask, id)
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
          mine = mine or (id and taken.i == id)
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
        answer.kind, answer.at, answer.reason, answer.probing = 'await', math.min(refusal.till, ask.deadline), refusal.reason, refusal.probing
        return answer
      else
        answer.kind, answer.at, answer.reason, answer.probing = 'open', refusal.till, refusal.reason, refusal.probing
        return answer
      end
    end
  end
  local mine = held_by(ask, id)
  local before = before_of(ask, mine)
  local at, because = first_fit(ask, before, from)
  if at <= now and not ask.ahead and not id and not probe then at, because = give_way(ask, before, at, because) end
  answer.at, answer.because, answer.probe = at, because, probe
  if at <= now and not ask.ahead then
    local earlier = waits_for_slot(ask, id, mine)
    if earlier and not ask.head then
      answer.kind, answer.at, answer.because, answer.probe = 'queue', now, nil, nil
      return answer
    end
    if earlier then
      answer.kind, answer.at, answer.because, answer.probe = 'slot', earlier, nil, nil
      answer.id = reserve_place(ask, id, mine, now, true)
      return answer
    end
    answer.kind = 'go'
    answer.id, answer.clean = grant(ask, id)
    answer.at = now
    if probe then lease(breaker_for(ask), answer.id, ask.role, now + ask.lease) end
    return answer
  end
  local latest = mine and math.max(ask.latest, mine.a + GRACE) or ask.latest
  if at > now and (at > math.max(latest, from) or at > ask.deadline) then
    answer.kind = 'rate'
    return answer
  end
  if not ask.head then
    answer.kind = 'queue'
    return answer
  end
  if before.overdue and before.overdue < at then at = before.overdue end
  answer.kind, answer.at = 'wait', at
  answer.id = reserve_place(ask, id, mine, at, false)
  if probe then lease(breaker_for(ask), answer.id, ask.role, at + ask.lease) end
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
    shadow.till or -1, shadow.reason or '', truth(shadow.probing), site.n,
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
