-- Uses the LuaJIT bundle from hand-written Lua. arg[1] is the path of core.lua.
local core = dofile(arg[1])

print(core.price(core.standardProfile, "PUT", 1048576))
print(core.price(core.bandwidthProfile, "PUT", 1073741824))
print(core.price(core.standardProfile, "GET", 0 / 0))

local policy = {
    reserve = 1000,
    refillThreshold = 0.2,
    syncIntervalMs = 100,
    batchThreshold = 1000,
    reportIntervalMs = 30000,
    idleMs = 90000,
}
local cell = { value = 0 }
function cell:add(delta)
    self.value = self.value + delta
    return self.value
end
function cell:get()
    return self.value
end

local lease = core.newLease(policy, 0)
core.applyReply(lease, cell, { granted = 30, code = "ok", retryAfterMs = 0, refusedCost = 0 }, 0)
print(core.takeTokens(cell, 21), core.takeTokens(cell, 21), cell:get())
cell:add(1)
local situation = { options = policy, level = 0, plentiful = true, now = 10000 }
local message = core.planSync(lease, cell, { nextCost = 21, waitingCost = 21 }, situation)
print(message.granted, message.spent, message.returned, message.need, message.want)
core.applyReply(lease, cell, { granted = 30, code = "quota_exhausted", retryAfterMs = 500, refusedCost = 21 }, 10000)
print(core.isRefused(lease, 21, 10499), core.isRefused(lease, 20, 10499), core.isRefused(lease, 21, 10500))
core.returnAll(lease, cell)
print(lease.returned, cell:get(), core.spentTokens(lease, cell))
