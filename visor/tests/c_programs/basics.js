let checks = 0;
function check(holds, what) { checks++; if (!holds) throw Error("check " + checks + ": " + what); }
function fails(f, what) { let failed = false; try { f(); } catch { failed = true; } check(failed, what); }

// The language.
check([3, 1, 2].sort().join() === "1,2,3" && [...new Set([1, 1, 2])].length === 2, "arrays");
check(2n ** 100n === 1267650600228229401496703205376n, "big integers");
check("2026-11-24".replace(/(?<y>\d+)-(?<m>\d+)-(?<d>\d+)/u, "$<d>.$<m>.$<y>") === "24.11.2026", "regular expressions");
check("straße".toUpperCase() === "STRASSE" && [..."Ἀργώ"].length === 4 && "é".normalize("NFD").length === 2, "Unicode");
check(JSON.stringify(JSON.parse('{"a":[1,{"b":null}]}')) === '{"a":[1,{"b":null}]}', "JSON");
check(0.1 + 0.2 === 0.30000000000000004 && (1e21).toString() === "1e+21" && Math.hypot(3, 4) === 5, "numbers");
check(new Date(0).toISOString() === "1970-01-01T00:00:00.000Z" && Date.now() > 1.7e12, "dates");
function* count() { yield* [1, 2, 3]; }
check(Array.from(count(), x => x * x).join() === "1,4,9", "generators");
check(new Proxy({}, { get: (_, name) => name }).ship === "ship" && Symbol.iterator in [], "proxies");
check(new Uint32Array(new Float32Array([1]).buffer)[0] === 0x3f800000, "typed arrays");
fails(() => eval("1 +"), "syntax errors");
fails(() => null.ship, "type errors");
fails(() => { (function deep() { deep(); })(); }, "stack overflow is an error");

// Arguments, environment, files.
check(scriptArgs.join() === "an argument", "arguments");
check(std.getenv("GREETING") === "hello" && std.getenv("HOME") === undefined, "environment");
const file = std.open("/tmp/a.txt", "w+");
file.puts("one\ntwo\n"); file.seek(0, std.SEEK_SET);
check(file.getline() === "one" && file.readAsString() === "two\n" && file.close() === 0, "a file");
check(std.loadFile("/tmp/a.txt").length === 8 && std.open("/tmp/none", "r") === null, "files");
check(os.mkdir("/tmp/d") === 0 && os.rename("/tmp/a.txt", "/tmp/d/b") === 0 && os.stat("/tmp/d/b")[0].size === 8, "directories");
check(os.readdir("/tmp/d")[0].includes("b") && os.remove("/tmp/d/b") === 0 && os.realpath("/tmp/d")[0] === "/tmp/d", "more directories");
const [from, to] = os.pipe();
check(os.write(to, new Uint8Array([7, 8]).buffer, 0, 2) === 2 && os.read(from, new ArrayBuffer(4), 0, 4) === 2, "a pipe");

// Modules, promises, timers, threads.
function write(path, text) { const file = std.open(path, "w"); file.puts(text); file.close(); }
write("/tmp/ship.js", "export const name = 'Argo';");
write("/tmp/worker.js", "import * as os from 'os'; const parent = os.Worker.parent;\n" +
    "parent.onmessage = e => { if (e.data === 0) parent.onmessage = null; else parent.postMessage(e.data.map(x => x * x)); };");
const order = [];
os.setTimeout(() => order.push("timer"), 5);
Promise.resolve().then(() => order.push("promise"));
async function later() {
    const { name } = await import("/tmp/ship.js");
    check(name === "Argo", "modules");
    await new Promise(done => os.setTimeout(done, 30));
    check(order.join() === "promise,timer", "promises and timers");
    const worker = new os.Worker("/tmp/worker.js");
    const squares = await new Promise(done => { worker.onmessage = e => done(e.data); worker.postMessage([1, 2, 3]); });
    check(squares.join() === "1,4,9", "threads");
    worker.postMessage(0); worker.onmessage = null;
    print(checks + " checks");
}
later().catch(error => { print(error, error.stack); std.exit(1); });
