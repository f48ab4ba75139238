//! What durable invocations of a server publish, and callbacks: read and completed over HTTP, without a process and without waking one.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Answer, Server, StateFolder, eventually, image_bytes, single};

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
    let server = Server::start_on(state, &OPTIONS, &[TOKEN]);
    assert_eq!(ask(&server, "PUT", "/functions/counter", &image_bytes("counter")).status, 201);
    let document = single("counter", "counter", &json!({ "args": { "confirm": true }, "outputs": ["total"] }));
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
    ask(&server, "GET", "/invocations/nobody/state/count", b"").error(404, "not-found", "client");
    server.ask_with("GET", "/invocations/visits/state/count", &[], b"").error(401, "unauthorized", "client");
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &OPTIONS, &[TOKEN]);
    assert_eq!((count(&server, "visits"), count(&server, "other")), ("17".to_owned(), "0".to_owned()));
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
    let refusals = [unknown("visits", "add"), unknown("visits", &forged), unknown("nobody", &forged)];
    assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:#?}");
    ask(&server, "POST", "/invocations/visits/events/close", b"").expect(202);
    eventually("it waits to be confirmed", || {
        let shown = shown(&server, "visits");
        shown["status"] == "suspended" && shown["generation"] == 2
    });
    let logs = ask(&server, "GET", "/invocations/visits/logs", b"").expect(200).text();
    let token = logs.split("to end: visits ").nth(1).and_then(|rest| rest.get(..41)).expect("a token").to_owned();
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
    unknown("visits", &token);
    assert_eq!(ask(&server, "GET", "/invocations/visits/outputs/total", b"").expect(200).text(), "0\n");
}
