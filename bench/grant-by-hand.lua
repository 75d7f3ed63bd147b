#!lua
-- The grant script as one writes it for Redis by hand: what `src/scripts/grant.ts` is measured against, and nothing else.
-- Same keys, arguments, checks, replies and stored state; the bench compares them before it measures.
local call = redis.call
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local find, format = string.find, string.format

local MICRO = 1000000
local MAX_TOKENS = 1000000000
local MAX_RATE = 1000000000000000
local MAX_COUNTER = 9007199254740991
local MAX_WAIT_MS = 86400000

local function invalid(field)
  return {"invalid_argument", field}
end

local function whole(text, most)
  if not find(text, "^%d+$") then return -1 end
  local value = tonumber(text)
  return value <= most and value or -1
end

local function stored(text, default)
  local value = text and tonumber(text)
  if not value or value - value ~= 0 then return default end
  return value
end

local function refilled(tokens, debt, elapsed, rate, reserve, capacity)
  if elapsed > 0 then
    local gained = elapsed * (rate / MICRO)
    local first = min(gained, max(min(reserve, capacity) - tokens, 0))
    gained = gained - first
    local repaid = min(gained, debt)
    debt = debt - repaid
    tokens = tokens + first + (gained - repaid)
  end
  return min(tokens, capacity), debt
end

local function wait_ms(tokens, debt, rate, reserve, wanted)
  local missing = wanted * MICRO - tokens
  if missing <= 0 then return 0 end
  if wanted * MICRO > reserve then missing = missing + debt end
  if missing >= rate * (MAX_WAIT_MS / 1000) then return MAX_WAIT_MS end
  return ceil(missing / rate * 1000)
end

local function charged(tokens, amount, capacity)
  return max(tokens - amount * MICRO, min(tokens, 0 - capacity))
end

-- Check everything before anything is read or written.
local argc, apps = #ARGV, #KEYS - 3
if argc < 3 then return invalid("arguments") end
local capacity = whole(ARGV[1], MAX_TOKENS) * MICRO
if capacity < 0 then return invalid("cluster_capacity") end
local rate = whole(ARGV[2], MAX_RATE)
if rate < 0 then return invalid("cluster_rate") end
local ttl = whole(ARGV[3], 315360000000) * 1000
if ttl < 1 then return invalid("node_ttl_ms") end
if apps < 0 then return invalid("keys") end
if apps > 500 then return invalid("apps") end
if argc ~= 5 + apps * 11 then return invalid("arguments") end
local seq = whole(ARGV[4], MAX_COUNTER)
if seq < 1 then return invalid("seq") end
local node = ARGV[5]
if node == "" or #node > 300 then return invalid("node") end

local requests, seen, names = {}, {}, {"seq", "closed", "held"}
for i = 1, apps do
  local a = i * 11 - 5
  local id = ARGV[a]
  if #id > 128 or not find(id, "^[A-Za-z0-9._:-]+$") then return invalid("app") end
  local burst = whole(ARGV[a + 1], MAX_TOKENS)
  if burst < 0 then return invalid("burst") end
  local guaranteed = whole(ARGV[a + 2], MAX_RATE)
  if guaranteed < 0 then return invalid("guaranteed") end
  local priority = whole(ARGV[a + 3], 1000)
  if priority < 0 then return invalid("priority") end
  local fill = whole(ARGV[a + 4], 315360000)
  if fill < 0 then return invalid("fill_s") end
  if seen[id] then return invalid("app given twice") end
  seen[id] = true
  local granted = whole(ARGV[a + 5], MAX_COUNTER)
  if granted < 0 then return invalid("granted") end
  local spent = whole(ARGV[a + 6], MAX_COUNTER)
  if spent < 0 then return invalid("spent") end
  local returned = whole(ARGV[a + 7], MAX_COUNTER)
  if returned < 0 or returned > granted then return invalid("returned") end
  local need, want = whole(ARGV[a + 8], MAX_COUNTER), whole(ARGV[a + 9], MAX_COUNTER)
  local borrow = whole(ARGV[a + 10], MAX_COUNTER)
  if need < 0 or want < 0 or borrow < 0 then return invalid("amount") end
  requests[i] = {
    capacity = burst * MICRO, rate = fill == 0 and guaranteed or burst * MICRO / fill, priority = priority, fill = fill,
    granted = granted, spent = spent, returned = returned,
    need = need, want = want, borrow = borrow == 1,
    last = borrow == 2 and granted == spent + returned,
  }
  names[i * 3 + 1], names[i * 3 + 2], names[i * 3 + 3] = "g:" .. id, "s:" .. id, "r:" .. id
end

-- The cluster, up to now.
local time = call("TIME")
local now = tonumber(time[1]) * MICRO + tonumber(time[2])
local cluster = call("HMGET", KEYS[1], "tokens", "at", "clock", "em_source", "em_until")
local elapsed = now - stored(cluster[2], now)
local clock = stored(cluster[3], now) + min(max(elapsed, 0), floor(ttl / 3))
local tokens = refilled(stored(cluster[1], capacity), 0, elapsed, rate, 0, capacity)
local emergency, emergency_left = false, 0
if cluster[4] and cluster[4] ~= "none" then
  local ends = stored(cluster[5], 0)
  emergency = ends == 0 or now < ends
  if emergency and ends ~= 0 then emergency_left = ceil((ends - now) / 1000) end
end

-- The node's ledger; a message that is not new is answered from it.
local ledger = call("HMGET", KEYS[3], unpack(names))
local known = ledger[1] ~= false
local last = stored(ledger[1], 0)
if known and seq <= last then
  local answer = seq == last and call("HGET", KEYS[3], "answer")
  if answer then
    local reply = {}
    for part in string.gmatch(answer, "%S+") do reply[#reply + 1] = tonumber(part) or part end
    return reply
  end
  return {"stale_message", call("ZCOUNT", KEYS[2], clock - ttl, "+inf"), emergency and 1 or 0, emergency_left}
end
local closed = ledger[2] == "1"
local code = closed and "epoch_closed" or "ok"
if not closed then call("ZADD", KEYS[2], clock, node) end
local live = call("ZCOUNT", KEYS[2], clock - ttl, "+inf")
local sharers = max(live, 1)

local held = stored(ledger[3], 0)
local reply = {code, live, emergency and 1 or 0, emergency_left}
local texts = {format("%s %.0f %.0f %.0f", code, live, reply[3], emergency_left)}
local values = {}
for i = 1, apps do
  local request = requests[i]
  local key = KEYS[i + 3]
  local app_capacity, app_rate = request.capacity, request.rate
  if emergency then
    local priority = request.priority
    local ratio = priority == 0 and 1 or priority == 1 and 0.5 or priority == 2 and 0.1 or 0
    app_capacity, app_rate = floor(app_capacity * ratio), floor(app_rate * ratio)
  end
  local app = call("HMGET", key, "tokens", "debt", "at", "granted", "spent", "returned")
  local app_tokens, debt = refilled(
    stored(app[1], request.capacity), stored(app[2], 0), now - stored(app[3], now), app_rate, app_rate, app_capacity
  )
  local app_granted, app_returned = stored(app[4], 0), stored(app[6], 0)

  -- Book the node's counters: what it has, or has spent, beyond what is on record is charged to both layers.
  local f = i * 3 + 1
  local granted, spent, returned = stored(ledger[f], 0), stored(ledger[f + 1], 0), stored(ledger[f + 2], 0)
  if request.last and granted == 0 then
    granted, spent, returned = request.granted, request.spent, request.returned
  end
  local before = granted - spent - returned
  if not known then
    returned = request.returned
    granted = min(request.granted, request.spent + returned)
    spent = granted - returned
  end
  local forgotten = request.granted - granted
  if forgotten > 0 then
    app_tokens = charged(app_tokens, forgotten, request.capacity)
    tokens = charged(tokens, forgotten, capacity)
    app_granted = app_granted + forgotten
    granted = request.granted
  end
  local back = request.returned - returned
  if back > 0 then
    app_tokens = min(app_tokens + back * MICRO, app_capacity)
    tokens = min(tokens + back * MICRO, capacity)
    app_returned = app_returned + back
    returned = request.returned
  end
  local app_spent = stored(app[5], 0) + (request.spent - spent)
  spent = request.spent
  local uncovered = -(granted - spent - returned)
  if uncovered > 0 then
    app_tokens = charged(app_tokens, uncovered, request.capacity)
    tokens = charged(tokens, uncovered, capacity)
    app_granted = app_granted + uncovered
    granted = granted + uncovered
  end
  local holds = granted - spent - returned
  held = held + (holds - before)

  -- Grant: `need` in full or nothing, then up to `want` within the node's fair share.
  if not closed then
    local undelivered = holds - max(request.granted - request.spent - request.returned, 0)
    local need, want = max(request.need - undelivered, 0), max(request.want - undelivered, 0)
    local verdict, amount, retry = "ok", 0, 0
    local in_app, in_cluster = floor(app_tokens / MICRO), max(floor(tokens / MICRO), 0)
    if need * MICRO > min(request.capacity, capacity) then
      verdict = "cost_exceeds_capacity"
    elseif need * MICRO > app_capacity then
      verdict, retry = "emergency_blocked", emergency_left > 0 and emergency_left or 1000
    elseif need > 0 and need > in_app then
      local short = need - in_app
      local credit = floor(request.rate * 0.5 / MICRO) * 1200000
      if request.borrow and not emergency
        and short <= max(floor((credit - debt) / 1200000), 0)
        and need <= max(floor((tokens - capacity * 0.2) / MICRO), 0) then
        app_tokens, debt, amount = app_tokens + short * MICRO, debt + short * 1200000, need
      else
        verdict, retry = "quota_exhausted", wait_ms(app_tokens, debt, app_rate, app_rate, need)
      end
    elseif need > in_cluster then
      verdict, retry = "cluster_exhausted", wait_ms(tokens, 0, rate, 0, need)
    else
      amount = max(need, min(want, floor(min(in_app, in_cluster / apps) / sharers)))
      if amount <= 0 then retry = wait_ms(app_tokens, debt, app_rate, app_rate, 1) end
    end
    app_tokens = app_tokens - amount * MICRO
    tokens = tokens - amount * MICRO
    app_granted, granted, held = app_granted + amount, granted + amount, held + amount
    local left, limit = max(floor(app_tokens / MICRO), 0), max(floor(app_capacity / MICRO), 0)
    local r = i * 5
    reply[r], reply[r + 1], reply[r + 2], reply[r + 3], reply[r + 4] = verdict, granted, left, limit, retry
    texts[i + 1] = format("%s %.0f %.0f %.0f %.0f", verdict, granted, left, limit, retry)
  end

  call("HSET", key, "tokens", app_tokens, "debt", debt, "at", now,
    "granted", app_granted, "spent", app_spent, "returned", app_returned)
  if request.fill > 0 then
    local missing = max(request.capacity - app_tokens, 0)
    call("PEXPIRE", key, (missing > 0 and ceil(missing / request.rate * 1000) or 0) + 1000)
  end
  local v = i * 6 - 5
  values[v], values[v + 1], values[v + 2] = names[f], granted, names[f + 1]
  values[v + 3], values[v + 4], values[v + 5] = spent, names[f + 2], returned
end

call("HSET", KEYS[1], "tokens", tokens, "at", now, "clock", clock)
call("HSET", KEYS[3], "seq", seq, "closed", closed and "1" or "0", "held", held,
  "answer", table.concat(texts, " "), unpack(values))
for i = 1, apps do
  local v = i * 6 - 5
  if requests[i].last and values[v + 1] == values[v + 3] + values[v + 5] then
    call("HDEL", KEYS[3], values[v], values[v + 2], values[v + 4])
  end
end
return reply
