//! Asynchronous calls outlive their server: what was acknowledged is known afterwards, and what is reported of it is true.

mod serve_support;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::{Value, json};
use serve_support::{Answer, PATIENCE, Server, StateFolder, eventually, request, single, take_callback};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
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

fn records(state: &StateFolder) -> Vec<PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(state.path().join("invocations")).expect("a folder").flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

fn record_of(state: &StateFolder, location: &str) -> PathBuf {
    state.path().join(location.trim_start_matches('/'))
}

#[track_caller]
fn is_interrupted(shown: &Value) {
    assert_eq!(shown["status"], "failed", "{shown:#}");
    assert_eq!(
        (&shown["error"]["kind"], &shown["error"]["blame"]),
        (&json!("interrupted"), &json!("host")),
        "{shown:#}"
    );
    assert_eq!(shown["recorded"], true, "{shown:#}");
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

/// A call that was acknowledged.
struct Sent {
    body: String,
    /// How it was seen to end, once it was.
    ended: Option<Value>,
}

#[test]
fn a_kill_at_any_moment_loses_no_call_that_was_acknowledged() {
    const ROUNDS: u64 = 25;
    let state = StateFolder::new();
    drop(server_with_examples(&state, &[]));
    let calls = Mutex::new(HashMap::<String, Sent>::new());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let check = |server: &Server, round: u64| {
        for (location, sent) in calls.lock().expect("no thread panics while it holds the lock").iter_mut() {
            let shown = server.get(location).expect(200).json();
            match &sent.ended {
                // What has been reported stays true.
                Some(ended) => assert_eq!(*ended, shown, "round {round}"),
                None if shown["status"] == "completed" => {
                    assert_eq!(shown["result"]["out"]["text"], sent.body, "round {round}")
                }
                None => is_interrupted(&shown),
            }
            sent.ended = Some(shown);
        }
        assert_eq!(server.get("/healthz").json()["damaged"], json!([]), "round {round}");
    };
    for round in 0..ROUNDS {
        let server = Server::start_on(&state, &["--keep", "100000"], &[]);
        check(&server, round);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (address, pid) = (server.address, server.pid());
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(random % 80_000));
            kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it runs");
        });
        std::thread::scope(|scope| {
            for client in 0..3 {
                let calls = &calls;
                scope.spawn(move || {
                    for number in 0.. {
                        let body = format!("{round} {client} {number}");
                        let Some(answer) = try_ask(address, "POST", "/async-invoke/echo", body.as_bytes()) else {
                            return;
                        };
                        assert_eq!(answer.status, 202, "{}", answer.text());
                        let location = answer.headers["location"].clone();
                        calls
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .insert(location.clone(), Sent { body, ended: None });
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
        killer.join().expect("killed");
        server.wait();
    }
    let server = Server::start_on(&state, &["--keep", "100000"], &[]);
    check(&server, ROUNDS);
    let calls = calls.into_inner().expect("no thread panics while it holds the lock");
    let done =
        calls.values().filter(|sent| sent.ended.as_ref().is_some_and(|ended| ended["status"] == "completed")).count();
    // Some of both, or the test shows nothing.
    assert!(done > 0 && done < calls.len(), "{done} of {}", calls.len());
    assert!(records(&state).iter().all(|path| path.extension().is_none()), "nothing half-written stays");
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
            assert_eq!(shown["recorded"], true, "{shown:#}");
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
            is_interrupted(&server.get(location).expect(200).json());
            server.ask("DELETE", location, &[]).expect(204);
        }
        assert_eq!(server.get("/healthz").json()["running"], 0);
        kill_now(server);
    }
}

/// A call that an orderly shutdown stops is reported as cancelled.
#[test]
fn a_call_that_is_stopped_at_the_end_is_cancelled() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &["--drain", "200ms"]);
    let location = accepted(&server, "stuck", &[], b"");
    eventually("it runs", || server.get(&location).json()["status"] == "running");
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &[], &[]);
    let shown = server.get(&location).expect(200).json();
    assert_eq!((&shown["status"], &shown["error"]["kind"]), (&json!("cancelled"), &json!("cancelled")), "{shown:#}");
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
    let recorded = accepted(&server, "echo", &headers, b"recorded");
    assert_eq!(take_callback(&listener, "200 OK").1["result"]["out"]["text"], "recorded");
    let owed = || {
        let names = fs::read_dir(state.path().join("callbacks")).expect("a folder").flatten();
        names.map(|entry| entry.file_name().into_string().expect("text")).collect::<Vec<_>>()
    };
    eventually("that is noted", || !owed().contains(&recorded["/invocations/".len()..].to_owned()));
    // This call has ended; its callback has not been delivered.
    let refused = accepted(&server, "echo", &headers, b"refused");
    assert_eq!(take_callback(&listener, "503 Busy").1["result"]["out"]["text"], "refused");
    assert_eq!(owed().len(), 2);
    kill_now(server);

    let server = Server::start_on(&state, &options, &[]);
    let mut late = [take_callback(&listener, "200 OK").1, take_callback(&listener, "200 OK").1];
    late.sort_by_key(|shown| shown["status"] == "completed");
    is_interrupted(&late[0]);
    assert_eq!(format!("/invocations/{}", late[0]["id"].as_str().expect("an id")), stuck);
    assert_eq!(format!("/invocations/{}", late[1]["id"].as_str().expect("an id")), refused);
    assert_eq!(late[1]["result"]["out"]["text"], "refused");
    eventually("no callback is pending", || owed().is_empty());
    kill_now(server);

    // A host that the operator has taken back is not called.
    let server = server_with_examples(&state, &options);
    accepted(&server, "stuck", &headers, b"");
    kill_now(server);
    let server = Server::start_on(&state, &[], &[]);
    eventually("it is given up", || owed().is_empty());
    let (_, log) = server.stop();
    assert!(log.contains("are not allowed"), "{log}");
    listener.set_nonblocking(true).expect("set");
    assert!(listener.accept().is_err(), "no second callback");
}

#[test]
fn damaged_records_are_set_aside_and_the_rest_works() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    let locations: Vec<String> =
        (0..4).map(|number| accepted(&server, "echo", &[], format!("{number}").as_bytes())).collect();
    locations.iter().for_each(|location| drop(server.ended(location)));
    kill_now(server);
    let damage = |location: &String, change: &dyn Fn(&mut Vec<u8>)| {
        let path = record_of(&state, location);
        let mut bytes = fs::read(&path).expect("a record");
        change(&mut bytes);
        fs::write(&path, bytes).expect("written");
    };
    damage(&locations[0], &|bytes| *bytes.last_mut().expect("not empty") ^= 1);
    damage(&locations[1], &|bytes| bytes.truncate(bytes.len() / 2));
    damage(&locations[2], &Vec::clear);
    let strange = state.path().join("invocations/..strange");
    fs::write(&strange, "x").expect("written");
    fs::write(state.path().join("callbacks/strange"), "x").expect("written");
    fs::write(state.path().join("invocations").join(format!("{}.part", "a".repeat(32))), "half").expect("written");

    let server = Server::start_on(&state, &[], &[]);
    let damaged = server.get("/healthz").expect(200).json()["damaged"].take();
    assert_eq!(damaged.as_array().map(Vec::len), Some(5), "{damaged:#}");
    for location in &locations[..3] {
        server.get(location).error(404, "not-found", "client");
        assert!(!record_of(&state, location).exists());
    }
    assert_eq!(server.get(&locations[3]).expect(200).json()["result"]["out"]["text"], "3");
    let location = accepted(&server, "echo", &[], b"x");
    assert_eq!(server.ended(&location)["status"], "completed");
    let (_, log) = server.stop();
    assert_eq!(log.matches("set aside").count(), 5, "{log}");
    assert_eq!(fs::read_dir(state.path().join("damaged")).expect("a folder").count(), 5);
    let server = Server::start_on(&state, &[], &[]);
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
    assert_eq!(records(&state).len(), 2);
}

/// What the server may write to one file from now on.
fn limit_files(server: &Server, bytes: Option<u64>) {
    let pid = rustix::process::Pid::from_raw(server.pid()).expect("a process");
    prlimit(Some(pid), Resource::Fsize, Rlimit { current: bytes, maximum: None }).expect("it is below us");
}

#[test]
fn a_full_disk_is_reported_instead_of_an_acknowledgement() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    let slow = accepted(&server, "slow", &[], b"x");
    limit_files(&server, Some(0));
    let error = server.post("/async-invoke/echo", b"x").error(507, "storage", "host");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("invocations")), "{error:#}");
    let url = [("X-Callback-Url", "http://127.0.0.1:1/")];
    server.ask_with("POST", "/async-invoke/echo", &url, b"x").error(400, "bad-request", "client");
    // What needs no disk goes on, and an end that cannot be kept is known as long as the server is there.
    assert_eq!(server.post("/invoke/echo", b"x").expect(200).text(), "x");
    let shown = server.ended(&slow);
    assert_eq!((&shown["status"], &shown["recorded"]), (&json!("completed"), &json!(false)), "{shown:#}");
    let listed = server.get("/invocations").json()["invocations"].as_array().map(Vec::len);
    assert_eq!(listed, Some(2), "what was refused is no invocation");
    limit_files(&server, None);
    let location = accepted(&server, "echo", &[], b"y");
    assert_eq!(server.ended(&location)["recorded"], true);
    assert_eq!(records(&state).len(), 2);
    kill_now(server);
    let server = Server::start_on(&state, &[], &[]);
    is_interrupted(&server.get(&slow).expect(200).json());
    assert_eq!(server.get(&location).expect(200).json()["status"], "completed");
}

#[test]
fn records_are_bounded_like_what_is_remembered() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &["--keep", "2"]);
    let locations: Vec<String> = (0..5)
        .map(|number| {
            let location = accepted(&server, "echo", &[], format!("{number}").as_bytes());
            server.ended(&location);
            location
        })
        .collect();
    let kept = |path: &Path| locations.iter().position(|location| record_of(&state, location) == path);
    let newest = || {
        let mut kept: Vec<_> = records(&state).iter().map(|path| kept(path).expect("one of them")).collect();
        kept.sort_unstable();
        kept
    };
    eventually("two are left", || newest() == [3, 4]);
    kill_now(server);
    let server = Server::start_on(&state, &["--keep", "1"], &[]);
    assert_eq!(newest(), [4]);
    server.get(&locations[3]).error(404, "not-found", "client");
    server.get(&locations[4]).expect(200);
    kill_now(server);
    // It has ended before two servers were killed and started.
    let server = Server::start_on(&state, &["--keep-time", "1ms"], &[]);
    server.get(&locations[4]).error(404, "not-found", "client");
    assert!(records(&state).is_empty());
}

/// Such a call was not acknowledged, and still leaves no partial state.
#[test]
fn a_client_that_goes_away_leaves_no_record_without_an_end() {
    let state = StateFolder::new();
    let server = server_with_examples(&state, &[]);
    for _ in 0..40 {
        let mut stream = server.connect();
        stream.write_all(&request("POST", "/async-invoke/echo", &[], b"x")).expect("sent");
    }
    let all_ended = || {
        let health = server.get("/healthz").json();
        let listed = server.get("/invocations").json()["invocations"].take();
        let listed = listed.as_array().expect("a list").clone();
        health["running"] == 0
            && listed.len() == records(&state).len()
            && listed.iter().all(|shown| shown["status"] == "completed" && shown["recorded"] == true)
    };
    eventually("all have ended", || server.get("/metrics").text().contains("monohull_connections 1\n") && all_ended());
}
