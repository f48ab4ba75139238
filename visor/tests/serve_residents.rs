//! Processes of a server that stay with invocations which wait: these go on there as they would go on from their checkpoints. Whatever happens
//! to such a process, its invocation is restored, and no process goes on with anything but its own wait.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, is_alive, single};
use std::process::Command;

const OPTIONS: [&str; 2] = ["--suspend", "1s"];
/// Longer than the shortest wait that suspends a workflow.
const NAP: u64 = 2_500;

fn start_with(more: &[&str]) -> Server {
    let server = Server::start_with(&[&OPTIONS[..], more].concat());
    deploy(&server);
    server
}

/// Registers `inbox`, which takes three events, and `naps`, which naps twice.
fn deploy(server: &Server) {
    server.put_example("inbox");
    server.put_example("sleeper");
    inbox(server, &["a", "b", "c"]);
    let naps = json!({ "naps": 2, "milliseconds": NAP, "takes": "", "fills": "result" });
    server.put_workflow(&single("naps", "sleeper", &json!({ "args": naps, "outputs": ["result"] })));
}

fn inbox(server: &Server, events: &[&str]) {
    let args = json!({ "events": events, "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
}

/// A number of the server's metrics; 0 if it has not been counted.
fn metric(server: &Server, name: &str) -> u64 {
    let text = server.get("/metrics").expect(200).text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("monohull_{name} ")));
    line.map_or(0, |number| number.parse().expect("a number"))
}

/// How many went on in the process that had stayed, and how many from a checkpoint.
fn wakes(server: &Server) -> (u64, u64) {
    let from = |from: &str| metric(server, &format!("durable_wakes_total{{from=\"{from}\"}}"));
    (from("process"), from("checkpoint"))
}

fn evictions(server: &Server, reason: &str) -> u64 {
    metric(server, &format!("resident_evictions_total{{reason=\"{reason}\"}}"))
}

fn residents(server: &Server) -> u64 {
    metric(server, "residents")
}

/// The processes that stay: each has a thread that waits for orders.
fn resident_processes(server: &Server) -> Vec<i32> {
    let is_resident = |pid: &i32| {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let names = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
        names.into_iter().any(|name| name.trim() == "events")
    };
    server.descendants().into_iter().filter(is_resident).collect()
}

/// The processes that stay, when there are so many: those that were killed may take a moment to end.
#[track_caller]
fn processes(server: &Server, count: usize) -> Vec<i32> {
    eventually(&format!("{count} processes stay"), || resident_processes(server).len() == count);
    resident_processes(server)
}

fn begin(server: &Server, id: &str) -> String {
    server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
    let location = format!("/invocations/{id}");
    waits_for(server, &location, "a");
    location
}

fn shown(server: &Server, location: &str) -> Value {
    server.get(location).expect(200).json()
}

#[track_caller]
fn waits_for(server: &Server, location: &str, event: &str) {
    eventually(&format!("{location} waits for {event}"), || {
        let shown = shown(server, location);
        shown["status"] == "suspended" && shown["waiting_for"][0]["event"] == event
    });
}

fn send(server: &Server, location: &str, event: &str, body: &str) {
    server.post(&format!("{location}/events/{event}"), body.as_bytes()).expect(202);
}

#[track_caller]
fn ends_with(server: &Server, location: &str, result: &str) {
    assert_eq!(server.get(&format!("{location}/outputs/result?wait=120s")).expect(200).text(), result);
}

fn kill_process(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it is there");
}

/// What a client sees of an invocation: its generations, lines, result, and its report but for times and the process.
fn seen(server: &Server, location: &str) -> Value {
    let mut shown = shown(server, location);
    let checkpoints = server.get(&format!("{location}/checkpoints")).json();
    let step = shown["report"]["steps"][0].take();
    let instance = &step["instances"][0];
    json!({
        "status": shown["status"], "generation": shown["generation"], "result": shown["result"], "mail": shown["mail"],
        "attempts": step["attempts"], "in": instance["bytes_in"], "out": instance["bytes_out"],
        "checkpoints": checkpoints["checkpoints"].as_array().map(Vec::len),
    })
}

#[test]
fn an_event_goes_to_the_process_that_has_stayed_and_to_what_was_restored_in_the_same_way() {
    let run = |server: &Server| {
        let location = begin(server, "one");
        // Of one name in their order; some before anything waits for them.
        send(server, &location, "c", "3");
        send(server, &location, "c", "4");
        send(server, &location, "a", "1");
        waits_for(server, &location, "b");
        send(server, &location, "a", "5");
        send(server, &location, "b", "2");
        ends_with(server, &location, "a: 1\nb: 2\nc: 3\n");
        seen(server, &location)
    };
    let server = start_with(&[]);
    let in_place = run(&server);
    assert_eq!(wakes(&server), (2, 0));
    assert_eq!((residents(&server), processes(&server, 0)), (0, Vec::new()), "it has ended");
    let without = start_with(&["--resident-memory", "0"]);
    let restored = run(&without);
    assert_eq!(wakes(&without), (0, 2));
    assert_eq!(in_place, restored);
}

#[test]
fn a_timer_is_served_in_the_process_that_has_stayed() {
    let server = start_with(&[]);
    let called = server.post("/invoke/naps", b"").expect(202);
    let location = called.headers["location"].clone();
    eventually("it stays", || residents(&server) == 1);
    assert!(metric(&server, "resident_bytes") > 0);
    ends_with(&server, &location, "2 naps, 5 letters, map true, thread true, time true\n");
    let (in_place, restored) = wakes(&server);
    assert!(in_place >= 1 && restored == 0, "{in_place} {restored}");
    // The time of its waits is none that its report has.
    let shown = shown(&server, &location);
    let [whole, taken] = [&shown, &shown["report"]].map(|of| of["duration_us"].as_u64().expect("a duration"));
    assert!(taken + 1000 * NAP < whole, "{shown:#}");
    // It stood still for most of a nap each time, and was restored never.
    let suspended = &shown["report"]["suspended"];
    assert_eq!(suspended["times"].as_u64(), Some(in_place), "{shown:#}");
    assert!(suspended["away_us"].as_u64().is_some_and(|away| (1..whole).contains(&away)), "{shown:#}");
    assert!(shown["points"].as_array().expect("points").iter().any(|point| point["name"] == "gone-on"), "{shown:#}");
    assert_eq!(residents(&server), 0);
}

#[test]
fn a_process_that_is_killed_is_no_loss() {
    let server = start_with(&[]);
    let location = begin(&server, "one");
    processes(&server, 1).into_iter().for_each(kill_process);
    assert_eq!(wakes(&server), (0, 0));
    send(&server, &location, "a", "1");
    waits_for(&server, &location, "b");
    assert_eq!((wakes(&server), evictions(&server, "died")), ((0, 1), 1));
    // From here on another one stays.
    send(&server, &location, "b", "2");
    waits_for(&server, &location, "c");
    assert_eq!(wakes(&server), (1, 1));
    // One that is killed and not needed is forgotten.
    processes(&server, 1).into_iter().for_each(kill_process);
    eventually("it is forgotten", || residents(&server) == 0);
    send(&server, &location, "c", "3");
    ends_with(&server, &location, "a: 1\nb: 2\nc: 3\n");
    assert_eq!(wakes(&server), (1, 2));
}

#[test]
fn no_process_stays_when_the_server_is_killed_or_ends() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    deploy(&server);
    let locations = ["one", "two"].map(|id| begin(&server, id));
    send(&server, &locations[0], "a", "1");
    waits_for(&server, &locations[0], "b");
    let stay = processes(&server, 2);
    server.signal(Signal::SIGKILL);
    server.wait();
    eventually("they end with the server", || !stay.iter().any(|pid| is_alive(*pid)));

    let server = Server::start_on(&state, &OPTIONS, &[]);
    assert_eq!(residents(&server), 0);
    for (event, body) in [("b", "2"), ("c", "3")] {
        send(&server, &locations[0], event, body);
    }
    ends_with(&server, &locations[0], "a: 1\nb: 2\nc: 3\n");
    assert!(wakes(&server).1 >= 1);
    send(&server, &locations[1], "a", "1");
    waits_for(&server, &locations[1], "b");
    let stay = processes(&server, 1);
    assert_eq!(server.stop().0, Some(0));
    eventually("they end with the server", || !stay.iter().any(|pid| is_alive(*pid)));

    // A server that ends because it is idle is not kept by them.
    let server = Server::start_on(&state, &[&OPTIONS[..], &["--exit-when-idle=1s"]].concat(), &[]);
    send(&server, &locations[1], "b", "2");
    waits_for(&server, &locations[1], "c");
    let stay = resident_processes(&server);
    assert_eq!(server.wait().0, Some(0));
    eventually("they end with the server", || !stay.iter().any(|pid| is_alive(*pid)));
    let server = Server::start_on(&state, &OPTIONS, &[]);
    send(&server, &locations[1], "c", "3");
    ends_with(&server, &locations[1], "a: 1\nb: 2\nc: 3\n");
}

#[test]
fn what_is_changed_by_hand_goes_on_from_its_checkpoint() {
    let server = start_with(&[]);
    let location = begin(&server, "one");
    let ask =
        |verb: &str, body: Value| server.post(&format!("{location}/{verb}"), body.to_string().as_bytes()).expect(200);
    let is_gone = |stay: &[i32]| eventually("it ends", || !stay.iter().any(|pid| is_alive(*pid)));

    // It is paused while an event comes.
    let stay = processes(&server, 1);
    server.post(&format!("{location}/pause"), b"").expect(200);
    is_gone(&stay);
    send(&server, &location, "a", "1");
    assert_eq!(shown(&server, &location)["status"], "paused");
    server.post(&format!("{location}/resume"), b"").expect(200);
    waits_for(&server, &location, "b");
    assert_eq!(wakes(&server), (0, 1));

    // It is taken back: what it has done since counts for nothing.
    let stay = processes(&server, 1);
    ask("rewind", json!({ "to": 1 }));
    is_gone(&stay);
    waits_for(&server, &location, "a");
    send(&server, &location, "a", "once more");
    waits_for(&server, &location, "b");
    assert_eq!(wakes(&server), (0, 2));

    // A copy goes on from the checkpoint, and the original in its process.
    ask("fork", json!({ "ids": ["copy"] }));
    for (event, body) in [("b", "2"), ("c", "3")] {
        send(&server, "/invocations/copy", event, &format!("copy {body}"));
        send(&server, &location, event, body);
    }
    ends_with(&server, &location, "a: once more\nb: 2\nc: 3\n");
    ends_with(&server, "/invocations/copy", "a: once more\nb: copy 2\nc: copy 3\n");
    let (in_place, restored) = wakes(&server);
    assert!(in_place >= 1 && restored >= 3, "{in_place} {restored}");

    // It is cancelled, and killed.
    for (id, method) in [("two", "POST"), ("three", "DELETE")] {
        let location = begin(&server, id);
        let stay = processes(&server, 1);
        let path = if method == "POST" { format!("{location}/cancel") } else { location.clone() };
        assert!([200, 204].contains(&server.ask(method, &path, b"").status));
        is_gone(&stay);
        assert_eq!((shown(&server, &location)["status"].as_str(), residents(&server)), (Some("cancelled"), 0));
    }
    assert!(evictions(&server, "changed") >= 4);
}

#[test]
fn a_new_version_is_for_new_invocations() {
    let server = start_with(&[]);
    let location = begin(&server, "old");
    inbox(&server, &["a", "z"]);
    let new = begin(&server, "new");
    for (event, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
        send(&server, &location, event, body);
    }
    for (event, body) in [("a", "4"), ("z", "5")] {
        send(&server, &new, event, body);
    }
    ends_with(&server, &location, "a: 1\nb: 2\nc: 3\n");
    ends_with(&server, &new, "a: 4\nz: 5\n");
    assert!(wakes(&server).0 >= 2);

    // One that is moved to a new version begins again in another process.
    let location = begin(&server, "moved");
    let stay = processes(&server, 1);
    inbox(&server, &["a", "y"]);
    let moved = server.post("/workflows/inbox/migrate", b"{}").expect(200).json();
    assert!(moved.to_string().contains("migrated"), "{moved:#}");
    eventually("it ends", || !stay.iter().any(|pid| is_alive(*pid)));
    for (event, body) in [("a", "6"), ("y", "7")] {
        send(&server, &location, event, body);
    }
    ends_with(&server, &location, "a: 6\ny: 7\n");
}

/// The process of an invocation is not that of another one, also if the other one has its id.
/// Processes have the grants and secrets of the moment in which they were started.
#[test]
fn none_stays_once_grants_are_read_again() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let grants = folder.path().join("grants.json");
    std::fs::write(&grants, "{}").expect("written");
    let server = start_with(&["--grants", grants.to_str().expect("UTF-8")]);
    let location = begin(&server, "one");
    waits_for(&server, &location, "a");
    assert_eq!(residents(&server), 1);
    server.signal(Signal::SIGHUP);
    eventually("it is ended", || residents(&server) == 0);
    assert_eq!(evictions(&server, "changed"), 1);
    send(&server, &location, "a", "1");
    waits_for(&server, &location, "b");
    assert_eq!((wakes(&server), residents(&server)), ((0, 1), 1), "what was started since then stays");
    send(&server, &location, "b", "2");
    send(&server, &location, "c", "3");
    ends_with(&server, &location, "a: 1\nb: 2\nc: 3\n");
}

#[test]
fn an_id_that_is_used_again_has_nothing_of_the_first() {
    let server = start_with(&[]);
    for round in 0..3 {
        let location = begin(&server, "one");
        send(&server, &location, "a", &format!("secret {round}"));
        waits_for(&server, &location, "b");
        server.post(&format!("{location}/cancel"), b"").expect(200);
        server.post(&format!("{location}/purge"), b"").expect(204);
    }
    let [one, two] = ["one", "two"].map(|id| begin(&server, id));
    for (event, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
        send(&server, &two, event, &format!("two {body}"));
        send(&server, &one, event, body);
    }
    ends_with(&server, &one, "a: 1\nb: 2\nc: 3\n");
    ends_with(&server, &two, "a: two 1\nb: two 2\nc: two 3\n");
}

#[test]
fn the_one_that_was_not_used_for_longest_goes_first() {
    let server = start_with(&["--residents", "2"]);
    let [first, second] = ["first", "second"].map(|id| begin(&server, id));
    // It is used once more, and so the second one goes.
    send(&server, &first, "a", "1");
    waits_for(&server, &first, "b");
    let third = begin(&server, "third");
    assert_eq!((residents(&server), evictions(&server, "number"), wakes(&server)), (2, 1, (1, 0)));
    send(&server, &first, "b", "2");
    waits_for(&server, &first, "c");
    assert_eq!(wakes(&server), (2, 0));
    send(&server, &second, "a", "1");
    waits_for(&server, &second, "b");
    assert_eq!((wakes(&server), evictions(&server, "number")), ((2, 1), 2));
    for location in [&first, &second, &third] {
        for (event, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
            send(&server, location, event, body);
        }
        ends_with(&server, location, "a: 1\nb: 2\nc: 3\n");
    }
}

#[test]
fn sleepers_have_no_more_memory_than_they_may() {
    const SLEEPERS: usize = 50;
    let one = {
        let server = start_with(&[]);
        begin(&server, "one");
        metric(&server, "resident_bytes")
    };
    assert!(one > 0);
    let (low, high) = (6 * one, 12 * one);
    let server = start_with(&["--resident-memory", &format!("{low}B..{high}B")]);
    let locations: Vec<_> = (0..SLEEPERS).map(|number| format!("/invocations/s{number}")).collect();
    for number in 0..SLEEPERS {
        server.post(&format!("/async-invoke/inbox?id=s{number}"), b"").expect(202);
    }
    for location in &locations {
        waits_for(&server, location, "a");
    }
    let (bytes, number) = (metric(&server, "resident_bytes"), residents(&server));
    assert!(bytes <= high && number > 0 && number < SLEEPERS as u64, "{number} have {bytes} bytes of {high}");
    assert_eq!(evictions(&server, "memory") + number, SLEEPERS as u64);
    eventually("the others have ended", || resident_processes(&server).len() as u64 == residents(&server));
    for location in &locations {
        for (event, body) in [("a", "1"), ("b", "2"), ("c", "3")] {
            send(&server, location, event, body);
        }
    }
    for location in &locations {
        ends_with(&server, location, "a: 1\nb: 2\nc: 3\n");
    }
    assert!(metric(&server, "resident_bytes") <= high);
}

/// A process ends when it has stayed for long at one wait. The event that comes then is taken from the checkpoint.
#[test]
fn one_that_has_stayed_for_long_is_ended_unless_it_is_due_soon() {
    let server = start_with(&["--resident-idle", "2s"]);
    let called = server.post("/invoke/naps", b"").expect(202);
    ends_with(&server, &called.headers["location"], "2 naps, 5 letters, map true, thread true, time true\n");
    let (in_place, restored) = wakes(&server);
    assert!(in_place >= 1 && restored == 0, "{in_place} {restored}");
    assert_eq!(evictions(&server, "idle"), 0, "it was due soon each time");

    let location = begin(&server, "one");
    eventually("it is ended", || evictions(&server, "idle") == 1);
    assert_eq!((residents(&server), metric(&server, "resident_bytes"), processes(&server, 0)), (0, 0, Vec::new()));
    assert_eq!(shown(&server, &location)["status"], "suspended");
    send(&server, &location, "a", "1");
    waits_for(&server, &location, "b");
    assert_eq!(wakes(&server), (in_place, 1));
    // The process in which it was restored stays for as long.
    eventually("it is ended", || evictions(&server, "idle") == 2);
    send(&server, &location, "b", "2");
    waits_for(&server, &location, "c");
    assert_eq!(wakes(&server), (in_place, 2));
    send(&server, &location, "c", "3");
    ends_with(&server, &location, "a: 1\nb: 2\nc: 3\n");
    assert_eq!(["number", "memory", "died", "changed"].map(|reason| evictions(&server, reason)), [0; 4]);
}

/// Each wait ends the process of another one, while events come for all of them.
#[test]
fn events_that_come_while_processes_are_ended_are_taken_once() {
    let server = start_with(&["--residents", "1"]);
    let locations = ["r0", "r1", "r2", "r3"].map(|id| begin(&server, id));
    std::thread::scope(|scope| {
        for location in &locations {
            let server = &server;
            scope.spawn(move || {
                // The second of each is never taken.
                for (event, body) in [("a", "1"), ("a", "again"), ("b", "2"), ("b", "again"), ("c", "3")] {
                    send(server, location, event, body);
                }
            });
        }
    });
    for location in &locations {
        ends_with(&server, location, "a: 1\nb: 2\nc: 3\n");
    }
    assert_eq!(residents(&server), 0);
}

/// The first run of a workflow that may be run again has limits of its own. After that its process stays too.
#[test]
fn what_may_be_tried_again_stays_from_its_second_wait_on() {
    let server = start_with(&[]);
    let args = json!({ "events": ["a", "b", "c"], "fills": "result", "fails_after": 2 });
    let more = json!({ "args": args, "outputs": ["result"], "retry": { "max_attempts": 2 } });
    server.put_workflow(&single("inbox", "inbox", &more));
    let location = server.post("/invoke/inbox", b"").expect(202).headers["location"].clone();
    assert_eq!(residents(&server), 0);
    send(&server, &location, "a", "1");
    waits_for(&server, &location, "b");
    assert_eq!((residents(&server), wakes(&server)), (1, (0, 1)));
    // In the process that has stayed it fails, and its second attempt is given what the first had taken.
    send(&server, &location, "b", "2");
    waits_for(&server, &location, "c");
    assert_eq!(wakes(&server), (1, 1));
    send(&server, &location, "c", "3");
    ends_with(&server, &location, "a: 1\nb: 2\nc: 3\n");
}

/// The server's time for a call is for its process. What waits is not woken when that is over.
#[test]
fn a_call_that_waits_for_an_event_is_due_when_that_comes() {
    let server = start_with(&[]);
    let location = server.post("/invoke/inbox", b"").expect(202).headers["location"].clone();
    assert_eq!(shown(&server, &location)["due"], Value::Null);
    send(&server, &location, "a", "1");
    waits_for(&server, &location, "b");
    assert_eq!((shown(&server, &location)["due"].clone(), wakes(&server)), (Value::Null, (1, 0)));
}

#[test]
fn bounds_that_make_no_sense_are_refused() {
    for (option, bounds, why) in [
        ("--resident-memory", "2MiB..1MiB", "LOW is more than HIGH"),
        ("--resident-memory", "1MiB", "expected LOW..HIGH"),
        ("--resident-memory", "1..2", "expected LOW"),
        ("--resident-idle", "0", "expected a time"),
        ("--resident-idle", "0s", "expected a time"),
    ] {
        let server = Command::new(env!("CARGO_BIN_EXE_monohull")).args(["serve", option, bounds]).output();
        let server = server.expect("it runs");
        assert_eq!(server.status.code(), Some(2));
        let said = String::from_utf8_lossy(&server.stderr).into_owned();
        assert!(said.contains(why), "{said}");
    }
}

/// A function that only keeps what it is does not leave its process, nor wait until others have had a turn.
#[test]
fn after_a_save_point_an_invocation_goes_on_in_its_process() {
    let server = start_with(&[]);
    server.put_example("forked");
    let args = json!({ "rounds": 1, "milliseconds": 86_400_000_u64, "ways": 2 });
    server.put_workflow(&single("ways", "forked", &json!({ "args": args, "outputs": ["diary"] })));
    server.post("/async-invoke/ways?id=one", b"").expect(202);
    let sleeps = |location: &str| {
        let shown = shown(&server, location);
        shown["status"] == "suspended" && shown["waiting_for"].to_string().contains("sleep")
    };
    eventually("it sleeps", || sleeps("/invocations/one"));
    let copy = shown(&server, "/invocations/one")["forks"][0].as_str().expect("a copy").to_owned();
    eventually("its copy sleeps", || sleeps(&format!("/invocations/{copy}")));
    // A save point and a copy of the one; the copy begins with a checkpoint.
    assert_eq!((wakes(&server), residents(&server)), ((2, 1), 2));
    let generations = shown(&server, "/invocations/one/checkpoints")["checkpoints"].as_array().map(Vec::len);
    assert_eq!(generations, Some(3));
}

/// One with much memory that stays in its process has only what has changed in its checkpoints, from the third on, and goes on from them.
#[test]
fn checkpoints_of_one_that_stays_have_what_has_changed() {
    const BYTES: u64 = 4 << 20;
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.put_example("bench-probe");
    let args = json!({ "what": "wake", "count": 2_000, "bytes": BYTES, "pages": 5, "times": 100 });
    server.put_workflow(&single("wakes", "bench-probe", &json!({ "args": args })));
    server.post("/async-invoke/wakes?id=one", b"").expect(202);
    let location = "/invocations/one";
    let sizes = |server: &Server| server.checkpoint_sizes(location);
    eventually("it has slept four times", || sizes(&server).len() >= 4);
    let bytes = sizes(&server);
    assert!(bytes[..2].iter().all(|bytes| *bytes > BYTES), "{bytes:?}");
    assert!(bytes[2..].iter().all(|bytes| *bytes < BYTES / 4), "{bytes:?}");
    assert_eq!(wakes(&server).1, 0, "it has stayed");
    server.signal(Signal::SIGKILL);
    server.wait();
    // Its last checkpoint needs those before it; what was not touched since stays there.
    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("it has slept six times", || sizes(&server).len() >= 6);
    let bytes = sizes(&server);
    assert!(bytes[2..].iter().all(|bytes| *bytes < BYTES / 4), "{bytes:?}");
    server.post(&format!("{location}/cancel"), b"").expect(200);
}

/// The same with memory that is dropped, unmapped, protected and moved between its waits: what is left out is as it was, in the process and from the
/// checkpoints, which are encrypted here.
#[test]
fn what_is_left_out_is_as_it_was() {
    let state = StateFolder::new();
    let key = tempfile::TempDir::new().expect("a folder");
    let file = key.path().join("state.key").to_str().expect("UTF-8").to_owned();
    let made = Command::new(env!("CARGO_BIN_EXE_monohull")).args(["key", "new", &file]).status();
    assert!(made.is_ok_and(|status| status.success()));
    let options = [&OPTIONS[..], &["--state-key", &file]].concat();
    let server = Server::start_on(&state, &options, &[]);
    server.put_example("libc-asleep");
    let mut asleep = single("asleep", "libc-asleep", &json!({ "args": { "argv": ["4", "1100", "/memory"] } }));
    asleep["files"] = json!([{ "at": "/", "memory": "16MiB" }]);
    server.put_workflow(&asleep);
    server.post("/async-invoke/asleep?id=one", b"").expect(202);
    let mut running = server;
    for slept in [3, 6] {
        let has_ended = || shown(&running, "/invocations/one")["status"] == "completed";
        eventually("it has slept", || running.checkpoint_sizes("/invocations/one").len() >= slept || has_ended());
        running.signal(Signal::SIGKILL);
        running.wait();
        running = Server::start_on(&state, &options, &[]);
    }
    eventually("it has ended", || shown(&running, "/invocations/one")["status"] == "completed");
    let lines = running.get("/invocations/one/logs").expect(200).text();
    assert!(lines.contains(" checks, 0 failures"), "{lines}");
}
