//! One invocation is paused, resumed, forked and taken back over and over: what comes of it is what comes of one that is left alone.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use serde_json::{Value, json};
use serve_support::{Server, eventually, single};

/// How many times, and how many with `--full`.
const CYCLES: (usize, usize) = (40, 1000);
/// Of so many copies the rest is run too.
const FOLLOWED: usize = 4;

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

fn ask(server: &Server, id: &str, what: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.post(&format!("/invocations/{id}/{what}"), body.as_bytes()).expect(200).json()
}

fn send(server: &Server, id: &str, event: usize) {
    let path = format!("/invocations/{id}/events/e{event}");
    server.post(&path, format!("number {event}").as_bytes()).expect(202);
}

/// Waits until it waits for this event, in another generation than that; the one in which it does.
fn waits_for(server: &Server, id: &str, event: usize, not: u64) -> u64 {
    let name = format!("e{event}");
    let is_there = || {
        let shown = shown(server, id);
        let waits = shown["waiting_for"][0]["event"] == name.as_str() && shown["generation"] != not;
        shown["status"] == "suspended" && waits
    };
    eventually(&format!("{id} waits for {name}"), is_there);
    shown(server, id)["generation"].as_u64().expect("a number")
}

fn result(server: &Server, id: &str) -> String {
    server.get(&format!("/invocations/{id}/outputs/result?wait=120s")).expect(200).text()
}

#[test]
fn what_is_paused_resumed_forked_and_taken_back_ends_as_one_that_is_left_alone() {
    let cycles = some_of(CYCLES.0, CYCLES.1);
    let server = Server::start_with(&["--suspend", "1s"]);
    server.put_example("inbox");
    let events: Vec<_> = (0..=cycles).map(|event| format!("e{event}")).collect();
    let args = json!({ "events": events, "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    for id in ["one", "alone"] {
        server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
    }
    let mut generation = waits_for(&server, "one", 0, 0);
    let mut followed = Vec::new();
    for event in 0..cycles {
        assert_eq!(ask(&server, "one", "pause", &Value::Null)["status"], "paused");
        // It arrives, and is not taken before it goes on.
        send(&server, "one", event);
        let paused = shown(&server, "one");
        assert_eq!(
            (&paused["status"], &paused["mail"], &paused["generation"]),
            (&json!("paused"), &json!(1), &json!(generation))
        );
        ask(&server, "one", "resume", &Value::Null);
        let behind = waits_for(&server, "one", event + 1, generation);
        let copy = format!("copy-{event}");
        let forked = ask(&server, "one", "fork", &json!({ "ids": [copy], "paused": true }));
        assert_eq!((&forked["copies"][0]["came"], &forked["generation"]), (&json!("new"), &json!(behind)));
        let (own, other) = (shown(&server, "one"), shown(&server, &copy));
        assert_eq!(own["waiting_for"], other["waiting_for"]);
        if event % (cycles / FOLLOWED).max(1) == 0 {
            followed.push((copy, event + 1));
        } else {
            ask(&server, &copy, "cancel", &Value::Null);
            server.post(&format!("/invocations/{copy}/purge"), b"").expect(204);
        }
        // Back before the event, which is not given back: it is sent once more.
        let back =
            ask(&server, "one", "rewind", &json!({ "to": generation }))["generation"].as_u64().expect("a number");
        assert_eq!(waits_for(&server, "one", event, behind), back);
        send(&server, "one", event);
        generation = waits_for(&server, "one", event + 1, back);
    }
    for event in 0..=cycles {
        send(&server, "alone", event);
    }
    send(&server, "one", cycles);
    let alone = result(&server, "alone");
    assert_eq!(alone.lines().count(), cycles + 1, "{alone}");
    assert_eq!(result(&server, "one"), alone);
    for (copy, first) in &followed {
        ask(&server, copy, "resume", &Value::Null);
        for event in *first..=cycles {
            send(&server, copy, event);
        }
        assert_eq!(result(&server, copy), alone, "{copy}");
    }
    println!("{cycles} cycles, {} copies run to their end, 0 differences", followed.len());
}
