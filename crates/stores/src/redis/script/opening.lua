-- One step on the state of a site, atomically: the twin of `docstokg_policy::site::Site`.
--
-- Times are whole microseconds of the server's clock; what callers send and get are lengths of time. The functions bear
-- the names of those in Rust and do the same in the same order: a property test runs both side by side. The files of this
-- directory are one script: this one, `history`, `budget`, `kinds`, `breaker`, `site` and `steps`, in this order.
--
-- KEYS[1] is the whole state, one string of three parts:
--   the HEAD of 76 bytes: layout, day, clean, era, where the log begins; and for each of four KINDS of question (the same
--   budgets under the same windows): its name, from when on it may go at once, and how often before the log is folded;
--   the PAGE: everything as it was once, as MessagePack. The history of a budget is a string in it, eight bytes a grant,
--   oldest first; that of each large window another one, of buckets of sixteen bytes;
--   the LOG: what has gone since, eight bytes each: instant and kind.
-- An `enter` of a kind that may go at once reads the head and adds to the log. Every other step folds the log into the
-- page. The first layout was a page alone, and reservations had no positions up to the second: both are read, and
-- written as this one. Fields of a site or budget that this version does not know stay in the page as they are.
--
-- ARGV[1] is the question, packed as `wire.rs` packs it; ARGV[2] the step, if it is not `enter`; ARGV[3] the time to go by,
-- or -1 for the server's; what else the step needs follows.
--
-- The server hashes every string that a script touches and formats every number that it is given: what is short is fast.

-- The program puts the LAYOUT, in a line of its own, before this.

local DAY = 86400000000
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

local FAR, OVERLAPPING = 9007199254740991, 4294967295
-- A month, and the day that may pass before a step renews it.
local KEEP = 33 * 86400
local KINDS, LOGGED = 4, 128
local EXACT_LIMIT, COARSE_BUCKETS = 4096, 1024
local GRACE, OVERDUE, PACING, FORGET_RATE, WAITS = 3000000, 100000, 60000000, 600000000, 8
local SHORTEST_TURN, LONGEST_TURN, FITTED = 2000, 25000, 48

local raw, site, log = call('GET', key), nil, nil
local layout = raw and string.byte(raw)
if not raw then
  site = { b = { e = 0, f = 0 }, i = {}, u = {} }
elseif layout == LAYOUT or layout == 2 then
  local _
  _, site = cmsgpack.unpack_limit(raw, 1, 76)
  log = read('<I4', raw, 9)
elseif layout >= 0x80 and layout < 0x90 then
  site = cmsgpack.unpack(raw)
else
  return redis.error_reply('LAYOUT ' .. layout)
end
site.q = site.q or {}
-- When the site was born: whoever knows another birth has used what is forgotten here.
site.n = site.n or math.max(now, 1)
if raw and layout ~= LAYOUT then
  -- Reservations had no positions: those of waiting requests are dropped, what was sent still counts.
  for _, budget in pairs(site.u) do
    for place = #budget.t, 1, -1 do
      if budget.t[place].s then budget.t[place].p = 0 else table.remove(budget.t, place) end
    end
  end
end

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
