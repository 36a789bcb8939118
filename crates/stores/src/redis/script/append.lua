-- Adds an entry to the log of a site and returns what the process has not seen of it. It decides
-- nothing: every process applies the entries in their order, each at its instant.
--
-- KEYS[1] is the record: a header (layout, when it was created, the version of the program that
-- wrote it, how much of the whole log was dropped, where the log begins in this string), the
-- snapshot with the instant as of which it is, and the log. An entry is its length, what the
-- program wrote, and the instant at which it was added.
--
-- ARGV: the instant to use, or none for the server's; the version of the program; when the record
-- was created, how much of the whole log the process knows and the instant at its end, if it knows
-- any; for how long the record is kept; the entry; the snapshot that replaces what the process
-- knows, or the record of an earlier layout that is the entry. What is not given is empty.

local key, call, read, pack = KEYS[1], redis.call, struct.unpack, struct.pack
local now, version, born, at, seen, keep, entry, snapshot = unpack(ARGV)
born, at = tonumber(born), tonumber(at)
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = tonumber(now)

local function write(birth, dropped, instant, log)
  local start = HEADER + #snapshot + 8
  call('SET', key, pack('<BI8c8I8I4', LAYOUT, birth, version, dropped, start) .. snapshot .. instant .. log, 'EX', keep)
end

local head = call('GETRANGE', key, 0, HEADER - 1)
if head == '' then
  if born > 0 then return { 'lost', now, 0, 0, '' } end
  if entry == '' then return { 'whole', now, 0, 0, '' } end
  write(now, 0, pack('<I8', now), '')
  head = call('GETRANGE', key, 0, HEADER - 1)
elseif string.byte(head) ~= LAYOUT then
  local raw = call('GET', key)
  if snapshot ~= '' and raw == entry then write(now, 0, pack('<I8', now), '') end
  return { 'other', now, 0, 0, raw }
end

local _, birth, writer, dropped, start = read('<BI8c8I8I4', head)
-- The end of what the process knows, in this string, and what follows it.
local from = at - dropped + start
local known = born == birth and at >= dropped and call('GETRANGE', key, from - 8, -1) or ''
local is_known = seen ~= '' and string.sub(known, 1, 8) == seen
if snapshot ~= '' then
  if is_known then write(birth, at, seen, string.sub(known, 9)) end
  return { 'tail', now, 0, 0, '' }
end
-- Of a record that was emptied or is older than what the process knows, nothing is known.
if born > 0 and (born ~= birth or at >= dropped and not is_known) then return { 'lost', now, 0, 0, '' } end
if entry ~= '' and writer ~= version then return { 'foreign', now, 0, start, call('GET', key) } end
now = math.max(now, (read('<I8', is_known and string.sub(known, -8) or call('GETRANGE', key, -8, -1))))
local unseen = is_known and string.sub(known, 9) or call('GET', key)
local length = is_known and from + #unseen or #unseen
if entry ~= '' then length = call('APPEND', key, pack('<I4', #entry) .. entry .. pack('<I8', now)) end
if keep ~= '' and call('TTL', key) < tonumber(keep) then call('EXPIRE', key, keep) end
return { is_known and 'tail' or 'whole', now, length - start, start, unseen }
