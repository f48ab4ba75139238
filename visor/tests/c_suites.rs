//! The test suites that C programs of other projects bring along, run as functions: Lua's, SQLite's, zlib's, jq's, Oniguruma's,
//! QuickJS's and Redis's. All of it succeeds, but for what `docs/programs.md` lists with the reason.
//!
//! What is needed is built by `cargo xtask build --c-suites`, so the tests are ignored where they are not asked for:
//! `cargo test -p monohull-visor --test c_suites -- --ignored`. `cargo xtask test --full` does both.

#[path = "support/jq_tests.rs"]
mod jq_tests;
mod support;

use monohull_visor::report::{RunReport, Status};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The least number of SQLite's tests that succeed.
const AT_LEAST: u64 = 250_000;

/// A folder or an image of the suites.
fn part(name: &str) -> PathBuf {
    support::root().join("target/c-suites").join(name)
}

/// A folder for reading.
fn mount(at: &str, directory: &Path) -> Value {
    json!({ "at": at, "directory": directory, "access": "read" })
}

/// Runs a program with these arguments and folders, and with some memory for its own files.
fn run(image: &Path, arguments: &[&str], mounts: &[Value], environment: &Value) -> RunReport {
    let mut files = vec![json!({ "at": "/work", "memory": "2GiB" }), json!({ "at": "/tmp", "memory": "256MiB" })];
    files.extend_from_slice(mounts);
    support::run(&json!({
        "name": "suite",
        "functions": { "program": { "image": image } },
        "files": files,
        "steps": [{
            "name": "program", "function": "program", "args": { "argv": arguments }, "env": environment,
            "memory": "1GiB", "stack": "8MiB",
        }],
        "limits": { "timeout": "300s" },
    }))
}

/// What it printed.
fn lines(report: &RunReport) -> Vec<&str> {
    let instance = report.steps[0].instances.first();
    instance.map(|instance| instance.lines.iter().map(|line| line.text.as_str()).collect()).unwrap_or_default()
}

/// What it printed, after it has succeeded.
#[track_caller]
fn printed(report: &RunReport) -> Vec<&str> {
    let lines = lines(report);
    assert_eq!(report.status, Status::Done, "{lines:#?} {:#?}", report.error);
    lines
}

/// An image that `cargo xtask build` makes.
fn image(name: &str) -> PathBuf {
    support::root().join("target/images").join(name).with_extension("so")
}

/// Without what its authors call not portable (processes, and a library of their own) and heavy. Each file is a function of its own.
#[test]
#[ignore = "its source is unpacked: `cargo xtask build --c-suites`"]
fn lua() {
    let entries = fs::read_dir(part("lua")).expect("its tests");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut tests: BTreeSet<_> = names.filter_map(|name| Some(name.strip_suffix(".lua")?.to_owned())).collect();
    // It runs the others, in one program.
    assert!(tests.remove("all") && tests.len() == 32, "{tests:?}");
    let left_out = left_out("Lua");
    let mut wrong = Vec::new();
    for test in &tests {
        let arguments = ["-e", "_port = true; _soft = true", &format!("{test}.lua")];
        // One of them asks for the variable, and does nothing with it.
        let report = run(&image("lua"), &arguments, &[mount("/", &part("lua"))], &json!({ "PATH": "/bin" }));
        if (report.status == Status::Done) == left_out.contains(test) {
            wrong.push(format!("{test}: {:?} {:#?}", report.status, lines(&report)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(left_out.is_subset(&tests), "listed, but not there: {left_out:?}");
}

#[test]
#[ignore = "its source is unpacked: `cargo xtask build --c-suites`"]
fn jq() {
    for (file, tests) in jq_tests::FILES {
        let path = format!("/jq/tests/{file}");
        let arguments = ["-L", "/jq/tests/modules", "--run-tests", &path];
        // Two of the manual's examples show the variable of an author's shell.
        let report = run(&image("jq"), &arguments, &[mount("/jq", &part("jq"))], &json!({ "PAGER": "less" }));
        let last = format!("{tests} of {tests} tests passed (0 malformed, 0 skipped)");
        assert_eq!(printed(&report).last(), Some(&&*last), "{file}");
    }
}

/// The library that jq's regular expressions are.
#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-suites`"]
fn oniguruma() {
    for (test, succeed) in [("utf8", 1516), ("syntax", 171), ("options", 47), ("regset", 13), ("back", 1225)] {
        let report = run(&part(&format!("images/onig-{test}.so")), &[], &[], &json!({}));
        let last = format!("RESULT   SUCC: {succeed:4},  FAIL: 0,  ERROR: 0 ");
        assert!(printed(&report).last().is_some_and(|line| line.starts_with(&last)), "{test}: {:#?}", lines(&report));
    }
}

#[test]
#[ignore = "its source is unpacked: `cargo xtask build --c-suites`"]
fn quickjs() {
    let run = |arguments: &[&str]| run(&image("quickjs"), arguments, &[mount("/js", &part("quickjs"))], &json!({}));
    for name in ["closure", "language", "builtin", "loop", "bigint", "worker", "cyclic_import"] {
        let path = format!("/js/tests/test_{name}.js");
        let report = run(&["--std", &path]);
        assert!(printed(&report).iter().all(|line| !line.contains("rror")), "{name}: {:#?}", lines(&report));
    }
    // The last of these starts a program.
    let report = run(&["/js/tests/test_std.js"]);
    assert!(lines(&report).iter().any(|line| line.trim().starts_with("at test_popen ")), "{:#?}", lines(&report));
}

#[test]
#[ignore = "its programs are compiled: `cargo xtask build --c-suites`"]
fn zlib() {
    let report = run(&part("images/example.so"), &["/tmp/foo.gz"], &[], &json!({}));
    let words = printed(&report);
    for test in ["gzread(): hello, hello!", "large_inflate(): OK", "inflate with dictionary: hello, hello!"] {
        assert!(words.contains(&test), "{test}: {words:#?}");
    }
    let report = run(&part("images/infcover.so"), &[], &[], &json!({}));
    assert!(printed(&report).iter().any(|line| line.starts_with("inflate_fast")), "{:#?}", lines(&report));
}

/// The files of SQLite's suite that its authors call `veryquick`, which their scripts list.
fn files_of_sqlite() -> Vec<String> {
    let source = part("sqlite");
    let lists = fs::read_to_string(source.join("test/permutations.test")).expect("the source of SQLite");
    let list = |start: &str| -> BTreeSet<String> {
        let from = &lists[lists.find(start).unwrap_or_else(|| panic!("no {start}"))..];
        let from = &from[from.find('{').expect("a list") + 1..];
        from[..from.find('}').expect("its end")].split_whitespace().map(str::to_owned).collect()
    };
    let mut slow = list("set alltests [test_set $alltests -exclude {\n  all.test");
    slow.extend(list("set allquicktests [test_set $alltests -exclude {"));
    let parts = ["malloc", "ioerr", "fault", "bigfile", "_err", "fts5corrupt", "fts5big", "fts5aj", "rbucrash"];
    let mut files = Vec::new();
    for folder in
        ["test", "ext/rtree", "ext/fts5/test", "ext/expert", "ext/recover", "ext/rbu", "ext/intck", "ext/session"]
    {
        for entry in fs::read_dir(source.join(folder)).expect("a folder of the source") {
            let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
            let quick = !slow.contains(&name) && !parts.iter().any(|part| name.contains(part));
            if name.ends_with(".test") && quick {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    files.sort();
    files
}

/// The files that a table of `docs/programs.md` leaves out.
fn left_out(program: &str) -> BTreeSet<String> {
    let head = format!("| tests of {program} |");
    let text = fs::read_to_string(support::root().join("docs/programs.md")).expect("docs/programs.md");
    let rows = text.lines().skip_while(|line| !line.starts_with(&head)).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').nth(1).expect("a row has cells").to_owned());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// How many of the file's tests failed, of how many, if it came to its end.
fn counted(lines: &[&str]) -> Option<(u64, u64)> {
    let line = lines.iter().find(|line| line.contains(" errors out of "))?;
    let mut words = line.split_whitespace();
    Some((words.next()?.parse().ok()?, words.nth(3)?.parse().ok()?))
}

/// Each file is a function of its own: what one leaves behind does not matter to the next.
#[test]
#[ignore = "its interpreter is compiled: `cargo xtask build --c-suites`"]
fn sqlite() {
    let scripts = tempfile::tempdir().expect("a folder");
    // Tests work in the folder where the program starts.
    let script = "cd /work\nset argv0 [lindex $argv 0]\nset argv [lrange $argv 1 end]\nsource $argv0\n";
    fs::write(scripts.path().join("start.tcl"), script).expect("written");
    let mounts =
        [mount("/sqlite", &part("sqlite")), mount("/tcl", &part("tcl/library")), mount("/scripts", scripts.path())];
    let (files, left_out) = (files_of_sqlite(), left_out("SQLite"));
    let name = |file: &str| file.rsplit('/').next().unwrap_or_default().trim_end_matches(".test").to_owned();
    let known: BTreeSet<_> = files.iter().map(|file| name(file)).collect();
    let unknown: Vec<_> = left_out.difference(&known).collect();
    assert!(unknown.is_empty(), "listed, but not there: {unknown:?}");
    let (next, wrong, succeeded) = (Mutex::new(files.iter()), Mutex::new(Vec::new()), Mutex::new(0));
    let work = || {
        while let Some(file) = { next.lock().expect("not poisoned").next() } {
            let path = format!("/sqlite/{file}");
            let arguments = ["/scripts/start.tcl", &path, "--verbose=0"];
            let report = run(&part("images/testfixture.so"), &arguments, &mounts, &json!({ "TCL_LIBRARY": "/tcl" }));
            let lines = lines(&report);
            let counted = counted(&lines);
            let fine = report.status == Status::Done && counted.is_some_and(|(errors, _)| errors == 0);
            match (fine, left_out.contains(&name(file))) {
                (true, false) => *succeeded.lock().expect("not poisoned") += counted.map_or(0, |(_, all)| all),
                (false, true) => {}
                (true, true) => wrong.lock().expect("not poisoned").push(format!("{file} succeeds, but is listed")),
                (false, false) => {
                    let said: Vec<_> = lines.iter().filter(|line| !line.contains("Time: ")).take(4).collect();
                    wrong.lock().expect("not poisoned").push(format!("{file}: {:?} {said:#?}", report.error));
                }
            }
        }
    };
    thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().expect("not poisoned");
    assert!(wrong.is_empty(), "{} of {} files:\n{}", wrong.len(), files.len(), wrong.join("\n"));
    let succeeded = succeeded.into_inner().expect("not poisoned");
    assert!(succeeded >= AT_LEAST, "only {succeeded} tests");
}

/// Redis's files of tests, for a server that is there already. The others need what starts processes: replication, and files that are written again behind it.
const REDIS: [&str; 28] = [
    "type/string",
    "type/incr",
    "type/hash",
    "type/set",
    "type/list-3",
    "type/zset",
    "keyspace",
    "scan",
    "bitops",
    "bitfield",
    "sort",
    "quit",
    "protocol",
    "multi",
    "pubsub",
    "scripting",
    "functions",
    "geo",
    "hyperloglog",
    "tracking",
    "introspection",
    "introspection-2",
    "info-command",
    "slowlog",
    "latency-monitor",
    "lazyfree",
    "dump",
    "pause",
];
/// The least number of them that succeed.
const REDIS_AT_LEAST: usize = 1440;

/// A server that runs as a function until it is told to end.
struct Server {
    port: u16,
    run: Child,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let document = json!({
            "name": "redis",
            "functions": { "redis": { "image": part("images/redis-server.so") } },
            "files": [{ "at": "/", "memory": "64MiB" }],
            "steps": [{
                "name": "redis", "function": "redis", "memory": "7GiB", "stack": "8MiB",
                "args": { "argv": ["--bind", "127.0.0.1", "--port", port.to_string(), "--save", "", "--enable-debug-command", "yes"] },
            }],
            "network": { "mode": "host", "listen": [format!("127.0.0.1:{port}")] },
            "limits": { "timeout": "300s" },
        });
        fs::write(folder.join("redis.json"), document.to_string()).expect("written");
        let log = fs::File::create(folder.join("log")).expect("a file");
        let mut run = Command::new(env!("CARGO_BIN_EXE_monohull"));
        run.arg("run").arg(folder.join("redis.json")).stdin(Stdio::null());
        let run = run.stdout(log.try_clone().expect("a file")).stderr(log).spawn().expect("it starts");
        let server = Server { port, run };
        let latest = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < latest, "{}", fs::read_to_string(folder.join("log")).unwrap_or_default());
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Tells it to end: whether the workflow is done.
    fn end(mut self) -> bool {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it is there");
        stream.write_all(b"SHUTDOWN NOSAVE\r\n").expect("sent");
        self.run.wait().expect("a child").success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

/// Each file has a server of its own, as some change its settings.
#[test]
#[ignore = "its server is compiled: `cargo xtask build --c-suites`"]
fn redis() {
    let mut succeeded = 0;
    for file in REDIS {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(folder.path());
        let mut tests = Command::new(part("tclsh"));
        tests.current_dir(part("redis")).args(["tests/test_helper.tcl", "--host", "127.0.0.1", "--port"]);
        tests.arg(server.port.to_string()).args(["--tags", "-needs:repl -slow -large-memory"]);
        let output = tests.args(["--single", &format!("unit/{file}")]).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).replace(['\u{1b}'], "");
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(output.status.success(), "{file}: {said}\n{log}");
        // In colours, which are sequences that end in `m`.
        succeeded += said.lines().filter(|line| line.contains("mok[0m]: ")).count();
        assert!(server.end(), "{file}: {}", fs::read_to_string(folder.path().join("log")).unwrap_or_default());
    }
    assert!(succeeded >= REDIS_AT_LEAST, "only {succeeded} tests");
}
