-- Where an error ends, and what it ends: most of these leave calls of C.
local function deep(n) if n == 0 then error({ "deep" }) end return (("x"):gsub("x", function() return deep(n - 1) end)) end
local ok, why = pcall(deep, 50)
print(ok, why[1])
local function endless() return (("x"):gsub("x", endless)) end
print(pcall(endless))
local function nested(n) if n == 0 then error("bottom") end local ok, why = pcall(nested, n - 1) error(why .. n, 0) end
print(pcall(nested, 60))
local count = 0
for n = 1, 20000 do if not pcall(error, n) then count = count + 1 end end
print(count)
local thread = coroutine.wrap(function()
    local list = { 3, 1, 2 }
    table.sort(list, function(a, b) return a < b end)
    for n = 1, 3 do print(pcall(function() coroutine.yield(list[n]); error("after " .. n) end)) end
end)
print(thread(), thread(), thread(), thread())
print(pcall(table.sort, { 1, 2, 3 }, function() coroutine.yield() end))
print(xpcall(function() local t = nil; return t.x end, function(m) return m .. "!" end))
do local closing <close> = setmetatable({}, { __close = function(_, e) print("closed", e) end }) end
print(pcall(function() local closing <close> = setmetatable({}, { __close = function(_, e) print("closed", e) end }) error("x", 0) end))
print(select("#", table.unpack({}, 1, 200)), pcall(table.unpack, {}, 1, 1e8))
