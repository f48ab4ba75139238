//! A compromised worker: the server trusts it about its own invocation only, within bounds, and still serves all other clients.
//!
//! The compromised worker is simulated by a libos module `time` that sends messages to the supervisor.

mod serve_support;
#[path = "support/wrong_module.rs"]
mod wrong_module;

use monohull_abi::number;
use serde_json::json;
use serve_support as support;
use serve_support::{Answer, Server, StateFolder, eventually, request, single};
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

/// The program, with modules of its own beside it.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let modules = wrong_module::with_wrong_time("speaks_for_itself");
    let folder = wrong_module::fresh_folder("program");
    let program = folder.join("monohull");
    std::fs::hard_link(env!("CARGO_BIN_EXE_monohull"), &program).expect("a link");
    std::os::unix::fs::symlink(modules, folder.join("modules")).expect("a link");
    program
});

/// A server with `echo`, and others in which the module sends messages.
fn hostile(options: &[&str]) -> Server {
    hostile_with(options, &[])
}

fn hostile_with(options: &[&str], env: &[(&str, &str)]) -> Server {
    let server = Server::start_by(Command::new(&*PROGRAM), &StateFolder::new(), options, env);
    server.put_shipped("echo.json");
    server.put_example("hostcall-abuse");
    for (what, name) in [(0, "endless"), (1, "long"), (2, "much"), (3, "unfolds"), (4, "crowds"), (5, "goes-on")] {
        let args = json!({ "role": "ask", "number": number::CLOCK_GETTIME, "arguments": [what] });
        server.put_workflow(&single(name, "hostcall-abuse", &json!({ "args": args })));
    }
    // So long that a busy machine sees it run.
    let slow = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "wait_ms": 10_000, "say": "soon" } });
    server.put_workflow(&single("slow", "echo", &slow));
    server
}

/// The one place to run, taken for some seconds. The invocation's answer comes over this connection.
fn slow(server: &Server) -> TcpStream {
    let mut stream = server.connect();
    stream.write_all(&request("POST", "/invoke/slow", &[], b"x")).expect("sent");
    stream.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
    eventually("it runs", || {
        let answered = stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        assert!(!answered, "{:?}, {}", Answer::read(&mut stream.try_clone().expect("a descriptor")), server.log());
        server.get("/healthz").expect(200).json()["running"] == 1
    });
    stream.set_read_timeout(Some(support::PATIENCE)).expect("a timeout");
    stream
}

#[test]
fn a_worker_that_sends_without_pause_delays_no_others_and_is_ended_in_time() {
    let server = hostile(&["--timeout", "3s"]);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.post("/invoke/endless", b"").error(504, "timeout", "workflow"));
        eventually("it runs", || server.get("/healthz").expect(200).json()["running"] == 1);
        assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
        asked.join().expect("it is answered");
    });
    eventually("only idle workers are left", || server.get("/healthz").json()["running"] == 0);
}

#[test]
fn messages_of_a_worker_take_bounded_memory() {
    let server = hostile(&[]);
    let accepted = server.post("/async-invoke/long", b"").expect(202).json();
    let location = accepted["location"].as_str().expect("a location");
    let shown = server.ended(location);
    let names: Vec<_> = shown["points"].as_array().expect("a list").iter().map(|point| &point["name"]).collect();
    assert!(names.iter().any(|name| *name == "dispatched"), "{names:?}");
    let longest = names.iter().filter_map(|name| name.as_str()).map(str::len).max();
    assert!(longest < Some(64), "a name of {longest:?} bytes");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
}

#[test]
fn of_lines_and_moments_so_many_are_kept_and_no_more() {
    let server = hostile(&[]);
    let accepted = server.post("/async-invoke/much", b"").expect(202).json();
    let shown = server.ended(accepted["location"].as_str().expect("a location"));
    let points = shown["points"].as_array().expect("a list").len();
    assert!((1000..=1030).contains(&points), "{points} moments");
    let logs = server.get(&format!("{}/logs", accepted["location"].as_str().expect("a location"))).expect(200).text();
    // 1 MiB of lines with 30 000 bytes each, and what says that there were more.
    let lines = logs.lines().filter(|line| line.contains("xxxxxxxx")).count();
    assert!((30..=35).contains(&lines), "{lines} lines in {} bytes", logs.len());
    assert!(logs.len() < 2 << 20, "{} bytes", logs.len());
}

/// The kernel counts descriptors on their way for all processes of a user together.
#[test]
fn descriptors_in_flight_from_a_worker_do_not_block_others() {
    let server = hostile(&[]);
    std::thread::scope(|scope| {
        let crowding = scope.spawn(|| server.post("/invoke/crowds", b""));
        for _ in 0..100 {
            assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
        }
        crowding.join().expect("it is answered");
    });
    server.get("/readyz").expect(200);
}

#[test]
fn reports_that_unfold_in_memory_are_read_one_after_the_other() {
    const AT_ONCE: usize = 8;
    let server = hostile(&["--keep-bytes", "16MiB"]);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| server.post("/invoke/unfolds", b""));
        }
    });
    // Each takes some 24 MiB as it comes and 200 MiB as it is read; the most is that of two, of which one goes.
    assert!(server.most_memory() < AT_ONCE / 2 * (200 << 20), "{} MiB", server.most_memory() >> 20);
    assert!(server.most_memory() > 200 << 20, "{} MiB: none was read", server.most_memory() >> 20);
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
}

/// A process that is to serve others resets itself once it has answered. One that computes instead is one of those that may run, until it is ended.
#[test]
fn processes_that_go_on_after_their_answer_are_no_more_than_may_run() {
    const CALLS: usize = 8;
    let server = hostile(&["--process", "reused", "--concurrency", "1", "--prefork", "1"]);
    for _ in 0..CALLS {
        server.post("/invoke/goes-on", b"").expect(200);
    }
    // Below the spawner: the last one, one that is ending, the idle one, and one that is being made.
    let processes = server.descendants().split_off(1).len();
    assert!(processes <= 4, "{processes} processes after {CALLS} calls");
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    assert!(server.log().contains("it has not reset itself"), "{}", server.log());
}

/// An end that the disk does not take has its report in memory as bytes, and all of them together have as much as ended calls that are remembered, or one has
/// more.
#[test]
fn reports_that_wait_for_the_disk_have_a_bound() {
    const ENDS: usize = 4;
    // What the allocator keeps for each thread is not counted here.
    // None of the reports has room, and one waits all the same.
    let options = ["--concurrency", "1", "--timeout", "120s", "--keep-bytes", "1MiB"];
    let server = hostile_with(&options, &[("MALLOC_ARENA_MAX", "1")]);
    let mut first = slow(&server);
    let accept = |_| server.post("/async-invoke/unfolds", b"").expect(202).headers["location"].clone();
    let locations: Vec<String> = (0..ENDS).map(accept).collect();
    server.limit_files(Some(0));
    assert_eq!(Answer::read(&mut first).expect("an answer").expect(200).text(), "x");
    let is_waiting = |location: &String| {
        let (id, log) = (&location["/invocations/".len()..], server.log());
        log.lines().any(|line| line.contains("a commit is tried again") && line.contains(id))
    };
    eventually("all ends are tried again", || locations.iter().all(is_waiting));
    // Each has some 24 MiB as bytes, and 200 MiB as what they are about. One is read at a time.
    assert!(server.most_memory() < ENDS * (200 << 20), "{} MiB", server.most_memory() >> 20);
    server.limit_files(None);
    let mut with_report = 0;
    for location in &locations {
        let shown = server.ended(location);
        assert_eq!(shown["status"], "completed");
        with_report += usize::from(!shown["report"].is_null());
    }
    assert_eq!(with_report, 1, "one may always wait");
    assert_eq!(server.log().matches("a report is lost").count(), ENDS - 1);
}

/// Long reports are read one after the other. One whose end the disk does not take is no reason for others to wait.
#[test]
fn a_long_report_that_waits_for_the_disk_does_not_hold_up_others() {
    let server = hostile(&["--concurrency", "1", "--timeout", "120s"]);
    let mut first = slow(&server);
    let location = server.post("/async-invoke/unfolds", b"").expect(202).headers["location"].clone();
    server.limit_files(Some(0));
    assert_eq!(Answer::read(&mut first).expect("an answer").expect(200).text(), "x");
    eventually("its end is tried again", || server.log().contains("a commit is tried again"));
    server.post("/invoke/unfolds", b"").expect(200);
    assert_eq!(server.get(&location).expect(200).json()["status"], "running");
    server.limit_files(None);
    assert_eq!(server.ended(&location)["status"], "completed");
}
