-- What the interpreter and its libraries promise, area by area: each check that does not hold ends the script with its line.
local checks = 0
local function check(holds, ...) checks = checks + 1; assert(holds, "check " .. checks); return holds, ... end
local function fails(words, ...)
  local ok, message = pcall(...)
  check(not ok and tostring(message):find(words, 1, true))
end

-- Arguments, as the interpreter is given them.
check(arg[0] == "-" and arg[1] == "an argument" and select("#", ...) == 1 and ... == "an argument")
check(os.getenv("GREETING") == "hello" and os.getenv("NONE") == nil)

-- Numbers.
check(math.type(1) == "integer" and math.type(1.0) == "float" and 1 == 1.0)
check(7 // 2 == 3 and -7 // 2 == -4 and 7 % -3 == -2 and 7.5 // 2 == 3.0 and 2 ^ 10 == 1024.0)
check(math.maxinteger + 1 == math.mininteger and math.ult(1, -1) and 0xff << 4 == 0xff0 and ~0 == -1)
check(1 / 0 == math.huge and -1 / 0 == -math.huge and 0 / 0 ~= 0 / 0)
check(tostring(1e15) == "1e+15" and tostring(0.1) == "0.1" and tostring(2 ^ 53) == "9.007199254741e+15")
check(tonumber("0x1p4") == 16.0 and tonumber("  10  ") == 10 and tonumber("zz", 36) == 1295 and tonumber("1e") == nil)
check(string.format("%.17g", 0.1) == "0.10000000000000001" and string.format("%a", 1.0) == "0x1p+0")
check(math.floor(-1.5) == -2 and math.ceil(-1.5) == -1 and math.tointeger(3.0) == 3 and math.fmod(-7, 3) == -1)
check(math.abs(math.sin(math.pi / 6) - 0.5) < 1e-15 and math.exp(0) == 1 and math.log(8, 2) == 3 and math.sqrt(2) ^ 2 - 2 < 1e-15)
math.randomseed(42)
local first = math.random(1000000)
math.randomseed(42)
check(first == math.random(1000000))
fails("number has no integer representation", function() return 1.5 | 1 end)
fails("attempt to divide by zero", function() return 1 // 0 end)

-- Strings and patterns.
check(("hello world"):gsub("o", "0") == "hell0 w0rld" and ("key = value"):match("^(%w+)%s*=%s*(%w+)$") == "key")
check(("THE (quick) fox"):find("%((%a+)%)") == 5 and ("x"):rep(3, ",") == "x,x,x" and ("abc"):byte(-1) == 99)
check(string.format("%q", "a\n\0b") == '"a\\\n\\0b"' and string.format("%-5s|%05d|%5.1f", "ab", 42, 2.25) == "ab   |00042|  2.2")
check(("a,b,,c"):gsub(",", ";", 2) == "a;b;,c" and ("%d"):gsub("%%d", "%%") == "%")
check(string.pack("<i4z", 258, "text") == "\2\1\0\0text\0" and string.unpack(">I2", "\1\2") == 258)
check(utf8.char(0x4F60, 0x1F600) == "你😀" and utf8.len("你😀") == 2 and utf8.len("\xff") == nil)
local points = {}
for _, point in utf8.codes("äß") do points[#points + 1] = point end
check(points[1] == 0xE4 and points[2] == 0xDF)
check("a" < "b" and "a" .. 1 == "a1" and #"a\0b" == 3)
fails("malformed pattern", string.find, "a", "[a")
fails("resulting string too large", string.rep, "x", 1 << 62)

-- Tables.
local list = { 5, 2, 8, 1 }
table.sort(list)
check(table.concat(list, " ") == "1 2 5 8" and table.remove(list, 1) == 1 and #list == 3)
table.sort(list, function(a, b) return a > b end)
check(table.unpack(list) == 8 and select(2, table.unpack(list)) == 5 and table.pack(1, nil).n == 2)
check(table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ",") == "1,1,2,3" and next({}) == nil and rawlen({ 1, 2 }) == 2)
local many = {}
for n = 1, 100000 do many[n] = n; many["k" .. n] = n end
local sum = 0
for _, value in pairs(many) do sum = sum + value end
check(#many == 100000 and sum == 2 * 100000 * 100001 // 2)
fails("invalid order function for sorting", table.sort, { 1, 2, 3, 4, 5 }, function() return true end)

-- Metatables and closures.
local Account = {}
Account.__index = Account
Account.__add = function(a, b) return setmetatable({ sum = a.sum + b.sum }, Account) end
Account.__eq = function(a, b) return a.sum == b.sum end
Account.__call = function(self, more) self.sum = self.sum + more; return self end
Account.__tostring = function(self) return "sum " .. self.sum end
Account.__close = function(self) self.closed = true end
local function account(sum) return setmetatable({ sum = sum }, Account) end
check(account(1) + account(2) == account(3) and tostring(account(1)(4)) == "sum 5")
local scoped = account(0)
do local held <close> = scoped end
check(scoped.closed)
local counters = {}
for n = 1, 3 do counters[n] = function() n = n + 1; return n end end
check(counters[1]() == 2 and counters[1]() == 3 and counters[2]() == 3)
fails("attempt to assign to const variable", assert, load("local c <const> = 1; c = 2"))

-- Control.
for i = 1, 3 do
  for j = 1, 3 do if j == 2 then goto next end end
  ::next::
end
local seen = {}
for n = 10, 1, -3 do seen[#seen + 1] = n end
check(table.concat(seen, " ") == "10 7 4 1")

-- Errors.
local problem = { code = 7 }
check(select(2, pcall(error, problem)) == problem)
check(select(2, pcall(error, "plain", 0)) == "plain")
local trace = select(2, xpcall(function() local nothing; nothing() end, debug.traceback))
check(trace:find("attempt to call a nil value (local 'nothing')", 1, true) and trace:find("stack traceback:", 1, true))
local function deeper(n) return 1 + deeper(n + 1) end
fails("stack overflow", deeper, 1)
local _, nested = load("return " .. ("("):rep(300) .. "1" .. (")"):rep(300))
check(nested:find("overflow", 1, true))
fails("pattern too complex", string.match, ("a"):rep(300000), ("a?"):rep(300000) .. "b")

-- Coroutines.
local function numbers(to) return coroutine.wrap(function() for n = 1, to do coroutine.yield(n) end end) end
local total = 0
for n in numbers(1000) do total = total + n end
check(total == 500500)
local thread = coroutine.create(function(a) local b = coroutine.yield(a + 1); error("inside " .. b) end)
check(select(2, coroutine.resume(thread, 1)) == 2 and coroutine.status(thread) == "suspended")
local ok, message = coroutine.resume(thread, "x")
check(not ok and message:find("inside x", 1, true) and coroutine.status(thread) == "dead")
local done = coroutine.wrap(function() end)
done()
fails("cannot resume dead coroutine", done)

-- Chunks.
check(load("return ...")(9) == 9 and load("return x", "chunk", "t", { x = 4 })() == 4)
local dumped = string.dump(function(a) return a * 2 end)
check(load(dumped, "dumped", "b")(21) == 42 and load(dumped, "dumped", "t") == nil)
package.preload.mine = function(name) return { name = name } end
check(require("mine").name == "mine" and package.loaded.mine == require("mine"))
fails("module 'none' not found", require, "none")

-- Memory.
local weak = setmetatable({}, { __mode = "v" })
weak[1] = {}
local finalized = 0
setmetatable({}, { __gc = function() finalized = finalized + 1 end })
collectgarbage()
check(weak[1] == nil and finalized == 1)
for _, mode in ipairs { "generational", "incremental" } do
  collectgarbage(mode)
  local strings = {}
  for n = 1, 200000 do strings[n % 100] = "string " .. n end
  collectgarbage()
  check(collectgarbage("count") < 65536)
end

-- Files.
local file = check(io.open("/tmp/file", "w"))
check(file:write("one\n", 2, "\n", 3.5) == file and file:seek("cur") == 9 and file:close())
file = check(io.open("/tmp/file", "r+"))
check(file:read("L") == "one\n" and file:read("n") == 2 and file:read("n") == 3.5 and file:read("a") == "" and file:read(1) == nil)
check(file:seek("set", 1) == 1 and file:write("N") and file:seek("set") == 0 and file:read() == "oNe" and file:close())
file = check(io.open("/tmp/file", "a"))
file:setvbuf("full", 1024)
check(file:write("\nend") and file:close())
local lines = {}
for line in io.lines("/tmp/file") do lines[#lines + 1] = line end
check(table.concat(lines, "|") == "oNe|2|3.5|end")
check(io.type(file) == "closed file" and io.type(io.stdout) == "file" and io.type(1) == nil)
check(os.rename("/tmp/file", "/tmp/other") and io.open("/tmp/file") == nil and os.remove("/tmp/other"))
check(select(2, os.remove("/tmp/other")) == "/tmp/other: No such file or directory")
local unnamed = check(io.tmpfile())
check(unnamed:write("x") and unnamed:seek("set") == 0 and unnamed:read("a") == "x" and unnamed:close())
check(os.tmpname():find("^/tmp/lua_"))
local script = check(io.open("/tmp/module.lua", "w"))
script:write("return { answer = 42 }")
script:close()
package.path = "/tmp/?.lua"
check(require("module").answer == 42 and dofile("/tmp/module.lua").answer == 42)

-- Time.
check(os.time { year = 2026, month = 11, day = 24, hour = 12 } == 1795521600 and os.date("!%Y-%m-%d %H:%M:%S", 0) == "1970-01-01 00:00:00")
check(os.date("!*t", 86400).day == 2 and os.time() > 1600000000 and os.clock() >= 0 and os.difftime(5, 3) == 2.0)
check(os.setlocale() == "C" and os.setlocale("C") == "C")

print(checks .. " checks")
