-- Questions and answers: Lua implementation of `site.rs`.

-- The retry budget: Lua implementation of `retry_budget.rs`. `site.r` is what is spent (s) and since when
-- time earns it back (a).

local function spent_on_retries()
  return site.r and site.r.s or 0
end

-- Takes in how an attempt ended. Returns whether it may be repeated, if it wants that.
local function settle_retries(outcome, wants_retry)
  local budget = site.r or { s = 0, a = 0 }
  if budget.s > 0 then
    local minutes = math.floor(math.max(now - budget.a, 0) / 60000000)
    budget.s = math.max(budget.s - math.min(minutes * RETRY_COST, 65535), 0)
    budget.a = budget.a + minutes * 60000000
  end
  local may, cost = true, 0
  if outcome == 'success' then
    budget.s = math.max(budget.s - 2, 0)
  elseif wants_retry then
    if outcome == 'failure' then cost = RETRY_COST end
    if outcome == 'throttled' then cost = RETRY_COST / 2 end
    may = budget.s + cost <= 10 * RETRY_COST
    if may then
      if budget.s == 0 then budget.a = now end
      budget.s = budget.s + cost
    end
  end
  if site.r or budget.s > 0 then site.r = budget end
  return may
end

-- A length from now on, or forever.
local function instant(length)
  if length >= FAR then return FAR end
  return now + length
end

local ROLES = { [0] = 'metadata', 'landing', 'artifact' }

local function read_ask()
  local ask, policy = { costs = {} }, {}
  local costs, from = read('B', question, 10)
  for index = 1, costs do
    local cost, windows, name = { windows = {} }, nil, nil
    name, windows, from = read('<sB', question, from)
    cost.budget = budget_of(name)
    for other = 1, windows do
      local window = {}
      window.limit, window.per, window.guard, from = read('<I4I8I8', question, from)
      window.width = window.per + window.guard
      cost.windows[other] = window
    end
    ask.costs[index] = cost
  end
  know(string.sub(question, 10, from - 1))
  ask.birth, from = read('<I8', question, from)
  for _, cost in ipairs(ask.costs) do
    local spacings
    cost.weight, cost.slots, spacings, from = read('<I4I4B', question, from)
    cost.spacings = {}
    for index = 1, spacings do
      local spacing = {}
      spacing.limit, spacing.per, spacing.guard, spacing.spread, from = read('<I4I8I8B', question, from)
      spacing.width = spacing.per + spacing.guard
      cost.spacings[index], ask.is_paced = spacing, true
    end
  end
  local latest, deadline, isolated, ahead
  ask.id, latest, deadline, ask.asked, ask.pace, isolated, ahead, from = read('<I8I8I8I8I4BI4', question, from)
  ask.latest, ask.deadline, ask.isolated = instant(latest), instant(deadline), isolated == 1
  -- The head of its queue, behind a number of weights, or overlapping with the head.
  ask.head, ask.ahead = ahead == 0, ahead > 0 and ahead < OVERLAPPING and ahead - 1 or nil
  local role, waits, epoch, early, shadow, adaptive, metadata, landing, artifact
  ask.who, role, waits, ask.jitter_sample, ask.lease, from = read('<sBBdI8', question, from)
  ask.role, ask.waits = ROLES[role], waits == 1
  policy.fail_max, policy.reset, policy.ceiling, policy.cap, policy.threshold, policy.within, policy.cooldown, from =
    read('<I4I8I8I8I4I8I8', question, from)
  metadata, landing, artifact, policy.jitter, policy.throttle_block, epoch, early, shadow, adaptive, from =
    read('<I4I4I4I8dBBBB', question, from)
  policy.trials = { metadata = metadata, landing = landing, artifact = artifact }
  policy.one_per_epoch, policy.early_probes, policy.shadow = epoch == 1, early == 1, shadow == 1
  ask.policy = policy
  if adaptive == 1 then
    local aimd = {}
    aimd.window, aimd.high, aimd.up, aimd.down, aimd.lowest, aimd.highest, from = read('<I8dddI4I4', question, from)
    ask.aimd = aimd
  end
  if read('B', question, from) == 1 then ask.limits = read_limits(from + 1) end
  return ask
end

local function advance_site(ask)
  for _, cost in ipairs(ask.costs) do
    remember(cost.budget, cost.windows, cost.spacings)
    expire(cost.budget)
  end
  return advance(breaker_for(ask))
end

-- Order among requests that wait: Lua implementation of `site/order.rs`.

-- Returns a copy of the reservation under which a holder waits in the budgets of a request.
local function own_reservation(ask, id)
  for _, cost in ipairs(ask.costs) do
    local reservation = id and waiting(cost.budget, id)
    if reservation then return { i = id, p = reservation.p, a = reservation.a } end
  end
  return nil
end

local function next_position(ask)
  local last = 0
  for _, cost in ipairs(ask.costs) do
    for _, reservation in ipairs(cost.budget.t) do last = math.max(last, reservation.p) end
  end
  return last + 1
end

local function waiting_before(ask, own)
  local most, position = 0, own and own.p or FAR
  for _, cost in ipairs(ask.costs) do
    local waiting = 0
    for _, reservation in ipairs(cost.budget.t) do
      if not reservation.s and reservation.p < position then waiting = waiting + 1 end
    end
    most = math.max(most, waiting)
  end
  return most
end

local function earlier_due(cost, own)
  local earlier, position = 0, own and own.p or FAR
  for _, reservation in ipairs(cost.budget.t) do
    local is_due = not reservation.s and reservation.a <= now
    local is_own = own and own.i == reservation.i
    if is_due and reservation.p < position and not is_own then earlier = earlier + 1 end
  end
  return earlier
end

local NOTHING = {}

local function fit(ask, parts, before, asks, from, pace)
  local at, because = from, nil
  local queued = asks and before.queued
  local is_behind = asks and (ask.ahead or queued)
  while true do
    local start = at
    for _, part in ipairs(parts) do
      local cost = ask.costs[part.c]
      local counted, ahead = before.counted[part.c] or NOTHING, nil
      if is_behind then ahead = (queued and queued[part.c] or 0) + (ask.ahead or 0) end
      local start = is_behind and from or at
      local next, window = budget_fit(cost.budget, cost, part.w, ahead, counted, start, pace)
      if next > at then at, because = next, window end
    end
    if at == start or #parts < 2 or is_behind then return at, because end
  end
end

-- Fits one waiting request as of now, and counts it from that instant on.
local function count_waiting(ask, id, before)
  local parts, from = {}, now
  for index, cost in ipairs(ask.costs) do
    local reservation = waiting(cost.budget, id)
    if reservation then
      local weight = reservation.w
      for _, window in ipairs(cost.windows) do weight = math.min(weight, window.limit) end
      parts[#parts + 1] = { c = index, w = weight }
      from = math.max(from, reservation.a)
      if reservation.a + OVERDUE < now and not (before.overdue and before.overdue <= reservation.x) then
        before.overdue = reservation.x
      end
    end
  end
  local at = fit(ask, parts, before, false, from, ask.pace)
  for _, part in ipairs(parts) do
    if part.w > 0 then
      local counted, index = before.counted[part.c], 1
      while counted[index] and counted[index].a <= at do index = index + 1 end
      table.insert(counted, index, { a = at, w = part.w })
    end
  end
end

-- Lists what comes before a request: what is dialling, and the waiting requests with smaller positions.
local function before_of(ask, own)
  local before, some = { counted = {} }, false
  for _, cost in ipairs(ask.costs) do some = some or #cost.budget.t > 0 end
  if not some then return before end
  local position, earlier, seen = own and own.p or FAR, {}, {}
  for index, cost in ipairs(ask.costs) do
    local counted = {}
    for _, reservation in ipairs(cost.budget.t) do
      if reservation.s then
        counted[#counted + 1] = { a = now, w = reservation.w }
      elseif reservation.p < position and not seen[reservation.i] then
        seen[reservation.i] = true
        earlier[#earlier + 1] = reservation
      end
    end
    before.counted[index] = counted
  end
  table.sort(earlier, function(one, other)
    if one.p ~= other.p then return one.p < other.p end
    return one.i < other.i
  end)
  for index = 1, math.min(#earlier, FITTED) do count_waiting(ask, earlier[index].i, before) end
  if #earlier > FITTED then
    local last = earlier[FITTED].p
    before.queued = {}
    for index, cost in ipairs(ask.costs) do
      local queued = 0
      for _, reservation in ipairs(cost.budget.t) do
        if not reservation.s and reservation.p > last and reservation.p < position then
          queued = queued + reservation.w
        end
      end
      before.queued[index] = queued
    end
  end
  return before
end

local function first_fit(ask, before, from, pace)
  local parts = {}
  for index, cost in ipairs(ask.costs) do parts[index] = { c = index, w = cost.weight } end
  return fit(ask, parts, before, true, from, pace)
end

-- Returns whether an instant is beyond what the caller waits for.
local function is_too_late(ask, own, at, from)
  local latest = own and math.max(ask.latest, own.a + GRACE) or ask.latest
  return at > math.max(latest, from) or at > ask.deadline
end

-- Finds the first instant that fits a request. One that would be refused because of its spacing goes by
-- the windows alone, behind every request before it.
local function paced_fit(ask, own, before, from)
  local at, because = first_fit(ask, before, from, ask.pace)
  if not ask.is_paced or not is_too_late(ask, own, at, from) then return at, because end
  local behind = from
  for _, counted in pairs(before.counted) do
    local last = counted[#counted]
    if last then behind = math.max(behind, last.a) end
  end
  return first_fit(ask, before, behind, nil)
end

-- Puts a new request that could go at once behind those that are due, as far as its patience allows.
local function give_way(ask, before, at, because)
  local behind, window = nil, nil
  for _, cost in ipairs(ask.costs) do
    if cost.weight > 0 then
      local turn, own = turn_behind(cost.budget, cost.windows)
      if turn and (not behind or turn >= behind) then behind, window = turn, own end
    end
  end
  if not behind then return at, because end
  local later = first_fit(ask, before, behind, ask.pace)
  if later > behind or later > ask.latest or later > ask.deadline then return at, because end
  return behind, window
end

-- Makes a reservation, or moves the one that the holder has: its position stays.
local function reserve_at(ask, id, own, at, for_slots)
  local position = own and own.p or next_position(ask)
  id = id or ask.id
  for _, cost in ipairs(ask.costs) do
    if cost.weight > 0 or for_slots and cost.slots > 0 then
      reserve(cost.budget, { i = id, p = position, a = at, w = cost.weight, x = at + GRACE })
    end
  end
  return id
end

-- Returns nil if every shared slot that is needed is free, or else how many requests with an earlier
-- position are about to take one.
local function waits_for_slot(ask, id, own)
  local missing = nil
  for _, cost in ipairs(ask.costs) do
    if cost.slots > 0 then
      local earlier, has = earlier_due(cost, own), false
      if #cost.budget.s + earlier < cost.slots then has = true end
      for _, slot in ipairs(cost.budget.s) do has = has or slot.i == id end
      if not has then missing = math.max(missing or 0, earlier) end
    end
  end
  return missing
end

local function permit(ask, waited)
  local id = waited or ask.id
  for _, cost in ipairs(ask.costs) do
    local budget = cost.budget
    if waited then release(budget.t, id) end
    spend(budget, cost.weight, now)
    if cost.slots > 0 then
      release(budget.s, id)
      table.insert(budget.s, { i = id, x = now + ask.lease })
    end
    if waited and cost.weight > 0 then
      if #budget.w >= WAITS then table.remove(budget.w, 1) end
      table.insert(budget.w, { a = now, l = ask.asked })
    end
  end
  local breaker = breaker_for(ask)
  local teaches = ask.limits and ask.limits.teaches
  return id, not breaker.t and breaker.f == 0 and not teaches and spent_on_retries() == 0
end

-- Returns the refusal of a tripped breaker, or nil and from when on a probe may go.
local function admit(ask, id, breaker)
  local trip = breaker.t
  if trip_until(trip) > now then
    return { till = trip_until(trip), reason = trip_reason(trip), probing = false }
  end
  local probes, own, first = 0, false, nil
  local most, is_early = ask.policy.trials[ask.role], probes_early(breaker, ask.policy)
  if is_early then most = math.min(most, 1) end
  for _, taken in ipairs(trip.l) do
    if (is_early or taken.o == ask.role) and taken.x > now then
      probes = probes + 1
      first = first or taken.x
      own = own or (id and taken.i == id)
    end
  end
  if own then return nil, now end
  if probes < most then
    -- Rounded as a length in nanoseconds is.
    return nil, now + math.floor(ask.policy.jitter * ask.jitter_sample + 0.0005)
  end
  return { till = first or now + ask.policy.reset, reason = trip.r, probing = true }
end

-- Asks the breaker. Returns whether the answer is complete, from when on the request may go, and whether
-- it is a probe.
local function pass_breaker(ask, id, answer)
  local breaker = breaker_for(ask)
  if not breaker.t then return false, now, false end
  local refusal, from = admit(ask, id, breaker)
  if not refusal then return false, from, true end
  if ask.policy.shadow then
    answer.shadow = refusal
    return false, now, false
  end
  answer.reason, answer.probing = refusal.reason, refusal.probing
  if ask.waits and now < ask.deadline and (refusal.till <= ask.deadline or refusal.probing) then
    answer.kind, answer.at = 'await', math.min(refusal.till, ask.deadline)
  else
    answer.kind, answer.at = 'open', refusal.till
  end
  return true
end

-- Returns the first instant that fits a request by its windows and by the limits of the host, and what
-- holds it back; nil and how many wait before it, if its process did not say when it may go behind them.
local function limited_fit(ask, own, before, from, probe)
  local waiting = waiting_before(ask, own)
  local turn = limit_turn(ask.limits, waiting)
  if not turn then return nil, waiting end
  local learned, stated = probe and 0 or math.max(turn.learned, now), math.max(turn.paced, now)
  if is_too_late(ask, own, stated, from) then stated = math.max(turn.earliest, now) end
  local at, because = paced_fit(ask, own, before, math.max(from, learned, stated))
  if at > now and learned == at then because = ask.limits.window end
  if at > now and stated == at then because = turn end
  return at, because
end

local function decide_at_rates(ask, id)
  local answer = { generation = breaker_for(ask).e }
  local complete, from, probe = pass_breaker(ask, id, answer)
  if complete then return answer end
  local own = own_reservation(ask, id)
  local before = before_of(ask, own)
  local at, because
  if ask.limits then
    at, because = limited_fit(ask, own, before, from, probe)
    if not at then return { kind = 'stale', waiting = because } end
  else
    at, because = paced_fit(ask, own, before, from)
  end
  if at <= now and not ask.ahead and not id and not probe then
    at, because = give_way(ask, before, at, because)
  end
  answer.at, answer.because, answer.probe = at, because, probe
  if at <= now and not ask.ahead then
    local earlier = waits_for_slot(ask, id, own)
    if earlier and not ask.head then
      answer.kind, answer.at, answer.because, answer.probe = 'queue', now, nil, nil
      return answer
    end
    if earlier then
      answer.kind, answer.at, answer.because, answer.probe = 'slot', earlier, nil, nil
      answer.id = reserve_at(ask, id, own, now, true)
      return answer
    end
    answer.kind = 'go'
    answer.id, answer.clean = permit(ask, id)
    answer.at = now
    if probe then lease(breaker_for(ask), answer.id, ask.role, now + ask.lease) end
    return answer
  end
  if at > now and is_too_late(ask, own, at, from) then
    answer.kind = 'rate'
    return answer
  end
  if not ask.head then
    answer.kind = 'queue'
    return answer
  end
  if before.overdue and before.overdue < at then at = before.overdue end
  answer.kind, answer.at = 'wait', at
  answer.id = reserve_at(ask, id, own, at, false)
  if probe then lease(breaker_for(ask), answer.id, ask.role, at + ask.lease) end
  return answer
end

-- A process that does not adapt its rate goes by the full one, whatever others have found.
local function decide(ask, id)
  if ask.aimd then return decide_at_rates(ask, id) end
  local adapted = {}
  for _, cost in ipairs(ask.costs) do
    if cost.budget.m ~= 1000 then
      adapted[#adapted + 1] = { cost.budget, cost.budget.m }
      cost.budget.m = 1000
    end
  end
  local answer = decide_at_rates(ask, id)
  for _, pair in ipairs(adapted) do pair[1].m = pair[2] end
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
  local snapshot, kinds = cmsgpack.pack(site), {}
  for index, known in ipairs(site.q) do kinds[index] = struct.pack('<c8I7B', known.k, plan(known.a)) end
  local clean = site.b.f == 0 and spent_on_retries() == 0 and 1 or 0
  local day, log_begins = math.floor(now / DAY), 76 + #snapshot
  local header = struct.pack('<BI2BI4I4', LAYOUT, day, clean, site.b.e, log_begins) .. table.concat(kinds)
  local after = header .. string.rep('\0', 76 - #header) .. snapshot
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

-- Adds what the asking process lacks of the host's limits, as the last part of a reply.
local function add_lacking(reply, version)
  reply[#reply + 1] = lacking(version)
  return reply
end

local function entered(answer, transition)
  local because, shadow = answer.because or {}, answer.shadow or {}
  return add_transition({
    now, answer.kind, answer.at or 0, answer.id or 0, answer.generation, truth(answer.probe), truth(answer.clean),
    because.limit or 0, because.per or 0, answer.reason or '', truth(answer.probing),
    shadow.till or -1, shadow.reason or '', truth(shadow.probing), site.n,
  }, transition)
end

local function observe(budget, aimd, throttled)
  local counts, adjusted = budget.y or { s = 0, c = 0, t = 0 }, nil
  if counts.c > 0 and counts.s + aimd.window <= now then
    local high = counts.t / counts.c >= aimd.high
    local factor = high and 1 - aimd.down or 1 + aimd.up
    local share = math.floor(budget.m / 1000 * factor * 1000 + 0.5)
    share = math.max(10, math.min(1000, share))
    share = math.max(aimd.lowest, math.min(aimd.highest, share))
    local wait = budget.w[#budget.w]
    local was_binding = wait and wait.a >= counts.s
    if share ~= budget.m and (high or was_binding) then adjusted = { budget.m, share, high and 'high_429_ratio' or 'low_429_ratio' } end
  end
  if counts.c == 0 or counts.s + aimd.window <= now then counts = { s = now, c = 0, t = 0 } end
  counts.c = counts.c + 1
  if throttled then counts.t = counts.t + 1 end
  budget.y = counts
  if adjusted then budget.m = adjusted[2] end
  return adjusted
end

local function renew(list, ids, expires)
  for _, lease in ipairs(list) do
    if ids[lease.i] and lease.x < expires then lease.x = expires end
  end
end
