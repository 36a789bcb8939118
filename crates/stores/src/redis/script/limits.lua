-- What is known of the host's own limits: a record of events that the program reads, not the script.
--
-- `site.l` is s, a snapshot as the program wrote it; b, its version; e, the events since, each a version
-- and an instant before what the program wrote; and n, the last version. A process that asks says which
-- version it knows, and gets what it lacks. A version is the instant of its event, or one more than the
-- last one: two histories have none in common, even if the server has lost the end of the first.

-- More events than this are not kept: a snapshot takes their place long before.
local EVENTS = 1024

-- What has not this form is not a record: it is learned again.
local function is_record(limits)
  local has_form = type(limits) == 'table' and type(limits.e) == 'table' and type(limits.s) == 'string'
  if not has_form or type(limits.n) ~= 'number' or type(limits.b) ~= 'number' then return false end
  for _, event in ipairs(limits.e) do
    if type(event) ~= 'string' or #event < 16 then return false end
  end
  return true
end

if site.l and not is_record(site.l) then site.l = nil end

local function limits_version()
  return site.l and site.l.n or 0
end

local function has_limits()
  local limits = site.l
  return limits and (limits.s ~= '' or #limits.e > 0) or false
end

-- Forgets what is known. The version stays, so that no process goes on with what it knew.
local function forget_limits()
  local version = math.max(limits_version() + 1, now)
  site.l = { n = version, b = version, s = '', e = {} }
end

-- Adds an event; none if it is empty.
local function note(event)
  if event == '' then return end
  if site.l and #site.l.e >= EVENTS then forget_limits() end
  local limits = site.l or { n = 0, b = 0, s = '', e = {} }
  limits.n = math.max(limits.n + 1, now)
  table.insert(limits.e, struct.pack('<I8I8', limits.n, now) .. event)
  site.l = limits
end

-- Returns after how many events a version was reached, or nil.
local function events_up_to(version)
  local limits = site.l
  if version == limits.b then return 0 end
  for index = #limits.e, 1, -1 do
    if read('<I8', limits.e[index]) == version then return index end
  end
  return nil
end

-- Returns what a process lacks that knows a version: the events since, or all.
local function lacking(version)
  local limits = site.l or { n = 0, b = 0, s = '', e = {} }
  site.l = limits
  local known = events_up_to(version)
  local parts = { struct.pack('<I8I4BB', limits.n, #limits.e, has_limits() and 1 or 0, known and 0 or 1) }
  if not known then parts[2] = struct.pack('<I8I4', limits.b, #limits.s) .. limits.s end
  for index = (known or 0) + 1, #limits.e do
    parts[#parts + 1] = struct.pack('<I4', #limits.e[index]) .. limits.e[index]
  end
  if limits.n == 0 then site.l = nil end
  return table.concat(parts)
end

-- The answer to a process that knows another version: nothing is changed.
local function stale(version, waiting)
  return { now, 'stale', waiting, lacking(version) }
end

-- Replaces the events up to a version by a snapshot.
local function compact(version, snapshot)
  local limits = site.l
  local count = limits and events_up_to(version)
  if not count or count == 0 and limits.s == snapshot then return false end
  local kept = {}
  for index = count + 1, #limits.e do kept[#kept + 1] = limits.e[index] end
  limits.b, limits.s, limits.e = version, snapshot, kept
  return true
end

-- Reads from when on a request may go, by how many wait before it, and what its permit changes.
local function read_limits(from)
  local limits, forced, moves, count, length, teaches = { turns = {} }, nil, nil, nil, nil, nil
  limits.version, forced, moves, limits.first, count, from = read('<I8BBI4B', question, from)
  limits.forced = forced == 1
  for index = 1, count do
    local turn = {}
    turn.learned, turn.paced, turn.earliest, turn.limit, turn.per, from = read('<I8I8I8I4I8', question, from)
    -- A request that waits for the answer to another one asks again after a time, not at an instant.
    if moves == 1 then turn.learned = turn.learned + now end
    limits.turns[index] = turn
  end
  limits.window = {}
  limits.window.limit, limits.window.per, teaches, from = read('<I4I8B', question, from)
  limits.teaches = teaches == 1
  length, from = read('<I2', question, from)
  limits.permit, from = string.sub(question, from, from + length - 1), from + length
  length, from = read('<I2', question, from)
  limits.advance, from = string.sub(question, from, from + length - 1), from + length
  return limits
end

local NO_TURN = { learned = 0, paced = 0, earliest = 0, limit = 0, per = 0 }

-- Returns the turn of a request with so many waiting requests before it; nil if its process did not say.
local function limit_turn(limits, waiting)
  if #limits.turns == 0 then return NO_TURN end
  local turn = limits.turns[waiting - limits.first + 1]
  return turn or limits.forced and limits.turns[#limits.turns] or nil
end
