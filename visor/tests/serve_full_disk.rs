//! The disk of a running server is full, or has become read-only: each route that writes says so and changes nothing, what was acknowledged is there
//! also after a kill, and the same request works once the disk takes it. Routes of invocations that sleep are in `durable_full`.

#[path = "support/read_only.rs"]
mod read_only;
mod serve_support;

use nix::sys::signal::Signal;
use read_only::Disk;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, image_bytes, single};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];

/// A server, and what lets its disk take nothing, or everything again.
type OnDisk = (Server, Box<dyn Fn(&Server, bool)>);
type Start = fn(&StateFolder, &[&str]) -> OnDisk;

fn full(state: &StateFolder, options: &[&str]) -> OnDisk {
    let server = Server::start_on(state, options, &[]);
    (server, Box::new(|server: &Server, is_full: bool| server.limit_files(is_full.then_some(0))))
}

fn read_only(state: &StateFolder, options: &[&str]) -> OnDisk {
    let (disk, server) = Disk::under(state.path(), || Server::start_on(state, options, &[]));
    (server, Box::new(move |_: &Server, is_read_only: bool| disk.set_read_only(is_read_only)))
}

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

/// Starts one that waits for a callback: its token.
fn waits_for_callback(server: &Server, id: &str) -> String {
    server.post(&format!("/async-invoke/counter?id={id}"), b"").expect(202);
    eventually("it waits", || shown(server, id)["status"] == "suspended");
    server.post(&format!("/invocations/{id}/events/close"), b"").expect(202);
    eventually("it waits again", || {
        let shown = shown(server, id);
        shown["status"] == "suspended" && shown["generation"] == 2
    });
    let logs = server.get(&format!("/invocations/{id}/logs")).expect(200).text();
    logs.split(&format!("to end: {id} ")).nth(1).and_then(|rest| rest.get(..41)).expect("a token").to_owned()
}

#[test]
fn each_route_that_writes_says_so_and_works_later() {
    each_route_that_writes_says_so(full);
}

#[test]
fn each_route_that_writes_says_that_the_disk_is_read_only_and_works_later() {
    each_route_that_writes_says_so(read_only);
}

fn each_route_that_writes_says_so(start: Start) {
    let state = StateFolder::new();
    let (server, take_nothing) = start(&state, &OPTIONS);
    let counter = |reminders: u64| {
        let args = json!({ "confirm": true, "silence_s": 3600 + reminders });
        single("counter", "counter", &json!({ "args": args, "outputs": ["total"] })).to_string()
    };
    server.put_example("counter");
    server.ask("PUT", "/workflows/counter", counter(0).as_bytes()).expect(201);
    let schedule = json!({ "workflow": "counter", "cron": "0 6 1 1 *" }).to_string();
    server.ask("PUT", "/schedules/old", schedule.as_bytes()).expect(201);
    let ids = ["completed", "rejected", "prolonged", "removed"];
    let [completed, rejected, prolonged, _] = ids.map(|id| waits_for_callback(&server, id));
    server.post("/async-invoke/counter?id=moved", b"").expect(202);
    eventually("it waits", || shown(&server, "moved")["status"] == "suspended");
    let changed = counter(1);
    let image = image_bytes("echo");
    let put = [
        ("PUT", "/functions/echo".to_owned(), &image[..], 201),
        ("PUT", "/workflows/counter".to_owned(), changed.as_bytes(), 200),
        ("PUT", "/schedules/new".to_owned(), schedule.as_bytes(), 201),
        ("DELETE", "/schedules/old".to_owned(), b"", 204),
        ("POST", format!("/callbacks/completed/{completed}"), b"yes", 202),
        ("POST", format!("/callbacks/rejected/{rejected}/reject"), b"no", 202),
        ("POST", format!("/callbacks/prolonged/{prolonged}/heartbeat"), b"", 202),
        ("DELETE", "/invocations/removed".to_owned(), b"", 204),
    ];
    let all = || ids.iter().chain(&["moved"]).map(|id| shown(&server, id)).collect::<Vec<_>>();
    let before = all();
    take_nothing(&server, true);
    for (method, path, body, _) in &put {
        let answer = server.ask(method, path, body);
        let error = answer.json()["error"].clone();
        let message = error["message"].as_str().unwrap_or_default();
        // This limit, unlike a disk, bounds files in memory too: an image is looked at in such.
        let (status, place) = match message.contains("lacks memory") {
            true => (500, "echo"),
            false => (507, state.path().to_str().expect("text")),
        };
        assert_eq!((answer.status, &error["blame"]), (status, &json!("host")), "{method} {path}: {error:#}");
        assert!(message.contains(place), "{method} {path}: {message}");
    }
    let moved = server.post("/workflows/counter/migrate", br#"{"id": "moved"}"#);
    assert!(!moved.text().contains("\"migrated\""), "{}: {}", moved.status, moved.text());
    assert_eq!(all(), before, "nothing has changed");
    server.get("/functions/echo").error(404, "not-found", "client");
    server.get("/schedules/old").expect(200);
    // What needs no disk goes on, and a kill loses nothing.
    server.get("/readyz").expect(200);
    server.signal(Signal::SIGKILL);
    server.wait();
    let (server, take_nothing) = start(&state, &OPTIONS);
    for was in &before {
        let is = shown(&server, was["id"].as_str().expect("an id"));
        assert_eq!((&is["status"], &is["generation"]), (&was["status"], &was["generation"]), "{is:#}");
    }
    take_nothing(&server, true);
    server.ask("PUT", &put[2].1, put[2].2).error(507, "storage", "host");
    take_nothing(&server, false);
    for (method, path, body, status) in &put {
        server.ask(method, path, body).expect(*status);
    }
    server.post("/workflows/counter/migrate", br#"{"id": "moved"}"#).expect(200);
    for id in ["completed", "rejected"] {
        assert_eq!(server.ended(&format!("/invocations/{id}"))["status"], "completed");
    }
}

/// It has done its work, and is not run again: its output is kept once the disk takes it.
#[test]
fn a_large_output_of_a_call_that_runs_once_waits_for_the_disk() {
    a_large_output_waits(full);
}

#[test]
fn a_large_output_of_a_call_that_runs_once_waits_for_a_disk_that_is_read_only() {
    a_large_output_waits(read_only);
}

fn a_large_output_waits(start: Start) {
    let (server, take_nothing) = start(&StateFolder::new(), &["--timeout", "120s"]);
    server.put_example("echo");
    let slow = json!({ "inputs": ["in"], "outputs": ["out"], "args": { "wait_ms": 10_000, "say": "soon" } });
    server.put_workflow(&single("slow", "echo", &slow));
    let body: Vec<u8> = (0..3 << 20).map(|number: u32| (number % 251) as u8).collect();
    let location = server.post("/async-invoke/slow", &body).expect(202).headers["location"].clone();
    eventually("it runs", || server.get(&format!("{location}/logs")).expect(200).text().contains("soon"));
    take_nothing(&server, true);
    eventually("it waits for the disk", || server.log().contains("outputs wait for the disk"));
    assert_eq!(server.get(&location).expect(200).json()["status"], "running");
    take_nothing(&server, false);
    let shown = server.ended(&location);
    assert_eq!(shown["status"], "completed", "{shown:#}");
    assert_eq!(server.get(&format!("{location}/outputs/out")).expect(200).body, body);
}
