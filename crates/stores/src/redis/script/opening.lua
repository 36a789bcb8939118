-- One operation on the state of a site, atomically: the Lua implementation of `docstokg_policy::site`.
--
-- Times are whole microseconds of the server's clock; callers send and get lengths of time. The
-- functions have the names of those in Rust and do the same in the same order: a property test runs
-- both side by side. The files of this directory are one script: this one, `history`, `budget`,
-- `limits`, `kinds`, `breaker`, `site` and `steps`, in this order.
--
-- KEYS[1] is the whole state, one string of three parts:
--   the HEADER of 76 bytes: layout, day, clean, generation, where the log begins; and for each of
--   four KINDS of question (the same budgets under the same windows): its name, from when on it may
--   go at once, and how often before the log is folded;
--   the SNAPSHOT: the whole state at one time, as MessagePack. The history of a budget is a string in
--   it, eight bytes a permit, oldest first; that of each large window another one, of buckets of
--   sixteen bytes;
--   the LOG: what has gone since, eight bytes each: instant and kind.
-- An `enter` of a kind that may go at once reads the header and appends to the log. Every other
-- operation folds the log into the snapshot. Fields of a site or budget that this version does not
-- know stay in the snapshot as they are.
--
-- ARGV[1] is the question, packed as `wire/question.rs` packs it; ARGV[2] the operation, if it is not
-- `enter`; ARGV[3] the time to use, or -1 for the server's; further arguments follow.
--
-- The server hashes every string that a script touches and formats every number that it is given:
-- short ones are fast.

-- The program puts the LAYOUT, in a line of its own, before this.

local DAY = 86400000000
local key, question, call, read = KEYS[1], ARGV[1], redis.call, struct.unpack

local now = tonumber(ARGV[3] or -1)
if now < 0 then
  local time = call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- Almost always the breaker is closed, no request waits and the windows have room: see `plan`.
local kind, over = nil, false
if (ARGV[2] or 'enter') == 'enter' then
  local quick
  quick, kind = read('Bc8', question)
  local header = quick == 1 and call('GETRANGE', key, '0', '75') or ''
  local found = #header == 76 and string.find(header, kind, 13, true)
  if found and found % 16 == 13 then
    local layout, day, clean, generation, log = read('<BI2BI4I4', header)
    local free, most = read('<I7B', header, found + 8)
    if layout == LAYOUT and most > 0 and free <= now and day == math.floor(now / DAY) then
      local length = call('APPEND', key, struct.pack('<I7B', now, (found - 13) / 16))
      if length <= log + 8 * most then return { now, generation, clean } end
      over = true
    end
  end
  if quick == 0 then kind = nil end
end

local FAR, OVERLAPPING = 9007199254740991, 4294967295
-- A month, and the day that may pass before an operation renews it.
local KEEP = 33 * 86400
local KINDS, LOGGED = 4, 128
local EXACT_LIMIT, COARSE_BUCKETS = 4096, 1024
local GRACE, OVERDUE, PACING, FORGET_RATE, WAITS = 3000000, 100000, 60000000, 600000000, 8
local SHORTEST_TURN, LONGEST_TURN, FITTED, RETRY_COST, SHORTEST_OPEN = 2000, 25000, 48, 10, 500000

local raw, site, log = call('GET', key), nil, nil
local layout = raw and string.byte(raw)
if not raw then
  site = { b = { e = 0, f = 0 }, i = {}, u = {} }
elseif layout == LAYOUT then
  local _
  _, site = cmsgpack.unpack_limit(raw, 1, 76)
  log = read('<I4', raw, 9)
else
  return redis.error_reply('LAYOUT ' .. layout)
end
site.q = site.q or {}
-- When the site was created: a process that knows another instant has used what is lost here.
site.n = site.n or math.max(now, 1)

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
