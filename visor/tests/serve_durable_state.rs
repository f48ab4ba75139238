//! What durable invocations of a server publish, and callbacks: read and completed over HTTP, without a process and without waking one.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Answer, Server, StateFolder, eventually, image_bytes, single};
use std::time::{Duration, Instant};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];
const TOKEN: (&str, &str) = ("MONOHULL_TOKEN", "secret");

fn ask(server: &Server, method: &str, path: &str, body: &[u8]) -> Answer {
    server.ask_with(method, path, &[("Authorization", "Bearer secret")], body)
}

fn shown(server: &Server, id: &str) -> Value {
    ask(server, "GET", &format!("/invocations/{id}"), b"").expect(200).json()
}

fn count(server: &Server, id: &str) -> String {
    ask(server, "GET", &format!("/invocations/{id}/state/count"), b"").text()
}

/// A server with `counter`, whose end has to be confirmed, and of which there are two invocations that wait.
fn server_on(state: &StateFolder) -> Server {
    server_with(state, &json!({ "confirm": true }))
}

fn server_with(state: &StateFolder, args: &Value) -> Server {
    let server = Server::start_on(state, &OPTIONS, &[TOKEN]);
    assert_eq!(ask(&server, "PUT", "/functions/counter", &image_bytes("counter")).status, 201);
    let document = single("counter", "counter", &json!({ "args": args, "outputs": ["total"] }));
    assert_eq!(ask(&server, "PUT", "/workflows/counter", document.to_string().as_bytes()).status, 201);
    for id in ["visits", "other"] {
        ask(&server, "POST", &format!("/async-invoke/counter?id={id}"), b"").expect(202);
        eventually("it waits", || shown(&server, id)["status"] == "suspended");
    }
    server
}

/// What is published is there as long as the invocation, and outlives the server.
#[test]
fn a_counter_is_served_by_name() {
    let state = StateFolder::new();
    let server = server_on(&state);
    assert_eq!(count(&server, "visits"), "0");
    for (number, sum) in [("5", "5"), ("12", "17")] {
        ask(&server, "POST", "/invocations/visits/events/add", number.as_bytes()).expect(202);
        eventually("it has counted", || count(&server, "visits") == sum);
    }
    assert_eq!(shown(&server, "visits")["published"], json!({ "count": "17" }));
    let answer = ask(&server, "GET", "/invocations/visits/state/count", b"").expect(200);
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    ask(&server, "GET", "/invocations/visits/state/nothing", b"").error(404, "not-found", "client");
    ask(&server, "GET", "/invocations/unknown/state/count", b"").error(404, "not-found", "client");
    server.ask_with("GET", "/invocations/visits/state/count", &[], b"").error(401, "unauthorized", "client");
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &OPTIONS, &[TOKEN]);
    assert_eq!((count(&server, "visits"), count(&server, "other")), ("17".to_owned(), "0".to_owned()));
}

/// Lets an invocation come to its end, which has to be confirmed: the token.
fn closed(server: &Server, id: &str) -> String {
    ask(server, "POST", &format!("/invocations/{id}/events/close"), b"").expect(202);
    at_generation(server, id, 2);
    let logs = ask(server, "GET", &format!("/invocations/{id}/logs"), b"").expect(200).text();
    logs.split(&format!("to end: {id} ")).nth(1).and_then(|rest| rest.get(..41)).expect("a token").to_owned()
}

fn at_generation(server: &Server, id: &str, generation: u64) {
    eventually("it waits again", || {
        let shown = shown(server, id);
        shown["status"] == "suspended" && shown["generation"] == generation
    });
}

/// A callback is completed without the server's token by its own, while it is waited for, and once. Without it a client can neither send
/// anything nor find out what there is.
#[test]
fn only_a_callbacks_token_completes_it() {
    let server = server_on(&StateFolder::new());
    let complete = |id: &str, token: &str| server.ask_with("POST", &format!("/callbacks/{id}/{token}"), &[], b"yes");
    let unknown = |id: &str, token: &str| complete(id, token).error(404, "not-found", "client");
    let forged = format!("callback-{:032x}", 7);
    // No event of another name is sent that way, though it is waited for.
    let refusals = [unknown("visits", "add"), unknown("visits", &forged), unknown("unknown", &forged)];
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:#?}");
    let token = closed(&server, "visits");
    for wrong in [&forged, &token[..40], &token.to_uppercase(), &format!("{token}0")] {
        unknown("visits", wrong);
    }
    unknown("other", &token);
    assert_eq!(
        (shown(&server, "visits")["mail"].clone(), shown(&server, "other")["mail"].clone()),
        (json!(0), json!(0))
    );
    let cross = [("Origin", "http://else.where"), ("Sec-Fetch-Site", "cross-site")];
    server.ask_with("POST", "/invocations/visits/events/other", &cross, b"").error(401, "unauthorized", "client");
    assert_eq!(complete("visits", &token).expect(202).json()["event"], token);
    eventually("it has ended", || shown(&server, "visits")["status"] == "completed");
    // The same answer again is no other one, also after the end, and another answer is refused.
    assert_eq!(complete("visits", &token).expect(200).json()["duplicate"], true);
    let reject = format!("/callbacks/visits/{token}/reject");
    server.ask_with("POST", &reject, &[], b"no").error(409, "conflict", "client");
    server.ask_with("POST", &format!("/callbacks/visits/{token}"), &[], b"other").error(409, "conflict", "client");
    server.ask_with("POST", &format!("/callbacks/visits/{token}/heartbeat"), &[], b"").error(410, "gone", "client");
    assert_eq!(ask(&server, "GET", "/invocations/visits/outputs/total", b"").expect(200).text(), "0\n");
}

/// A function writes the address of a callback as clients reach it, which the server that runs it was told.
#[test]
fn a_link_begins_with_the_address_that_clients_know() {
    let state = StateFolder::new();
    let mut options = OPTIONS.to_vec();
    options.extend(["--public-url", "https://ships.example/yard/"]);
    let server = Server::start_on(&state, &options, &[TOKEN]);
    ask(&server, "PUT", "/functions/approval", &image_bytes("approval")).expect(201);
    let args = json!({ "remind_after_s": 86_400, "reminders": 3, "by_link": true });
    let slots = json!({ "args": args, "inputs": ["order"], "outputs": ["decision"] });
    let document = single("approval", "approval", &slots).to_string();
    ask(&server, "PUT", "/workflows/approval", document.as_bytes()).expect(201);
    let begin = |server: &Server, id: &str| {
        ask(server, "POST", &format!("/async-invoke/approval?id={id}"), b"17 hulls").expect(202);
        eventually("it waits", || shown(server, id)["status"] == "suspended");
        let logs = ask(server, "GET", &format!("/invocations/{id}/logs"), b"").expect(200).text();
        let link = logs.split("POST ").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a link");
        link.to_owned()
    };
    let link = begin(&server, "one");
    let path = link.strip_prefix("https://ships.example/yard").expect("the address").to_owned();
    assert!(path.starts_with("/callbacks/one/callback-"), "{link}");
    server.ask_with("POST", &path, &[], b"Ada").expect(202);
    let decision = ask(&server, "GET", "/invocations/one/outputs/decision?wait=60s", b"").expect(200).text();
    assert_eq!(decision, "17 hulls: approved by Ada\n");
    drop(server);
    for wrong in
        ["ships.example", "ftp://ships.example", "https://", "https://a@ships.example", "https://ships.example/?a"]
    {
        let refused = run_verb("", &["serve", "--state", "/nowhere", "--public-url", wrong], &[], "").expect(2);
        assert!(refused.err.contains("expected http://HOST or https://HOST"), "{wrong}: {}", refused.err);
    }
    // A server that was not told gives the path alone.
    let server = Server::start_on(&state, &OPTIONS, &[TOKEN]);
    assert!(begin(&server, "two").starts_with("/callbacks/two/callback-"));
}

/// A client may say that there will be no answer, and why.
#[test]
fn a_callback_is_rejected_by_those_who_know_it() {
    let server = server_on(&StateFolder::new());
    let token = closed(&server, "visits");
    let told = |id: &str, token: &str, what: &str| {
        server.ask_with("POST", &format!("/callbacks/{id}/{token}/{what}"), &[], b"out of stock")
    };
    let forged = format!("callback-{:032x}", 7);
    for (id, token) in [("visits", &forged), ("other", &token), ("unknown", &token)] {
        for what in ["reject", "heartbeat"] {
            told(id, token, what).error(404, "not-found", "client");
        }
    }
    // This function waits for no heartbeats, and its client knows the token.
    told("visits", &token, "heartbeat").error(409, "conflict", "client");
    assert_eq!(told("visits", &token, "reject").expect(202).json()["duplicate"], false);
    eventually("it has ended", || shown(&server, "visits")["status"] == "completed");
    assert_eq!(told("visits", &token, "reject").expect(200).json()["duplicate"], true);
    let late = server.ask_with("POST", &format!("/callbacks/visits/{token}"), &[], b"yes");
    late.error(409, "conflict", "client");
    let logs = ask(&server, "GET", "/invocations/visits/logs", b"").expect(200).text();
    assert!(logs.contains("not confirmed: out of stock"), "{logs}");
}

/// Each heartbeat starts the time anew in which the next one has to come.
#[test]
fn a_client_that_falls_silent_is_noticed() {
    let server = server_with(&StateFolder::new(), &json!({ "confirm": true, "silence_s": 4 }));
    let token = closed(&server, "visits");
    let until = |shown: Value| shown["waiting_for"][0]["until"].as_str().expect("a time").to_owned();
    let mut before = until(shown(&server, "visits"));
    let beat = format!("/callbacks/visits/{token}/heartbeat");
    for generation in [3, 4] {
        server.ask_with("POST", &beat, &[], b"").expect(202);
        at_generation(&server, "visits", generation);
        let now = until(shown(&server, "visits"));
        assert!(now > before, "{now} is not behind {before}");
        before = now;
    }
    eventually("it has ended", || shown(&server, "visits")["status"] == "completed");
    let logs = ask(&server, "GET", "/invocations/visits/logs", b"").expect(200).text();
    assert!(logs.contains("not confirmed: no answer"), "{logs}");
    for late in [beat, format!("/callbacks/visits/{token}"), format!("/callbacks/visits/{token}/reject")] {
        server.ask_with("POST", &late, &[], b"").error(410, "gone", "client");
    }
}

/// An answer is held for a moment if nothing waits for it, as a function sends its token before it waits; one that comes later is said to be late.
#[test]
fn an_answer_may_come_before_its_wait_and_not_after_it() {
    let server = server_on(&StateFolder::new());
    let answer = |id: &str, token: &str| server.ask_with("POST", &format!("/callbacks/{id}/{token}"), &[], b"yes");
    let token = closed(&server, "visits");
    std::thread::scope(|scope| {
        let early = scope.spawn(|| answer("copy", &token));
        // A copy waits for what the original waits for.
        std::thread::sleep(Duration::from_millis(200));
        ask(&server, "POST", "/invocations/visits/fork", br#"{"ids": ["copy"]}"#).expect(200);
        assert_eq!(early.join().expect("an answer").expect(202).json()["event"], *token);
    });
    eventually("it has ended", || shown(&server, "copy")["status"] == "completed");
    // What is not there takes as long as what does not wait yet.
    let forged = format!("callback-{:032x}", 7);
    for id in ["visits", "unknown"] {
        let begun = Instant::now();
        answer(id, &forged).error(404, "not-found", "client");
        assert!(begun.elapsed() >= Duration::from_secs(2), "{id}: {:?}", begun.elapsed());
    }
    // The wait is over: it was taken back to before it.
    ask(&server, "POST", "/invocations/visits/rewind", br#"{"to": 1}"#).expect(200);
    answer("visits", &token).error(410, "gone", "client");
    ask(&server, "POST", "/invocations/visits/cancel", b"").expect(200);
    answer("visits", &token).error(410, "gone", "client");
    ask(&server, "POST", "/invocations/visits/purge", b"").expect(204);
    answer("visits", &token).error(404, "not-found", "client");
}
