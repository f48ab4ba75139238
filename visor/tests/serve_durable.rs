//! Durable invocations of a server: what waits has no process and outlives the server, and is woken, sent events, forked, taken back and
//! ended over HTTP.

#[path = "serve_support/interface.rs"]
mod interface;
mod serve_support;

use interface::keeps_to;
use monohull_durable::{Meta, Store};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Answer, PATIENCE, Server, StateFolder, eventually, image_bytes, single};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];
/// Longer than the shortest wait that suspends a workflow, also where getting to rest takes a while.
const NAP: u64 = 2_500;
const DAY: u64 = 86_400_000;

/// Registers `naps`, which naps so often; `inbox`, which waits for `a` and then `b`; `agent`, which sleeps for a day three times; `once`
/// and `again`, which never end, and of which the second may be run again.
fn deploy(server: &Server) {
    for example in ["sleeper", "inbox", "forked", "misbehave", "echo"] {
        server.put_example(example);
    }
    let naps = json!({ "naps": 2, "milliseconds": NAP, "takes": "", "fills": "result" });
    server.put_workflow(&single("naps", "sleeper", &json!({ "args": naps, "outputs": ["result"] })));
    let events = json!({ "events": ["a", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
    let agent = json!({ "rounds": 3, "milliseconds": DAY });
    server.put_workflow(&single("agent", "forked", &json!({ "args": agent, "outputs": ["diary"] })));
    server.put_workflow(&single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] })));
    let busy = json!({ "args": { "how": "endless-loop" } });
    server.put_workflow(&single("once", "misbehave", &busy));
    let mut again = single("again", "misbehave", &busy);
    again["steps"][0]["retry"] = json!({ "max_attempts": 3 });
    server.put_workflow(&again);
}

fn start() -> Server {
    let server = Server::start_with(&OPTIONS);
    deploy(&server);
    server
}

#[track_caller]
fn began(answer: Answer) -> String {
    let answer = answer.expect(202);
    keeps_to("Accepted", &answer.json());
    assert_eq!(answer.headers["location"], format!("/invocations/{}", answer.json()["id"].as_str().expect("an id")));
    answer.headers["location"].clone()
}

/// Starts an invocation of this id.
#[track_caller]
fn named(server: &Server, workflow: &str, id: &str) -> String {
    began(server.post(&format!("/async-invoke/{workflow}?id={id}"), b""))
}

#[track_caller]
fn is_at(server: &Server, location: &str, status: &str) -> Value {
    eventually(&format!("{location} is {status}"), || server.get(location).json()["status"] == status);
    let shown = server.get(location).expect(200).json();
    keeps_to("Invocation", &shown);
    shown
}

fn output(server: &Server, location: &str, slot: &str) -> String {
    server.get(&format!("{location}/outputs/{slot}?wait=120s")).expect(200).text()
}

fn kill_now(server: Server) {
    server.signal(Signal::SIGKILL);
    server.wait();
}

fn checkpoints(state: &StateFolder) -> Vec<PathBuf> {
    let folder = state.path().join("durable/checkpoints");
    fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path()).collect()
}

const RESULT: &str = "2 naps, 5 letters, map true, thread true, time true\n";

/// A call that waits is answered at once, has no process meanwhile, and is woken by time.
#[test]
fn a_call_that_waits_becomes_durable_and_goes_on_by_itself() {
    let server = start();
    let answer = server.post("/invoke/naps", b"").expect(202);
    assert_eq!(answer.headers["x-invocation-id"], answer.json()["id"].as_str().expect("an id"));
    assert_eq!(answer.json()["status"], "suspended");
    let location = began(answer);
    let later = began(server.post("/async-invoke/naps", b""));
    let agent = began(server.post("/async-invoke/agent", b""));
    let shown = is_at(&server, &agent, "suspended");
    assert_eq!((&shown["durable"], &shown["waiting_for"][0]["kind"]), (&json!(true), &json!("time")), "{shown:#}");
    for location in [&location, &later] {
        assert_eq!(output(&server, location, "result"), RESULT);
        let shown = is_at(&server, location, "completed");
        assert_eq!(shown["result"]["result"]["text"], RESULT, "{shown:#}");
        assert_eq!(shown["report"]["status"], "done", "{shown:#}");
        assert!(shown["generation"].as_u64() >= Some(1), "{shown:#}");
        let logs = server.get(&format!("{location}/logs")).expect(200).text();
        let naps: Vec<_> = logs.lines().filter(|line| line.contains("slept")).collect();
        assert_eq!(naps.len(), 2, "lines of all legs: {logs}");
    }
    assert_eq!(checkpoints(&server.state()).len(), 1, "what has ended keeps no checkpoint");
    assert_eq!(server.get("/healthz").json()["running"], 0, "what waits has no process");
    // What does not wait is answered as ever, and is not durable.
    let answer = server.post("/invoke/echo", b"x").expect(200);
    let shown = server.get(&format!("/invocations/{}", answer.headers["x-invocation-id"])).expect(200).json();
    assert_eq!((&shown["durable"], &shown["status"]), (&json!(false), &json!("completed")));
}

#[test]
fn events_wake_it_in_order_and_a_key_makes_sending_safe_to_repeat() {
    let server = start();
    let location = named(&server, "inbox", "order-17");
    let shown = is_at(&server, &location, "suspended");
    let wait = &shown["waiting_for"][0];
    assert_eq!((&wait["event"], &wait["name"]), (&json!("a"), &json!("a")), "{shown:#}");
    let send = |event: &str, key: &str, body: &[u8]| {
        server.ask_with("POST", &format!("{location}/events/{event}"), &[("Idempotency-Key", key)], body)
    };
    // `b` is sent before anything waits for it.
    let first = send("b", "1", b"second").expect(202).json();
    keeps_to("Sent", &first);
    assert_eq!(send("b", "1", b"second").expect(200).json()["duplicate"], true);
    send("b", "1", b"other").error(422, "invalid", "client");
    send("a", "2", b"first").expect(202);
    assert_eq!(output(&server, &location, "result"), "a: first\nb: second\n");
    is_at(&server, &location, "completed");
    assert_eq!(send("a", "2", b"first").expect(200).json()["duplicate"], true, "also after its end");
    send("a", "3", b"late").error(409, "conflict", "client");
}

#[test]
fn an_id_is_one_invocations_and_a_key_one_calls() {
    let server = start();
    let location = named(&server, "inbox", "one");
    assert_eq!(named(&server, "inbox", "one"), location, "the same call attaches");
    let error = server.post("/async-invoke/agent?id=one", b"").error(409, "conflict", "client");
    assert!(error["message"].as_str().is_some_and(|message| message.contains(&location)), "{error:#}");
    for wrong in ["", "a/b", "a%2Fb", "..", "a%20b", &"x".repeat(65)] {
        let answer = server.post(&format!("/async-invoke/inbox?id={wrong}"), b"");
        assert!([400, 404].contains(&answer.status), "{wrong}: {}", answer.text());
    }
    let call = |key: &str, body: &[u8]| {
        server.ask_with("POST", "/async-invoke/echo", &[("Idempotency-Key", key), ("Content-Type", "text/plain")], body)
    };
    let location = began(call("k", b"x"));
    assert_eq!(output(&server, &location, "out"), "x");
    assert_eq!(began(call("k", b"x")), location, "also after its end");
    call("k", b"y").error(422, "invalid", "client");
    assert_ne!(began(call("other", b"x")), location);
    let both = [("Idempotency-Key", "k")];
    server.ask_with("POST", "/async-invoke/inbox?id=two", &both, b"").error(400, "bad-request", "client");
}

#[test]
fn a_call_may_begin_later() {
    let server = start();
    let location = began(server.post("/async-invoke/inbox?delay=1h", b""));
    let shown = is_at(&server, &location, "pending");
    assert!(shown["due"].is_string(), "{shown:#}");
    let soon = began(server.ask_with("POST", "/async-invoke/echo?delay=1s", &[("Content-Type", "a/b")], b"x"));
    assert_eq!(output(&server, &soon, "out"), "x");
    let at =
        began(server.ask_with("POST", "/async-invoke/echo?at=2020-01-01T00:00:00Z", &[("Content-Type", "a/b")], b"y"));
    assert_eq!(output(&server, &at, "out"), "y");
    for wrong in ["delay=soon", "at=monday", "delay=1s&at=2020-01-01T00:00:00Z"] {
        server.post(&format!("/async-invoke/inbox?{wrong}"), b"").error(400, "bad-request", "client");
    }
    // What cannot be kept is not moved to an earlier time.
    let says = |path: &str, message: &str| {
        assert_eq!(server.post(path, b"").error(400, "bad-request", "client")["message"], message, "{path}");
    };
    let last = "is later than 2262-04-11T23:47:16Z, the last time that can be kept";
    for at in ["2262-04-11T23:47:17Z", "9999-12-31T23:59:59Z"] {
        says(&format!("/async-invoke/inbox?at={at}"), &format!("at {last}"));
        let listed = server.get(&format!("/invocations?started_after={at}")).error(400, "bad-request", "client");
        assert_eq!(listed["message"], format!("started_after {last}"));
    }
    for delay in ["400y", "18446744073709551615s", "99999999999999999999s"] {
        says(&format!("/async-invoke/inbox?delay={delay}"), &format!("the end of delay {last}"));
    }
    says("/async-invoke/inbox?id=one&id=two", "the parameter `id` is given twice");
    says("/async-invoke/inbox?at=2262-04-11", "at is a time such as 2027-01-31T09:00:00Z");
    let location = began(server.post("/async-invoke/inbox?at=2262-04-11T23:47:16Z", b""));
    assert_eq!(is_at(&server, &location, "pending")["due"], "2262-04-11T23:47:16.000Z");
    // The same call again is no other one at another time.
    for path in
        ["/async-invoke/inbox?id=one&delay=1h", "/async-invoke/inbox?id=one&delay=2h", "/async-invoke/inbox?id=one"]
    {
        assert_eq!(began(server.post(path, b"")), "/invocations/one");
    }
    is_at(&server, "/invocations/one", "pending");
}

#[test]
fn it_is_paused_resumed_and_cancelled_by_hand() {
    let server = start();
    let location = named(&server, "inbox", "one");
    is_at(&server, &location, "suspended");
    let ask = |verb: &str| server.post(&format!("{location}/{verb}"), b"");
    for _ in 0..2 {
        let came = ask("pause").expect(200).json();
        keeps_to("Controlled", &came);
        assert_eq!(came["status"], "paused");
    }
    server.post(&format!("{location}/events/a"), b"x").expect(202);
    let shown = is_at(&server, &location, "paused");
    assert_eq!((&shown["reason"], &shown["mail"]), (&json!("by hand"), &json!(1)), "{shown:#}");
    server.get(&format!("{location}/outputs/result?wait=1s")).expect(202);
    assert_eq!(ask("resume").expect(200).json()["status"], "suspended");
    eventually("it waits for b", || server.get(&location).json()["waiting_for"][0]["event"] == "b");
    ask("purge").error(409, "conflict", "client");
    for _ in 0..2 {
        assert_eq!(ask("cancel").expect(200).json()["status"], "cancelled");
    }
    ask("pause").error(409, "conflict", "client");
    ask("fork").error(409, "conflict", "client");
    let shown = is_at(&server, &location, "cancelled");
    assert_eq!(shown["error"]["kind"], "cancelled", "{shown:#}");
    server.ask("DELETE", &location, b"").expect(204);
    ask("purge").expect(204);
    server.get(&location).error(410, "gone", "client");
    ask("purge").error(410, "gone", "client");
}

/// Before it becomes durable, while it does, and after.
#[test]
fn a_call_that_is_cancelled_at_any_moment_stays_cancelled() {
    const STEP: Duration = Duration::from_micros(200);
    let server = start();
    for round in 0..60 {
        std::thread::scope(|scope| {
            scope.spawn(|| server.post("/invoke/agent", b""));
            // The only one that has not been cancelled.
            let location = loop {
                let listed = server.get("/invocations").expect(200).json();
                let all = listed["invocations"].as_array().expect("a list");
                if let Some(one) = all.iter().find(|one| one["status"] != "cancelled") {
                    break format!("/invocations/{}", one["id"].as_str().expect("an id"));
                }
            };
            std::thread::sleep(STEP * round);
            server.ask("DELETE", &location, b"").expect(204);
            is_at(&server, &location, "cancelled");
        });
    }
    let left = server.get("/invocations?status=suspended").expect(200).json();
    assert_eq!(left["invocations"], json!([]));
}

/// `DELETE` does not wait until it waits.
#[test]
fn one_that_runs_is_killed_at_once() {
    let server = start();
    let location = named(&server, "once", "one");
    is_at(&server, &location, "running");
    let came = server.post(&format!("{location}/cancel"), b"").expect(200).json();
    assert_eq!((&came["status"], &came["becomes"]), (&json!("running"), &json!("cancelled")));
    server.ask("DELETE", &location, b"").expect(204);
    is_at(&server, &location, "cancelled");
    eventually("nothing runs", || server.get("/healthz").json()["running"] == 0);
}

#[test]
fn copies_are_made_and_it_goes_back() {
    let server = start();
    let location = named(&server, "agent", "ask");
    is_at(&server, &location, "suspended");
    let fork = |key: &str, body: Value| {
        server.ask_with("POST", &format!("{location}/fork"), &[("Idempotency-Key", key)], body.to_string().as_bytes())
    };
    let made = fork("k", json!({ "count": 3, "paused": true })).expect(200).json();
    keeps_to("Forked", &made);
    let copies = made["copies"].as_array().expect("a list");
    assert!(
        copies.len() == 3 && copies.iter().all(|copy| copy["came"] == "new" && copy["status"] == "paused"),
        "{made:#}"
    );
    let again = fork("k", json!({ "count": 3, "paused": true })).expect(200).json();
    assert!(again["copies"].as_array().expect("a list").iter().all(|copy| copy["came"] == "same"), "{again:#}");
    let named_copies = fork("l", json!({ "ids": ["ask", "two"] })).expect(200).json();
    assert_eq!(named_copies["copies"][0]["came"], "taken");
    assert_eq!(named_copies["copies"][1]["came"], "new");
    let copy = server.get("/invocations/two").expect(200).json();
    keeps_to("Invocation", &copy);
    assert_eq!((&copy["parent"]["id"], &copy["parent"]["copies"]), (&json!("ask"), &json!(2)), "{copy:#}");
    assert_eq!(server.get(&location).json()["forks"].as_array().map(Vec::len), Some(4));

    let listed = server.get(&format!("{location}/checkpoints")).expect(200).json();
    keeps_to("Checkpoints", &listed);
    assert_eq!(listed["checkpoints"].as_array().map(Vec::len), Some(1));
    let rewind = |body: Value| server.post(&format!("{location}/rewind"), body.to_string().as_bytes());
    let checkpoint = server.get(&location).json()["checkpoint"].take();
    assert_eq!((&checkpoint["generation"], &checkpoint["at"]), (&json!(1), &listed["checkpoints"][0]["at"]));
    let back = rewind(json!({ "to": 1, "from": 1 })).expect(200).json();
    keeps_to("Rewound", &back);
    assert_eq!(back["generation"], 2);
    rewind(json!({ "to": 1, "from": 1 })).error(409, "conflict", "client");
    rewind(json!({ "to": 9 })).error(409, "conflict", "client");
    rewind(json!({ "back": 1 })).error(400, "bad-request", "client");
    fork("m", json!({ "count": 0 })).error(400, "bad-request", "client");
    fork("m", json!({ "count": 1001 })).error(400, "bad-request", "client");
    fork("m", json!({ "ids": ["../x"] })).error(400, "bad-request", "client");
    let twice = fork("m", json!({ "ids": ["y", "z", "y"] })).error(400, "bad-request", "client");
    assert_eq!(twice["message"], "`y` is given twice, and each copy has an id of its own");
    server.get("/invocations/z").error(404, "not-found", "client");
    for (verb, body, why) in [
        ("fork", r#"{"at": -1}"#, "expected the number of a checkpoint, or a label"),
        ("fork", r#"{"at": 1.0}"#, "expected the number of a checkpoint, or a label"),
        ("rewind", r#"{"to": null}"#, "expected the number of a checkpoint, or a label"),
        ("fork", "null", "expected a JSON object"),
        ("fork", " []", "expected a JSON object"),
        ("rewind", "[1]", "expected a JSON object"),
    ] {
        let error = server.post(&format!("{location}/{verb}"), body.as_bytes()).error(400, "bad-request", "client");
        let message = error["message"].as_str().expect("a text");
        assert!(message.starts_with(&format!("the body: {why}")), "{verb} {body}: {message}");
    }
    // A copy outlives the one that it is of.
    server.post(&format!("{location}/cancel"), b"").expect(200);
    server.post(&format!("{location}/purge"), b"").expect(204);
    is_at(&server, "/invocations/two", "suspended");
    assert!(!checkpoints(&server.state()).is_empty());
}

#[test]
fn lists_are_filtered_and_come_in_pages() {
    let server = start();
    for number in 0..5 {
        named(&server, if number % 2 == 0 { "inbox" } else { "agent" }, &format!("i{number}"));
    }
    for number in 0..5 {
        is_at(&server, &format!("/invocations/i{number}"), "suspended");
    }
    server.post("/invoke/echo", b"x").expect(200);
    let ids = |query: &str| -> (Vec<String>, Value) {
        let listed = server.get(&format!("/invocations?{query}")).expect(200).json();
        keeps_to("Invocations", &listed);
        let rows = listed["invocations"].as_array().expect("a list").iter();
        (rows.map(|row| row["id"].as_str().expect("an id").to_owned()).collect(), listed["next_cursor"].clone())
    };
    assert_eq!(ids("workflow=agent").0, ["i3", "i1"]);
    assert_eq!(ids("status=suspended&workflow=inbox").0, ["i4", "i2", "i0"]);
    assert_eq!(ids("status=completed").0.len(), 1);
    assert!(ids("status=paused,failed").0.is_empty());
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let (page, next) = ids(&format!("limit=2{cursor}"));
        assert!(page.len() <= 2);
        all.extend(page);
        match next.as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(all.len(), 6, "each once: {all:?}");
    assert_eq!(all[1..], ["i4", "i3", "i2", "i1", "i0"]);
    assert!(ids("started_after=2099-01-01T00:00:00Z").0.is_empty());
    for wrong in ["status=lost", "cursor=x", "started_after=monday", "limit=0", "x=1", "limit=5&limit=2"] {
        server.get(&format!("/invocations?{wrong}")).error(400, "bad-request", "client");
    }
}

/// What sleeps is untouched by what is registered later, and runs the code that it was started with.
#[test]
fn code_and_document_of_a_sleeper_are_those_of_its_start() {
    let server = start();
    let location = named(&server, "inbox", "one");
    is_at(&server, &location, "suspended");
    server.ask("DELETE", "/workflows/inbox", b"").expect(204);
    server.ask("PUT", "/functions/inbox", &image_bytes("no-op")).expect(200);
    server.post(&format!("{location}/events/a"), b"1").expect(202);
    server.post(&format!("{location}/events/b"), b"2").expect(202);
    assert_eq!(output(&server, &location, "result"), "a: 1\nb: 2\n");
}

#[test]
fn what_waits_outlives_a_server_that_is_killed() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    deploy(&server);
    let inbox = named(&server, "inbox", "one");
    let naps = began(server.post("/invoke/naps", b""));
    is_at(&server, &inbox, "suspended");
    server.post(&format!("{inbox}/events/a"), b"kept").expect(202);
    // Run when it was killed: it begins again if its workflow allows that, and has failed if not.
    let again = began(server.post("/async-invoke/again", b""));
    let once = named(&server, "once", "once");
    assert_eq!(is_at(&server, &again, "running")["attempts"], 1);
    is_at(&server, &once, "running");
    kill_now(server);
    let server = Server::start_on(&state, &OPTIONS, &[]);
    server.post(&format!("{inbox}/events/b"), b"new").expect(202);
    assert_eq!(output(&server, &inbox, "result"), "a: kept\nb: new\n");
    assert_eq!(output(&server, &naps, "result"), RESULT);
    eventually("it is run again", || server.get(&again).json()["attempts"] == 2);
    is_at(&server, &again, "running");
    server.ask("DELETE", &again, b"").expect(204);
    is_at(&server, &again, "cancelled");
    let shown = is_at(&server, &once, "failed");
    assert_eq!((&shown["error"]["kind"], &shown["error"]["blame"]), (&json!("interrupted"), &json!("host")));
    // In an orderly end, too.
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &OPTIONS, &[]);
    assert_eq!(output(&server, &inbox, "result"), "a: kept\nb: new\n");
    assert_eq!(server.get(&once).json()["error"]["kind"], "interrupted");
}

/// A large sleeper wakes from its file, looks at little, and sleeps again in a small one. The large one stays as long as it is needed.
#[test]
fn what_was_not_touched_stays_in_the_file_that_has_it() {
    const BYTES: u64 = 4 << 20;
    let state = StateFolder::new();
    let options = [&OPTIONS[..], &["--resident-memory", "0"]].concat();
    let server = Server::start_on(&state, &options, &[]);
    server.put_example("bench-probe");
    let wakes = json!({ "what": "wake", "count": NAP, "bytes": BYTES, "pages": 5, "times": 5 });
    server.put_workflow(&single("wakes", "bench-probe", &json!({ "args": wakes })));
    let location = named(&server, "wakes", "one");
    let sizes = |server: &Server| server.checkpoint_sizes(&location);
    eventually("it has slept twice", || sizes(&server).len() >= 2);
    kill_now(server);
    let server = Server::start_on(&state, &options, &[]);
    eventually("it has slept three times", || sizes(&server).len() >= 3);
    server.post(&format!("{location}/pause"), b"").expect(200);
    is_at(&server, &location, "paused");
    let bytes = sizes(&server);
    assert!(bytes[0] > BYTES && bytes[1..].iter().all(|bytes| *bytes < BYTES / 4), "{bytes:?}");
    server.post(&format!("{location}/rewind"), json!({ "to": 2 }).to_string().as_bytes()).expect(200);
    is_at(&server, &location, "completed");
    // They are removed after the end has been told.
    eventually("its files are removed", || sizes(&server).is_empty() && checkpoints(&state).is_empty());
}

/// No more run at a time than the operator allows, however many are due at once.
#[test]
fn no_more_are_woken_at_a_time_than_may_run() {
    let server = Server::start_with(&["--suspend", "1s", "--concurrency", "1"]);
    deploy(&server);
    let all: Vec<_> = (0..6).map(|number| named(&server, "naps", &format!("n{number}"))).collect();
    let begin = Instant::now();
    loop {
        let health = server.get("/healthz").json();
        assert!(health["running"].as_u64() <= Some(1), "{health:#}");
        if all.iter().all(|location| server.get(location).json()["status"] == "completed") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "they do not end");
    }
}

/// One that would go on after a save point, once others have had their turn, is left to the next server.
#[test]
fn what_waits_for_its_turn_does_not_go_on_in_a_server_that_ends() {
    let server = Server::start_with(&["--suspend", "1s", "--concurrency", "1", "--drain", "1s"]);
    let state = server.state();
    deploy(&server);
    let args = json!({ "rounds": 1, "milliseconds": DAY, "ways": 2 });
    server.put_workflow(&single("ways", "forked", &json!({ "args": args, "outputs": ["diary"] })));
    let queued = |count: u64| {
        eventually("they are queued", || server.get("/healthz").json()["queued"] == count);
    };
    let first = named(&server, "once", "first");
    is_at(&server, &first, "running");
    began(server.post("/async-invoke/ways?id=one&delay=1s", b""));
    queued(1);
    let mut second = server.connect();
    second.write_all(b"POST /invoke/once HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").expect("sent");
    queued(2);
    server.ask("DELETE", &first, b"").expect(204);
    eventually("it has a save point, and waits for its turn", || {
        let kept = server.get("/invocations/one/checkpoints").expect(200).json()["checkpoints"].clone();
        let is_running = server.get("/invocations/one").json()["status"] == "running";
        is_running
            && kept.as_array().is_some_and(|kept| !kept.is_empty())
            && server.get("/healthz").json()["queued"] == 1
    });
    assert_eq!(server.stop().0, Some(0));
    drop(second);
    let store = Store::open_served(&state.path().join("durable"), None).expect("a server's store");
    let row =
        store.meta().and_then(|meta| Ok(meta.get(&"one".parse().expect("an id"))?)).expect("read").expect("a row");
    assert_eq!((row.status.name(), row.reason.as_deref()), ("suspended", Some("the server ended")));
}

/// Long waits for an end are answered when it comes, and when the server is to end.
#[test]
fn an_end_is_waited_for() {
    let server = start();
    let location = named(&server, "inbox", "one");
    is_at(&server, &location, "suspended");
    let answer = server.get(&format!("{location}/outputs/result?wait=1s")).expect(202);
    keeps_to("Waiting", &answer.json());
    assert_eq!(answer.headers["retry-after"], "1");
    let answer = server.get(&format!("{location}/outputs/result")).expect(202);
    assert_eq!((answer.json(), &*answer.headers["retry-after"]), (json!({ "id": "one", "status": "suspended" }), "1"));
    let cancelled = named(&server, "inbox", "cancelled");
    server.post(&format!("{cancelled}/cancel"), b"").expect(200);
    is_at(&server, &cancelled, "cancelled");
    let without = server.get(&format!("{cancelled}/outputs/result")).error(404, "not-found", "client");
    assert_eq!(without["message"], "the invocation was cancelled: it has no result");
    server.get(&format!("{location}?wait=never")).error(400, "bad-request", "client");
    server.get(&format!("{location}?wait=301s")).error(400, "bad-request", "client");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.get(&format!("{location}?wait=300s")).expect(200).json());
        for (event, body) in [("a", "1"), ("b", "2")] {
            server.post(&format!("{location}/events/{event}"), body.as_bytes()).expect(202);
        }
        assert_eq!(waiting.join().expect("an answer")["status"], "completed");
    });
}

/// Ended ones are kept within bounds of their own, and their files with them.
#[test]
fn what_has_ended_is_forgotten_in_time() {
    let server = Server::start_with(&["--suspend", "1s", "--keep-durable", "2"]);
    deploy(&server);
    let type_of = [("Content-Type", "a/b")];
    let all: Vec<_> = (0..5)
        .map(|number| {
            let path = format!("/async-invoke/echo?id=e{number}");
            let location = began(server.ask_with("POST", &path, &type_of, format!("output {number}").as_bytes()));
            output(&server, &location, "out");
            location
        })
        .collect();
    eventually("two are left", || all.iter().filter(|location| server.get(location).status == 200).count() == 2);
    assert_eq!(server.get(&all[4]).expect(200).json()["status"], "completed");
    let files = || fs::read_dir(server.state().path().join("durable/files")).expect("a folder").count();
    // Small outputs are in their rows; what they were started with is not needed any more.
    eventually("files that nothing names are removed", || files() == 0);
}

/// What only a purged invocation needed is removed soon, although something was being exported or imported when it was purged.
#[test]
fn the_content_of_what_was_purged_is_removed_once_nothing_is_being_added() {
    let server = start();
    let location = named_echo(&server, "one");
    let folder = server.state().path().join("durable");
    let files = || fs::read_dir(folder.join("files")).expect("a folder").count();
    eventually("its output is left", || files() == 1);
    let lock = File::open(folder.join("files.lock")).expect("a file");
    lock.lock_shared().expect("nothing is being removed");
    server.post(&format!("{location}/purge"), b"").expect(204);
    assert_eq!(files(), 1, "a row may name it yet");
    drop(lock);
    eventually("it is removed", || files() == 0);
}

/// To find files that nothing names all rows are read: that is not done for each that is purged, while others wait to be started.
#[test]
fn a_purge_does_not_look_for_files_itself() {
    let server = start();
    let unnamed = server.state().path().join("durable/files").join("f".repeat(64));
    // The server may look by itself at one of these moments, and not at each.
    let is_left = |id: &&str| {
        let location = named_echo(&server, id);
        fs::write(&unnamed, "named by nothing").expect("written");
        server.post(&format!("{location}/purge"), b"").expect(204);
        unnamed.exists()
    };
    assert!(["one", "two", "three"].iter().any(is_left));
    eventually("it is removed", || !unnamed.exists());
}

/// An invocation that has completed, with an output that is a file.
fn named_echo(server: &Server, id: &str) -> String {
    let type_of = [("Content-Type", "a/b")];
    let location = began(server.ask_with("POST", &format!("/async-invoke/echo?id={id}"), &type_of, &[b'x'; 150_000]));
    is_at(server, &location, "completed");
    location
}

#[test]
fn there_are_no_more_than_the_operator_allows() {
    let server = Server::start_with(&["--suspend", "1s", "--max-durable", "2"]);
    deploy(&server);
    for id in ["one", "two"] {
        let location = named(&server, "inbox", id);
        is_at(&server, &location, "suspended");
    }
    server.post("/async-invoke/inbox?id=three", b"").error(429, "full", "host");
    server.post("/invocations/one/fork", b"").error(429, "full", "host");
    let fork = |ids: &[&str]| server.post("/invocations/one/fork", json!({ "ids": ids }).to_string().as_bytes());
    // What is there, and is not made, needs no room.
    assert_eq!(fork(&["two"]).expect(200).json()["copies"][0]["came"], "taken");
    fork(&["two", "three"]).error(429, "full", "host");
    // One whose client waits finds out when it comes to wait itself. Part of it has run by then.
    let refused = server.post("/invoke/inbox", b"");
    assert!(!refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
    refused.error(502, "full", "host");
    named(&server, "inbox", "two");
    server.post("/invocations/two/cancel", b"").expect(200);
    for came in ["new", "same"] {
        assert_eq!(fork(&["copy"]).expect(200).json()["copies"][0]["came"], came);
    }
    server.post("/invocations/one/cancel", b"").expect(200);
    named(&server, "inbox", "three");
}

/// The command line says that the workflow waits, or waits with it.
#[test]
fn a_client_is_told_that_it_waits_or_follows_it_to_its_end() {
    let server = start();
    let address = format!("http://{}", server.address);
    let left = run_verb(&address, &["invoke", "agent"], &[], "").expect(4);
    let id = left.err.split("invocation ").nth(1).and_then(|rest| rest.split(' ').next()).expect("an id").to_owned();
    let told = format!("`monohull result {id} --wait` prints what comes of it");
    let is_told = left.err.contains("waits: main[0] in ") && left.err.contains(&told);
    assert!(left.out.is_empty() && is_told, "{}\n{}", left.out, left.err);
    is_at(&server, &format!("/invocations/{id}"), "suspended");
    let shown = run_verb(&address, &["invoke", "agent", "--json"], &[], "").expect(4).json();
    assert_eq!(shown["status"], "suspended", "{shown:#}");
    let followed = run_verb(&address, &["invoke", "naps", "--follow"], &[], "").expect(0);
    assert_eq!(followed.out, RESULT);
}
