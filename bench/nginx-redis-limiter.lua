-- The limiter that many gateways have: each request asks Redis, over a kept connection, and a script decides there.
-- For comparison only. It has one bucket per app, no estimate, no settlement and no answer when Redis is gone.
local redis = require "nginx.redis"

local script = [[
local bucket = redis.call("HMGET", KEYS[1], "tokens", "at")
local clock = redis.call("TIME")
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local rate, capacity, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tokens = tonumber(bucket[1]) or capacity
tokens = math.min(capacity, tokens + math.max(now - (tonumber(bucket[2]) or now), 0) * rate / 1000)
local allowed = 0
if tokens >= cost then
  tokens = tokens - cost
  allowed = 1
end
redis.call("HSET", KEYS[1], "tokens", tokens, "at", now)
redis.call("PEXPIRE", KEYS[1], 60000)
return {allowed, math.floor(tokens)}
]]

local digest
local limiter = {}

function limiter.access(port, rate, capacity)
  local app = ngx.var.http_x_app_id or "default"
  local connection = redis:new()
  connection:set_timeout(1000)
  local connected, problem = connection:connect("127.0.0.1", port)
  if not connected then
    ngx.log(ngx.ERR, "redis: ", problem)
    return ngx.exit(503)
  end
  if not digest then
    digest = connection:script("LOAD", script)
  end
  local answer, refused = connection:evalsha(digest, 1, "limit:" .. app, rate, capacity, 1)
  if not answer then
    ngx.log(ngx.ERR, "redis: ", refused)
    return ngx.exit(503)
  end
  connection:set_keepalive(60000, 256)
  ngx.header["X-RateLimit-Limit"] = capacity
  ngx.header["X-RateLimit-Remaining"] = answer[2]
  if answer[1] == 0 then
    return ngx.exit(429)
  end
end

return limiter
