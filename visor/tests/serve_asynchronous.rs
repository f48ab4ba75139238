//! Asynchronous calls outlive their server: what was acknowledged is known afterwards, and what is reported of it is true.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use monohull_durable::Store;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::{Answer, PATIENCE, Server, StateFolder, eventually, request, single, take_callback};
use std::collections::HashMap;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A server with `echo`, `slow`, which answers after a while, and `stuck`, which never does.
fn server_with_examples(state: &StateFolder, options: &[&str]) -> Server {
    let server = Server::start_on(state, options, &[]);
    server.put_shipped("echo.json");
    let slots = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "wait_ms": 500, "say": "soon" } });
    server.put_workflow(&single("slow", "echo", &slots));
    server.put_example("misbehave");
    for (name, how) in [("stuck", "sleep"), ("panic", "panic")] {
        server.put_workflow(&single(name, "misbehave", &json!({ "args": { "how": how } })));
    }
    server
}

#[track_caller]
fn accepted(server: &Server, workflow: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
    let answer = server.ask_with("POST", &format!("/async-invoke/{workflow}"), headers, body);
    answer.expect(202).headers["location"].clone()
}

#[track_caller]
fn is_interrupted(shown: &Value) {
    assert_eq!(shown["status"], "failed", "{shown:#}");
    assert_eq!(
        (&shown["error"]["kind"], &shown["error"]["blame"]),
        (&json!("interrupted"), &json!("host")),
        "{shown:#}"
    );
}

/// The callbacks that are still to be made.
fn owed(state: &StateFolder) -> usize {
    let store = Store::open_served(&state.path().join("durable"), None).expect("a server's store");
    store.meta().and_then(|meta| Ok(meta.owed()?)).expect("read").len()
}

/// How many invocations a server lists.
fn listed(server: &Server) -> usize {
    server.get("/invocations?limit=10000").expect(200).json()["invocations"].as_array().expect("a list").len()
}

/// Kills a server in any state.
fn kill_now(server: Server) {
    server.signal(Signal::SIGKILL);
    server.wait();
}

/// A request to a server that may be gone.
fn try_ask(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(&request(method, path, &[], body)).ok()?;
    Answer::read(&mut stream)
}

/// What is called: one that is not run twice, one that may be, and one that sends an event to `r`, and is not run twice either.
const CALLED: [&str; 3] = ["echo", "again", "tells"];
/// The most calls of a client. All events of a test have room in a mailbox.
const CALLS: usize = 30;

/// A call that was acknowledged.
struct Sent {
    workflow: &'static str,
    body: String,
    /// How it was seen to end, once it was.
    ended: Option<Value>,
}

impl Sent {
    /// Whether an end is one that it may have, if nothing was said of it before.
    fn check(&self, shown: &Value) {
        match (self.workflow, shown["status"] == "completed") {
            ("tells", true) => {}
            (_, true) => assert_eq!(shown["result"]["out"]["text"], self.body, "{shown:#}"),
            ("again", false) => panic!("it may be run again: {shown:#}"),
            (_, false) => is_interrupted(shown),
        }
    }
}

/// Nothing is lost, and nothing is done twice: what sends an event sends it with its end.
#[test]
fn a_kill_at_any_moment_loses_no_call_that_was_acknowledged() {
    let rounds = some_of(12, 25);
    let options = ["--keep-durable", "100000"];
    let state = StateFolder::new();
    let server = server_with_examples(&state, &options);
    let slots = json!({ "inputs": ["in"], "outputs": ["out"], "retry": { "max_attempts": 2 } });
    server.put_workflow(&single("again", "echo", &slots));
    server.put_example("inbox");
    let args = json!({ "events": ["none"], "poll": true, "sends": ["told"], "sends_to": "r", "fills": "result" });
    let mut tells = single("tells", "inbox", &json!({ "args": args, "outputs": ["result"] }));
    tells["sends_to"] = json!(["receiver"]);
    server.put_workflow(&tells);
    let args = json!({ "events": ["told"], "fills": "result" });
    server.put_workflow(&single("receiver", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    server.post("/async-invoke/receiver?id=r&delay=1d", b"").expect(202);
    server.post("/invocations/r/pause", b"").expect(200);
    drop(server);
    let calls = Mutex::new(HashMap::<String, Sent>::new());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let check = |server: &Server, round: u64| {
        for (location, sent) in calls.lock().expect("no thread panics while it holds the lock").iter_mut() {
            let shown = server.ended(location);
            match &sent.ended {
                // What has been reported stays true.
                Some(ended) => assert_eq!(*ended, shown, "round {round}"),
                None => sent.check(&shown),
            }
            sent.ended = Some(shown);
        }
        assert_eq!(server.get("/healthz").json()["damaged"], json!([]), "round {round}");
    };
    // Some of both, or the test shows nothing.
    let shows = || {
        let calls = calls.lock().expect("no thread panics while it holds the lock");
        ["echo", "tells"].iter().all(|workflow| {
            let of = || calls.values().filter(|sent| sent.workflow == *workflow).filter_map(|sent| sent.ended.as_ref());
            let done = of().filter(|ended| ended["status"] == "completed").count();
            done > 0 && done < of().count()
        })
    };
    let mut round = 0;
    loop {
        let server = Server::start_on(&state, &options, &[]);
        check(&server, round);
        // On a busy machine it takes more of them.
        if round >= rounds && shows() {
            kill_now(server);
            break;
        }
        assert!(round < 20 * rounds, "calls were killed in {round} rounds, and none at work, or none has ended");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (address, pid) = (server.address, server.pid());
        let acknowledged = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // In every other round something has been acknowledged.
                if round % 2 == 1 {
                    eventually("a call is acknowledged", || acknowledged.load(Ordering::Relaxed));
                }
                std::thread::sleep(Duration::from_micros(random % 80_000));
                kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
            });
            for workflow in CALLED {
                let calls = &calls;
                scope.spawn(move || {
                    for number in 0..CALLS {
                        let body = if workflow == "tells" { String::new() } else { format!("{round} {number}") };
                        let path = format!("/async-invoke/{workflow}");
                        let Some(answer) = try_ask(address, "POST", &path, body.as_bytes()) else { return };
                        assert_eq!(answer.status, 202, "{}", answer.text());
                        acknowledged.store(true, Ordering::Relaxed);
                        let location = answer.headers["location"].clone();
                        calls
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .insert(location.clone(), Sent { workflow, body, ended: None });
                        // Now and then the state is read, and later answers must not contradict it.
                        let Some(shown) = try_ask(address, "GET", &location, b"") else { return };
                        let shown = shown.expect(200).json();
                        if shown["status"] == "completed" {
                            let mut calls = calls.lock().expect("no thread panics while it holds the lock");
                            calls.get_mut(&location).expect("it was sent").ended = Some(shown);
                        }
                    }
                });
            }
        });
        server.wait();
        round += 1;
    }
    let server = Server::start_on(&state, &options, &[]);
    check(&server, round);
    // One whose acknowledgement was lost with the server is there as well.
    let told = server.get("/invocations?workflow=tells&status=completed&limit=10000").expect(200).json();
    let told = told["invocations"].as_array().expect("a list").len();
    assert_eq!(server.get("/invocations/r").expect(200).json()["mail"], told);
}

/// All that can be asked about a call is the same before and after.
#[test]
fn what_came_of_a_call_outlives_the_server() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    server.put_shipped("word-count.json");
    server.put_example("no-op");
    // A report that travels, and is read, apart from the others.
    server.put_workflow(&single("many", "no-op", &json!({ "instances": 1500 })));
    let binary: Vec<u8> = (0..300_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let locations = [
        accepted(&server, "echo", &[("X-Call-Id", "order-17")], b"small \xff"),
        accepted(&server, "echo", &[], &binary),
        accepted(&server, "word-count", &[], b"a b a"),
        accepted(&server, "slow", &[], b"says something"),
        accepted(&server, "panic", &[], b""),
        accepted(&server, "many", &[], b""),
    ];
    let all = |server: &Server| -> Vec<(Value, String, Vec<u8>)> {
        let ask = |location: &String| {
            let shown = server.ended(location);
            let logs = server.get(&format!("{location}/logs?format=json")).expect(200).text();
            let outputs = shown["result"].as_object().into_iter().flat_map(|slots| slots.values()).flat_map(|slot| {
                let answer = server.get(slot["href"].as_str().expect("an address")).expect(200);
                assert_eq!(slot["content_type"], answer.headers["content-type"]);
                answer.body
            });
            let outputs = outputs.collect();
            (shown, logs, outputs)
        };
        locations.iter().map(ask).collect()
    };
    let before = all(&server);
    assert_eq!((&before[0].0["call_id"], &before[1].2), (&json!("order-17"), &binary));
    assert_eq!(before[4].0["error"]["kind"], "panic");
    assert_eq!(before[5].0["report"]["steps"][0]["instances"].as_array().map(Vec::len), Some(1500));
    assert!(before[3].1.contains("soon"), "{:#?}", before[3]);
    kill_now(server);
    let server = Server::start_on(&state, &[], &[]);
    assert!(before == all(&server), "all is as it was");
    // In an orderly end, too, and what was deleted since has no part in it.
    server.ask("DELETE", "/workflows/word-count", &[]).expect(204);
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &[], &[]);
    assert!(before == all(&server), "all is as it was");
}

#[test]
fn a_call_that_ran_when_its_server_was_killed_is_interrupted_and_not_run_again() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &["--concurrency", "1"]);
    let running = accepted(&server, "stuck", &[], b"");
    eventually("it runs", || server.get(&running).json()["status"] == "running");
    let queued = accepted(&server, "echo", &[], b"x");
    assert_eq!(server.get(&queued).json()["status"], "pending");
    kill_now(server);
    for _ in 0..2 {
        let server = Server::start_on(&state, &[], &[]);
        for location in [&running, &queued] {
            is_interrupted(&server.ended(location));
            server.ask("DELETE", location, &[]).expect(204);
        }
        eventually("nothing runs", || server.get("/healthz").json()["running"] == 0);
        kill_now(server);
    }
}

/// A call that an orderly shutdown stops has failed, and says why.
#[test]
fn a_call_that_is_stopped_at_the_end_has_failed() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &["--drain", "200ms"]);
    let location = accepted(&server, "stuck", &[], b"");
    eventually("it runs", || server.get(&location).json()["status"] == "running");
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &[], &[]);
    let shown = server.get(&location).expect(200).json();
    assert_eq!((&shown["status"], &shown["error"]["kind"]), (&json!("failed"), &json!("cancelled")), "{shown:#}");
    assert_eq!(shown["error"]["blame"], "host", "{shown:#}");
}

#[test]
fn callbacks_that_a_server_did_not_get_to_are_made_by_the_next() {
    let state = StateFolder::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let url = format!("http://{host}/done?x=1");
    let options = ["--callback-host", &host];
    let server = server_with_examples(&state, &options);
    let headers = [("X-Callback-Url", url.as_str())];
    let stuck = accepted(&server, "stuck", &headers, b"");
    eventually("it runs", || server.get(&stuck).json()["status"] == "running");
    accepted(&server, "echo", &headers, b"recorded");
    assert_eq!(take_callback(&listener, "200 OK").1["result"]["out"]["text"], "recorded");
    eventually("that is noted", || owed(&state) == 0);
    // This call has ended; its callback has not been delivered.
    let refused = accepted(&server, "echo", &headers, b"refused");
    assert_eq!(take_callback(&listener, "503 Busy").1["result"]["out"]["text"], "refused");
    // That of the other is owed once it has ended.
    assert_eq!(owed(&state), 1);
    kill_now(server);

    let server = Server::start_on(&state, &options, &[]);
    let mut late = [take_callback(&listener, "200 OK").1, take_callback(&listener, "200 OK").1];
    late.sort_by_key(|shown| shown["status"] == "completed");
    is_interrupted(&late[0]);
    assert_eq!(format!("/invocations/{}", late[0]["id"].as_str().expect("an id")), stuck);
    assert_eq!(format!("/invocations/{}", late[1]["id"].as_str().expect("an id")), refused);
    assert_eq!(late[1]["result"]["out"]["text"], "refused");
    eventually("no callback is pending", || owed(&state) == 0);
    kill_now(server);

    // A host that the operator has taken back is not called.
    let server = server_with_examples(&state, &options);
    let given_up = accepted(&server, "stuck", &headers, b"");
    kill_now(server);
    let server = Server::start_on(&state, &[], &[]);
    eventually("it has ended", || server.get(&given_up).json()["status"] == "failed");
    eventually("it is given up", || owed(&state) == 0);
    let (_, log) = server.stop();
    assert!(log.contains("are not allowed"), "{log}");
    listener.set_nonblocking(true).expect("set");
    assert!(listener.accept().is_err(), "no second callback");
}

#[test]
fn a_full_disk_is_reported_instead_of_an_acknowledgement() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    let slow = accepted(&server, "slow", &[], b"x");
    server.limit_files(Some(0));
    let error = server.post("/async-invoke/echo", b"x").error(507, "storage", "host");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("database")), "{error:#}");
    let url = [("X-Callback-Url", "http://127.0.0.1:1/")];
    server.ask_with("POST", "/async-invoke/echo", &url, b"x").error(400, "bad-request", "client");
    // What needs no disk goes on, and an end is shown once the disk has it.
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    eventually("its end is tried again", || server.log().contains("a commit is tried again"));
    assert_eq!(server.get(&slow).expect(200).json()["status"], "running");
    assert_eq!(listed(&server), 2, "what was refused is no invocation");
    server.limit_files(None);
    assert_eq!(server.ended(&slow)["status"], "completed");
    let location = accepted(&server, "echo", &[], b"y");
    assert_eq!(server.ended(&location)["status"], "completed");
    // What the disk has never had is not known to the next server.
    let lost = accepted(&server, "slow", &[], b"x");
    server.limit_files(Some(0));
    eventually("its end is tried again", || server.log().matches("a commit is tried again").count() > 1);
    assert_eq!(server.get(&lost).expect(200).json()["status"], "running");
    kill_now(server);
    let server = Server::start_on(&state, &[], &[]);
    is_interrupted(&server.ended(&lost));
    for location in [&slow, &location] {
        assert_eq!(server.get(location).expect(200).json()["status"], "completed");
    }
}

/// An output that is a file is opened for those that ask for it, and for none that asks how its invocation has ended.
#[test]
fn a_status_opens_no_outputs() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    let body = vec![b'x'; 3 << 20];
    let location = accepted(&server, "echo", &[], &body);
    let shown = server.ended(&location);
    let output = shown["result"]["out"]["href"].as_str().expect("an address").to_owned();
    assert!(server.get(&output).expect(200).body == body);
    let files = std::fs::read_dir(state.path().join("durable/files")).expect("a folder").flatten();
    let is_output = |file: &std::fs::DirEntry| file.metadata().is_ok_and(|there| there.len() == body.len() as u64);
    let found: Vec<_> = files.filter(is_output).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    std::fs::remove_file(found[0].path()).expect("removed");
    assert_eq!(server.get(&location).expect(200).json()["result"], shown["result"]);
    assert_eq!(shown["result"]["out"]["bytes"], body.len());
    server.get(&format!("{location}/logs")).expect(200);
    server.get(&output).error(500, "host", "host");
    server.get(&format!("{location}/outputs/other")).error(404, "not-found", "client");
}

/// A leg whose process has ended has no place among those that run, however long the disk does not take its commit.
#[test]
fn what_needs_no_disk_runs_while_a_leg_waits_for_one() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &["--concurrency", "1", "--timeout", "40s"]);
    // A wait would need the disk for its checkpoint.
    let busy = json!({ "args": { "how": "endless-loop" }, "timeout": "4s" });
    server.put_workflow(&single("busy", "misbehave", &busy));
    let slow = server.post("/async-invoke/busy?id=busy", b"").expect(202).headers["location"].clone();
    eventually("it runs", || server.get(&slow).expect(200).json()["status"] == "running");
    server.limit_files(Some(0));
    eventually("its end is tried again", || server.log().contains("a commit is tried again"));
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    let health = server.get("/healthz").expect(200).json();
    assert_eq!((&health["running"], &health["queued"]), (&json!(0), &json!(0)), "{health:#}");
    assert_eq!(server.get(&slow).expect(200).json()["status"], "running");
    server.limit_files(None);
    assert_eq!(server.ended(&slow)["error"]["kind"], "timeout");
    // Both are counted.
    let metrics = server.get("/metrics").text();
    for count in
        ["monohull_process_invocations_total{process=\"new\"} 2\n", "monohull_starts_total{start=\"main\"} 2\n"]
    {
        assert!(metrics.contains(count), "{count}: {metrics}");
    }
}

#[test]
fn a_call_that_waits_for_its_turn_is_cancelled_at_once() {
    let server = server_with_examples(&StateFolder::new(), &["--concurrency", "1"]);
    let running = accepted(&server, "stuck", &[], b"");
    eventually("it runs", || server.get(&running).json()["status"] == "running");
    let queued = accepted(&server, "echo", &[], b"never");
    eventually("it waits", || server.get(&queued).json()["status"] == "pending");
    server.post(&format!("{queued}/cancel"), b"").expect(200);
    assert_eq!(server.ended(&queued)["status"], "cancelled");
    server.ask("DELETE", &running, &[]).expect(204);
}

/// Those that run and those that wait for their turn are in lists as what they are.
#[test]
fn lists_have_those_that_run_and_those_that_wait_for_their_turn() {
    let server = server_with_examples(&StateFolder::new(), &["--concurrency", "1"]);
    let running = accepted(&server, "stuck", &[], b"");
    eventually("it runs", || server.get(&running).json()["status"] == "running");
    let queued: Vec<String> = (0..3).map(|_| accepted(&server, "stuck", &[], b"")).collect();
    let failed = accepted(&server, "panic", &[], b"");
    let list = |query: &str| -> (Vec<String>, Value) {
        let page = server.get(&format!("/invocations?{query}")).expect(200).json();
        let ids = page["invocations"].as_array().expect("a list").iter();
        let ids = ids.map(|it| format!("/invocations/{}", it["id"].as_str().expect("an id"))).collect();
        (ids, page["next_cursor"].clone())
    };
    assert_eq!(list("status=running"), (vec![running.clone()], Value::Null));
    let mut waiting: Vec<_> = queued.iter().rev().cloned().collect();
    waiting.insert(0, failed.clone());
    assert_eq!(list("status=pending"), (waiting.clone(), Value::Null));
    let (first, cursor) = list("status=pending&limit=3");
    assert_eq!(first, waiting[..3]);
    let cursor = cursor.as_str().expect("there are more");
    assert_eq!(list(&format!("status=pending&limit=3&cursor={cursor}")), (waiting[3..].to_vec(), Value::Null));
    assert_eq!(list("status=pending,running").0.len(), 5);
    for location in queued.iter().chain([&running]) {
        server.ask("DELETE", location, &[]).expect(204);
        assert_eq!(server.ended(location)["status"], "cancelled");
    }
    assert_eq!(server.ended(&failed)["error"]["kind"], "panic");
    let page = server.get("/invocations?status=failed").expect(200).json();
    assert_eq!(page["invocations"][0]["error_kind"], "panic", "{page:#}");
}

/// Such a call was not acknowledged, and still leaves no partial state.
#[test]
fn a_client_that_goes_away_leaves_no_call_without_an_end() {
    let server = server_with_examples(&StateFolder::new(), &[]);
    for _ in 0..40 {
        let mut stream = server.connect();
        stream.write_all(&request("POST", "/async-invoke/echo", &[], b"x")).expect("sent");
    }
    let all_ended = || {
        let health = server.get("/healthz").json();
        let listed = server.get("/invocations").json()["invocations"].take();
        let listed = listed.as_array().expect("a list").clone();
        health["running"] == 0 && listed.iter().all(|shown| shown["status"] == "completed")
    };
    eventually("all have ended", || server.get("/metrics").text().contains("monohull_connections 1\n") && all_ended());
}
