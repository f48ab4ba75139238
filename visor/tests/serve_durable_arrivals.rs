//! Events that are sent to a durable invocation while a process runs it: they reach the function that waits for them there, stay in the
//! mailbox until a checkpoint has them, and are taken once, whatever is killed.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, eventually, single};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];

/// Registers `inbox`, which takes these events. From the second on and before the last it is busy: it is not suspended.
fn deploy(server: &Server, events: &[&str]) {
    server.put_example("inbox");
    let args = json!({ "events": events, "fills": "result", "busy_from": 1, "busy_to": events.len() - 1 });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
}

fn start(server: &Server, id: &str) -> String {
    server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
    let location = format!("/invocations/{id}");
    eventually("it waits", || shown(server, &location)["status"] == "suspended");
    location
}

fn shown(server: &Server, location: &str) -> Value {
    server.get(location).expect(200).json()
}

fn send(server: &Server, location: &str, event: &str, key: &str) -> Answer {
    let path = format!("{location}/events/{event}");
    server.ask_with("POST", &path, &[("Idempotency-Key", key)], key.as_bytes())
}

/// How often it has printed this line, in all of its legs.
fn printed(server: &Server, location: &str, line: &str) -> usize {
    let logs = server.get(&format!("{location}/logs")).expect(200).text();
    logs.lines().filter(|printed| printed.ends_with(line)).count()
}

fn kill_now(server: Server) {
    server.signal(Signal::SIGKILL);
    server.wait();
}

#[track_caller]
fn ends_with(server: &Server, location: &str, result: &str) {
    assert_eq!(server.get(&format!("{location}/outputs/result?wait=120s")).expect(200).text(), result);
}

#[test]
fn an_event_reaches_the_leg_that_runs_and_leaves_the_mailbox_with_its_commit() {
    let server = Server::start_with(&OPTIONS);
    deploy(&server, &["a", "b", "b", "c"]);
    let location = start(&server, "one");
    send(&server, &location, "a", "1").expect(202);
    eventually("a is taken", || printed(&server, &location, "a: 1") == 1);
    for (event, key) in [("b", "2"), ("other", "3"), ("b", "4")] {
        let before = shown(&server, &location);
        assert_eq!((&before["status"], &before["generation"]), (&json!("running"), &json!(1)), "{before:#}");
        send(&server, &location, event, key).expect(202);
        assert_eq!(send(&server, &location, event, key).expect(200).json()["duplicate"], true);
        if event == "b" {
            let line = format!("b: {key}");
            eventually(&line, || printed(&server, &location, &line) == 1);
        }
    }
    // Only now is there another checkpoint. What was taken is in that, and `other` waits still.
    eventually("it waits for c", || shown(&server, &location)["status"] == "suspended");
    let after = shown(&server, &location);
    assert_eq!((&after["generation"], &after["mail"]), (&json!(2), &json!(1)), "{after:#}");
    send(&server, &location, "c", "5").expect(202);
    ends_with(&server, &location, "a: 1\nb: 2\nb: 4\nc: 5\n");
    assert_eq!(server.get("/healthz").json()["damaged"], json!([]));
}

/// The window between the moment in which a function has an event and the commit in which it has it for good.
#[test]
fn a_kill_after_an_event_was_taken_and_before_the_commit_gives_it_once_more_and_not_twice() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    deploy(&server, &["a", "b", "b", "b", "c"]);
    let location = start(&server, "one");
    send(&server, &location, "a", "1").expect(202);
    send(&server, &location, "b", "2").expect(202);
    eventually("b is taken", || printed(&server, &location, "b: 2") == 1);
    let before = shown(&server, &location);
    assert_eq!((&before["generation"], &before["mail"]), (&json!(1), &json!(2)), "{before:#}");
    kill_now(server);

    // The next leg goes on from the checkpoint before both, with both.
    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("b is taken again", || printed(&server, &location, "b: 2") >= 1);
    assert_eq!(send(&server, &location, "b", "2").expect(200).json()["duplicate"], true);
    send(&server, &location, "b", "3").expect(202);
    eventually("the next one too", || printed(&server, &location, "b: 3") >= 1);
    kill_now(server);

    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("all three are taken", || printed(&server, &location, "b: 3") >= 1);
    send(&server, &location, "b", "4").expect(202);
    eventually("it waits for c", || shown(&server, &location)["status"] == "suspended");
    assert_eq!(shown(&server, &location)["mail"], 0);
    kill_now(server);

    let server = Server::start_on(&state, &OPTIONS, &[]);
    send(&server, &location, "c", "5").expect(202);
    ends_with(&server, &location, "a: 1\nb: 2\nb: 3\nb: 4\nc: 5\n");
}

/// A client sends as much as may wait, to a leg that takes none of it: it is refused at the bound, and neither the leg nor others suffer.
#[test]
fn a_flood_of_events_for_a_leg_ends_at_the_bounds_of_its_mailbox() {
    let server = Server::start_with(&OPTIONS);
    deploy(&server, &["a", "b", "c"]);
    let [flooded, large, other] = ["flooded", "large", "other"].map(|id| start(&server, id));
    for location in [&flooded, &large] {
        send(&server, location, "a", "1").expect(202);
        eventually("a is taken", || printed(&server, location, "a: 1") == 1);
    }
    // `a` is in the mailbox still.
    let path = format!("{flooded}/events/flood");
    for _ in 1..1000 {
        server.post(&path, b"").expect(202);
    }
    server.post(&path, b"").error(429, "full", "host");
    send(&server, &flooded, "b", "2").error(429, "full", "host");
    let path = format!("{large}/events/flood");
    let megabyte = vec![b'x'; 1 << 20];
    for _ in 0..15 {
        server.post(&path, &megabyte).expect(202);
    }
    server.post(&path, &megabyte).error(429, "full", "host");
    for location in [&flooded, &large] {
        assert_eq!(shown(&server, location)["status"], "running");
        server.ask("DELETE", location, b"").expect(204);
    }
    for (event, key) in [("a", "1"), ("b", "2"), ("c", "3")] {
        send(&server, &other, event, key).expect(202);
    }
    ends_with(&server, &other, "a: 1\nb: 2\nc: 3\n");
}
