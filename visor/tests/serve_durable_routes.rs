//! What clients repeat and what they end: calls with a key, killed invocations, and save points that are made from outside.

mod serve_support;

use monohull_visor::watchdog::openapi::DOCUMENT;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, eventually, single};

const DAY: u64 = 86_400_000;
const KEY: (&str, &str) = ("Idempotency-Key", "form-4711");

/// Registers `echo`; `agent`, which sleeps for a day three times; and `busy`, which never ends.
fn start_on(state: &StateFolder) -> Server {
    let server = Server::start_on(state, &["--suspend", "1s"], &[]);
    for example in ["echo", "forked", "misbehave"] {
        server.put_example(example);
    }
    server.put_workflow(&single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] })));
    let agent = json!({ "args": { "rounds": 3, "milliseconds": DAY }, "outputs": ["diary"] });
    server.put_workflow(&single("agent", "forked", &agent));
    server.put_workflow(&single("busy", "misbehave", &json!({ "args": { "how": "endless-loop" } })));
    server
}

fn keeps_to(name: &str, value: &Value) {
    let mut root: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    root["$ref"] = format!("#/components/schemas/{name}").into();
    let schema = jsonschema::validator_for(&root).expect("a schema");
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}\n{value:#}");
}

fn sleeper(server: &Server, id: &str) {
    server.post(&format!("/async-invoke/agent?id={id}"), b"").expect(202);
    let at = format!("/invocations/{id}");
    eventually("it sleeps", || server.get(&at).json()["status"] == "suspended");
}

/// A call with a key is made once: the same call again is answered with what came of the first one, also by the next server.
#[test]
fn the_same_call_again_is_answered_with_the_first_ones_result() {
    let state = StateFolder::new();
    let server = start_on(&state);
    let call = |server: &Server, body: &[u8]| server.ask_with("POST", "/invoke/echo", &[KEY], body);
    let first = call(&server, b"hello").expect(200);
    assert_eq!(first.body, b"hello");
    let id = first.headers["x-invocation-id"].clone();
    let same = |answer: Answer| {
        let answer = answer.expect(200);
        assert_eq!((&answer.headers["x-invocation-id"], &answer.body[..]), (&id, &b"hello"[..]));
    };
    same(call(&server, b"hello"));
    call(&server, b"other").error(422, "invalid", "client");
    let other = server.ask_with("POST", "/invoke/echo", &[("Idempotency-Key", "form-4712")], b"hello").expect(200);
    assert_ne!(other.headers["x-invocation-id"], id);
    // An asynchronous call with the key is the same call, too.
    assert_eq!(server.ask_with("POST", "/async-invoke/echo", &[KEY], b"hello").expect(202).json()["id"], id);
    let large = vec![b'x'; 300 << 10];
    let key = [("Idempotency-Key", "large")];
    for _ in 0..2 {
        assert!(server.ask_with("POST", "/invoke/echo", &key, &large).expect(200).body == large);
    }
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &["--suspend", "1s"], &[]);
    same(call(&server, b"hello"));
    server.ask_with("POST", "/run", &[KEY], b"{}").error(400, "bad-request", "client");
}

/// One that waits is answered as soon as it waits, each time; so is a failure.
#[test]
fn a_keyed_call_that_waits_or_fails_is_answered_so_each_time() {
    let server = start_on(&StateFolder::new());
    let call = || server.ask_with("POST", "/invoke/agent", &[KEY], b"").expect(202);
    let (first, second) = (call(), call());
    assert_eq!(first.headers["location"], second.headers["location"]);
    assert_eq!((&first.json()["status"], &second.json()["status"]), (&json!("suspended"), &json!("suspended")));
    let mut panic = single("panic", "misbehave", &json!({ "args": { "how": "panic" } }));
    panic["steps"][0]["retry"] = json!({ "max_attempts": 1 });
    server.put_workflow(&panic);
    let failed = || server.ask_with("POST", "/invoke/panic", &[KEY], b"").error(502, "panic", "function");
    assert_eq!(failed()["message"], failed()["message"]);
    assert_eq!(server.get("/invocations?workflow=panic").json()["invocations"].as_array().map(Vec::len), Some(1));
}

/// The id that a client chooses for a call whose end it waits for is that of a durable invocation: the same call again is that one, and another call
/// is told which invocation has the id.
#[test]
fn a_client_that_waits_chooses_the_id() {
    let state = StateFolder::new();
    let server = start_on(&state);
    let first = server.post("/invoke/echo?id=mine", b"hello").expect(200);
    assert_eq!((&first.body[..], &*first.headers["x-invocation-id"]), (&b"hello"[..], "mine"));
    assert_eq!(server.post("/invoke/echo?id=mine", b"hello").expect(200).body, b"hello");
    assert_eq!(server.post("/async-invoke/echo?id=mine", b"hello").expect(202).json()["id"], "mine");
    for (path, body) in [("/invoke/echo?id=mine", &b"other"[..]), ("/invoke/agent?id=mine", b"")] {
        let refused = server.post(path, body).error(409, "conflict", "client");
        assert!(refused["message"].as_str().is_some_and(|text| text.contains("/invocations/mine")), "{refused}");
    }
    server.ask_with("POST", "/invoke/echo?id=both", &[KEY], b"x").error(400, "bad-request", "client");
    server.post("/invoke/echo?id=no%20id", b"x").error(400, "bad-request", "client");
    assert_eq!(server.post("/invoke/agent?id=waits", b"").expect(202).json()["status"], "suspended");
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &["--suspend", "1s"], &[]);
    assert_eq!(server.post("/invoke/echo?id=mine", b"hello").expect(200).body, b"hello");
}

/// A call that begins later is accepted at once, and its result is asked for where it says. One whose time has come is waited for.
#[test]
fn a_call_that_begins_later_is_accepted_at_once() {
    let server = start_on(&StateFolder::new());
    for choice in ["id=later&delay=1d", "id=new-year&at=2099-01-01T00:00:00Z", "delay=1h"] {
        let path = format!("/invoke/echo?{choice}");
        let accepted = server.post(&path, b"hello").expect(202);
        let shown = accepted.json();
        keeps_to("Accepted", &shown);
        assert_eq!(shown["status"], "pending");
        let at = accepted.headers["location"].clone();
        assert_eq!(at, format!("/invocations/{}", shown["id"].as_str().expect("an id")));
        assert_eq!(server.get(&at).expect(200).json()["status"], "pending");
    }
    // The same again is no other call.
    assert_eq!(server.post("/invoke/echo?id=later&delay=1d", b"hello").expect(202).json()["id"], "later");
    server.post("/invoke/echo?id=later&delay=1d", b"other").error(409, "conflict", "client");
    server.post("/invoke/echo?delay=1d&at=2099-01-01T00:00:00Z", b"x").error(400, "bad-request", "client");
    server.post("/invoke/echo?delay=soon", b"x").error(400, "bad-request", "client");
    for choice in ["delay=0s", "at=2020-01-01T00:00:00Z&id=past"] {
        assert_eq!(server.post(&format!("/invoke/echo?{choice}"), b"hello").expect(200).body, b"hello");
    }
    server.post("/invoke/echo?id=soon&delay=1s", b"hello").expect(202);
    assert_eq!(server.get("/invocations/soon/outputs/out?wait=60s").expect(200).body, b"hello");
    assert_eq!(server.post("/invoke/echo?id=soon&delay=1s", b"hello").expect(200).body, b"hello");
}

/// What is killed ends at once, whatever it does, and to kill it twice is no error.
#[test]
fn killed_invocations_end_at_once() {
    let server = start_on(&StateFolder::new());
    sleeper(&server, "asleep");
    server.post("/async-invoke/busy?id=busy", b"").expect(202);
    eventually("it runs", || server.get("/invocations/busy").json()["status"] == "running");
    for id in ["asleep", "busy"] {
        let killed = server.post(&format!("/invocations/{id}/kill"), b"").expect(200).json();
        keeps_to("Controlled", &killed);
        let at = format!("/invocations/{id}");
        eventually("it is cancelled", || server.get(&at).json()["status"] == "cancelled");
        let again = server.post(&format!("/invocations/{id}/kill"), b"").expect(200).json();
        assert_eq!((&again["id"], &again["status"]), (&json!(id), &json!("cancelled")));
    }
    let answer = server.post("/invoke/echo", b"x").expect(200);
    let ended = format!("/invocations/{}/kill", answer.headers["x-invocation-id"]);
    server.post(&ended, b"").error(409, "conflict", "client");
    server.post("/invocations/unknown/kill", b"").error(404, "not-found", "client");
}

#[test]
fn forks_and_rewinds_with_a_key_are_done_once() {
    let state = StateFolder::new();
    let server = start_on(&state);
    sleeper(&server, "one");
    let ask = |server: &Server, path: &str, body: &Value| {
        server.ask_with("POST", &format!("/invocations/one/{path}"), &[KEY], body.to_string().as_bytes())
    };
    let names = |made: &Value, came: &str| -> Vec<String> {
        keeps_to("Forked", made);
        let copies = made["copies"].as_array().expect("a list").iter();
        copies.filter(|copy| copy["came"] == came).map(|copy| copy["id"].as_str().expect("an id").to_owned()).collect()
    };
    let two = json!({ "count": 2, "paused": true });
    let made = names(&ask(&server, "fork", &two).expect(200).json(), "new");
    assert_eq!(made.len(), 2);
    // Another body, or another path, is another request.
    for other in
        [json!({ "count": 1, "paused": true }), json!({ "count": 2 }), json!({ "count": 2, "at": 1, "paused": true })]
    {
        ask(&server, "fork", &other).error(422, "invalid", "client");
    }
    ask(&server, "rewind", &json!({ "to": 1 })).error(422, "invalid", "client");
    let rewind = |server: &Server, to: u64| {
        let key = [("Idempotency-Key", "back")];
        server.ask_with("POST", "/invocations/one/rewind", &key, json!({ "to": to }).to_string().as_bytes())
    };
    for _ in 0..2 {
        let back = rewind(&server, 1).expect(200).json();
        keeps_to("Rewound", &back);
        assert_eq!((&back["generation"], &back["status"]), (&json!(2), &json!("suspended")));
    }
    rewind(&server, 2).error(422, "invalid", "client");
    // It has gone on since, one of the copies was removed, and there is another server.
    for verb in ["cancel", "purge"] {
        server.post(&format!("/invocations/{}/{verb}", made[0]), b"");
    }
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = start_on(&state);
    let again = ask(&server, "fork", &two).expect(200).json();
    assert_eq!((names(&again, "gone"), names(&again, "same")), (vec![made[0].clone()], vec![made[1].clone()]));
    assert_eq!((&again["generation"], &again["copies"][1]["status"]), (&json!(1), &json!("paused")));
    assert_eq!(rewind(&server, 1).expect(200).json()["generation"], 2);
    assert_eq!(server.get("/invocations/one").expect(200).json()["generation"], 2);
    server.get(&format!("/invocations/{}", made[0])).error(410, "gone", "client");
}

/// Where a repeated request does something twice a key is refused, and where it does not it is taken.
#[test]
fn a_key_is_refused_where_it_would_mean_nothing() {
    let server = start_on(&StateFolder::new());
    sleeper(&server, "one");
    let ask = |path: &str, body: &str| server.ask_with("POST", path, &[KEY], body.as_bytes());
    ask("/invocations/one/checkpoints", r#"{"label": "here"}"#).error(400, "bad-request", "client");
    ask("/workflows/agent/migrate", "{}").error(400, "bad-request", "client");
    ask("/invocations", "an invocation").error(400, "bad-request", "client");
    ask("/run", "{}").error(400, "bad-request", "client");
    assert_eq!(server.get("/invocations/one/checkpoints").json()["checkpoints"][0]["label"], Value::Null);
    for verb in ["pause", "pause", "resume", "resume", "cancel", "cancel"] {
        ask(&format!("/invocations/one/{verb}"), "").expect(200);
    }
    ask("/invocations/one/kill", "").expect(200);
    ask("/invocations/one/purge", "").expect(204);
}

/// A checkpoint gets a label from outside, and can be gone back to by it.
#[test]
fn a_checkpoint_is_made_a_save_point_from_outside() {
    let server = start_on(&StateFolder::new());
    sleeper(&server, "one");
    let label =
        |label: &str| server.post("/invocations/one/checkpoints", json!({ "label": label }).to_string().as_bytes());
    let made = label("before the change").expect(201).json();
    keeps_to("SavePoint", &made);
    assert_eq!((&made["generation"], &made["label"]), (&json!(1), &json!("before the change")));
    // The same again is no error, and another one does not take its place.
    label("before the change").expect(201);
    label("other").error(409, "conflict", "client");
    label("17").error(400, "bad-request", "client");
    let without = server.post("/invocations/one/checkpoints", b"").expect(201).json();
    assert_eq!(without["label"], "before the change");
    // What is in it is said of its number and of its label.
    for at in ["1", "before%20the%20change"] {
        let contents = server.get(&format!("/invocations/one/checkpoints/{at}")).expect(200).json();
        keeps_to("CheckpointContents", &contents);
        assert_eq!((&contents["generation"], &contents["bytes"]), (&json!(1), &made["bytes"]), "{contents:#}");
        assert_eq!(contents["instances"][0]["threads"][0]["state"], "time", "{contents:#}");
    }
    server.get("/invocations/one/checkpoints/7").error(404, "not-found", "client");
    for path in ["/checkpoints/18446744073709551616", "/checkpoint?at=18446744073709551616"] {
        let neither = server.get(&format!("/invocations/one{path}")).error(400, "bad-request", "client");
        let message = neither["message"].as_str().expect("a text");
        assert!(message.ends_with("expected the number of a checkpoint, or a label"), "{path}: {message}");
    }
    let rewound = server.post("/invocations/one/rewind", br#"{"to": "before the change"}"#).expect(200).json();
    assert_eq!(rewound["generation"], 2);
    let listed = server.get("/invocations/one/checkpoints").expect(200).json();
    assert_eq!(listed["checkpoints"][0]["label"], "before the change");
    server.post("/async-invoke/busy?id=busy", b"").expect(202);
    eventually("it runs", || server.get("/invocations/busy").json()["status"] == "running");
    server.post("/invocations/busy/checkpoints", b"").error(409, "conflict", "client");
    server.post("/invocations/busy/kill", b"").expect(200);
    server.post("/invocations/unknown/checkpoints", b"").error(404, "not-found", "client");
}
