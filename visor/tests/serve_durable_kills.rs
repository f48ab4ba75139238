//! A server is killed at random moments while clients start durable invocations, send them events and read results: nothing that was
//! acknowledged is lost, and nothing happens twice.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use serve_support::{Answer, PATIENCE, Server, StateFolder, eventually, request, single};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// How often the server is killed, and how often with `--full`.
const ROUNDS: (u64, u64) = (10, 1000);
const CLIENTS: u64 = 3;
/// What has ended is looked at in the end.
const OPTIONS: [&str; 6] = ["--suspend", "1s", "--keep-durable", "1000000", "--keep-durable-bytes", "16GiB"];
/// The events that each invocation takes, in this order. A second `a` that is the first once more would be seen.
const EVENTS: [&str; 4] = ["a", "a", "b", "a"];

/// A request to a server that may be gone.
fn try_ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&request(method, path, headers, body)).ok()?;
    Answer::read(&mut stream)
}

/// What was acknowledged of an invocation.
#[derive(Default)]
struct Acknowledged {
    /// How many of its events.
    events: usize,
    /// Its result.
    result: Option<String>,
}

/// Whether an invocation does something else too after its first event, so that the next reach a process that runs.
fn is_busy(id: &str) -> bool {
    id.contains("-1-")
}

fn text(id: &str, number: usize) -> String {
    format!("{id} {number}")
}

fn result(id: &str) -> String {
    let line = |(number, event): (usize, &&str)| format!("{event}: {}\n", text(id, number));
    EVENTS.iter().enumerate().map(line).collect()
}

/// Sends the next event of an invocation. Whether it was acknowledged; `None` if there is no server any more.
fn send(address: SocketAddr, id: &str, number: usize) -> Option<()> {
    let path = format!("/invocations/{id}/events/{}", EVENTS[number]);
    let key = format!("k{number}");
    let answer = try_ask(address, "POST", &path, &[("Idempotency-Key", &key)], text(id, number).as_bytes())?;
    assert!([200, 202].contains(&answer.status), "{}", answer.text());
    Some(())
}

/// Starts an invocation, or finds it, and takes it as far as the server lives.
fn drive(address: SocketAddr, id: &str, known: &Mutex<BTreeMap<String, Acknowledged>>) -> Option<()> {
    let note = |change: &dyn Fn(&mut Acknowledged)| {
        let mut known = known.lock().expect("no thread panics while it holds the lock");
        change(known.entry(id.to_owned()).or_default());
    };
    let workflow = if is_busy(id) { "busy" } else { "inbox" };
    let answer = try_ask(address, "POST", &format!("/async-invoke/{workflow}?id={id}"), &[], b"")?;
    assert_eq!(answer.status, 202, "{}", answer.text());
    note(&|_| {});
    for number in 0..EVENTS.len() {
        send(address, id, number)?;
        note(&|it| it.events = it.events.max(number + 1));
    }
    let answer = try_ask(address, "GET", &format!("/invocations/{id}/outputs/result?wait=120s"), &[], b"")?;
    let text = answer.expect(200).text();
    assert_eq!(text, result(id));
    note(&|it| it.result = Some(text.clone()));
    Some(())
}

#[test]
fn a_kill_at_any_moment_loses_no_start_event_or_result() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.put_example("inbox");
    let args = json!({ "events": EVENTS, "fills": "result" });
    // What is killed before its first wait begins again.
    let retry = json!({ "max_attempts": 2 });
    let inbox = json!({ "args": args, "outputs": ["result"], "retry": retry });
    server.put_workflow(&single("inbox", "inbox", &inbox));
    let args = json!({ "events": EVENTS, "fills": "result", "busy_from": 1, "busy_to": EVENTS.len() - 1 });
    server.put_workflow(&single(
        "busy",
        "inbox",
        &json!({ "args": args, "outputs": ["result"], "retry": { "max_attempts": 2 } }),
    ));
    drop(server);
    let known = Mutex::new(BTreeMap::<String, Acknowledged>::new());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let rounds = some_of(ROUNDS.0, ROUNDS.1);
    for round in 0..rounds {
        let server = Server::start_on(&state, &OPTIONS, &[]);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (address, pid) = (server.address, server.pid());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(random % 900_000));
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        });
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let known = &known;
                scope.spawn(move || {
                    for number in 0.. {
                        if drive(address, &format!("r{round}-{client}-{number}"), known).is_none() {
                            return;
                        }
                    }
                });
            }
        });
        killer.join().expect("killed");
        server.wait();
    }
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let all: Vec<(String, usize, Option<String>)> = {
        let known = known.lock().expect("no thread panics while it holds the lock");
        known.iter().map(|(id, it)| (id.clone(), it.events, it.result.clone())).collect()
    };
    assert!(all.len() >= rounds as usize / 2, "{} were started", all.len());
    assert!(all.iter().any(|(_, _, result)| result.is_some()), "some were to end");
    assert!(all.iter().any(|(_, _, result)| result.is_none()), "some were to be interrupted");
    for (id, events, seen) in &all {
        let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
        let status = shown["status"].as_str().expect("a status");
        if is_busy(id) && status == "paused" {
            // It has no commit while it is busy, and was killed too often.
            server.post(&format!("/invocations/{id}/resume"), b"").expect(200);
        } else {
            assert!(["suspended", "running", "pending", "completed"].contains(&status), "{shown:#}");
        }
        if seen.is_some() {
            assert_eq!(shown["status"], "completed", "a result that was delivered stays: {shown:#}");
        }
        // What was acknowledged is there: sent again it is one that is known.
        for (number, event) in EVENTS.iter().enumerate().take(*events) {
            let path = format!("/invocations/{id}/events/{event}");
            let key = format!("k{number}");
            let headers = [("Idempotency-Key", key.as_str())];
            let again = server.ask_with("POST", &path, &headers, text(id, number).as_bytes());
            assert_eq!(again.expect(200).json()["duplicate"], true);
        }
        drive(server.address, id, &known).expect("the server lives");
    }
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
}

/// After a loss of power the disk may lack a file that no commit has waited for. Its content is in the commit.
#[test]
fn a_checkpoint_that_the_disk_has_lost_is_in_its_commit() {
    // What has no process has a file.
    let options = [&OPTIONS[..], &["--resident-memory", "0"]].concat();
    for _ in 0..ROUNDS.0 {
        let state = StateFolder::new();
        let server = Server::start_on(&state, &options, &[]);
        server.put_example("inbox");
        let args = json!({ "events": ["a"], "fills": "result" });
        server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
        server.post("/async-invoke/inbox?id=one", b"").expect(202);
        let status = |server: &Server| server.get("/invocations/one").expect(200).json()["status"].clone();
        eventually("it waits", || status(&server) == "suspended");
        kill(Pid::from_raw(server.pid()), Signal::SIGKILL).expect("it runs");
        server.wait();
        let checkpoints = std::fs::read_dir(state.path().join("durable/checkpoints")).expect("a folder");
        for checkpoint in checkpoints {
            std::fs::write(checkpoint.expect("a file").path(), b"").expect("written");
        }
        let server = Server::start_on(&state, &options, &[]);
        server.post("/invocations/one/events/a", b"1").expect(202);
        eventually("it goes on", || status(&server) != "suspended" && status(&server) != "running");
        if status(&server) == "completed" {
            let result = server.get("/invocations/one/outputs/result").expect(200).text();
            assert_eq!(result, "a: 1\n");
            return;
        }
        // The first server had brought the file to the disk in that time.
        assert_eq!(status(&server), "paused");
    }
    panic!("files are always on the disk before a server can be killed");
}

/// What goes on at once after each save point has no files of them as a rule: their contents are in the commits.
#[test]
fn a_kill_between_save_points_loses_none() {
    const STEPS: u64 = 100;
    let state = StateFolder::new();
    let mut server = Server::start_on(&state, &OPTIONS, &[]);
    server.put_example("bench-probe");
    let args = json!({ "what": "kept-steps", "count": STEPS });
    let steps = json!({ "args": args, "outputs": ["result"], "retry": { "max_attempts": 2 } });
    server.put_workflow(&single("steps", "bench-probe", &steps));
    server.post("/async-invoke/steps?id=one", b"").expect(202);
    let generation = |server: &Server| {
        let shown = server.get("/invocations/one").expect(200).json();
        shown["generation"].as_u64().expect("a number")
    };
    let mut seen = 0;
    for _ in 0..3 {
        eventually("it goes on", || generation(&server) > (seen + 5).min(STEPS - 1));
        seen = generation(&server);
        kill(Pid::from_raw(server.pid()), Signal::SIGKILL).expect("it runs");
        server.wait();
        server = Server::start_on(&state, &OPTIONS, &[]);
        assert!(generation(&server) >= seen, "a save point that was shown is there");
    }
    let result = server.get("/invocations/one/outputs/result?wait=120s").expect(200).text();
    assert_eq!((result, generation(&server)), (STEPS.to_string(), STEPS));
}
