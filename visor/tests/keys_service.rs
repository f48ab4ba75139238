//! The service with protection keys in force: what it says of them, and that they hold for workflows that came over HTTP.
//!
//! The other tests of the service run with keys too where there are some; `cargo xtask test --keys` runs all of them in a
//! virtual machine that has.

mod serve_support;

use serde_json::{Value, json};
use serve_support::{Server, single};

/// Victim and attacker beside each other, kept apart so (`workflow` or `function`). The attacker tries so often, and the victim
/// looks before the last time.
fn attack(name: &str, separation: &str, what: &str, how: &str, attempts: usize) -> Value {
    let threads = vec!["1"; attempts].join(",");
    let attacker = json!({ "role": "attacker", "kind": "memory", "what": what, "how": how, "threads": threads });
    let retry = json!({ "max_attempts": attempts, "interval": "0s" });
    json!({
        "name": name,
        "isolation": separation,
        "functions": { "attacks": { "image": "function:attacks" } },
        "steps": [
            { "name": "victim", "function": "attacks", "args": { "role": "victim", "what": "watch" } },
            { "name": "attacker", "function": "attacks", "args": attacker, "retry": retry }
        ],
        "inputs": ["places"],
        "unread": "ignore"
    })
}

/// What a step of an invocation printed.
fn printed(server: &Server, location: &str, step: &str) -> Vec<String> {
    let lines = server.get(&format!("{location}/logs?format=json")).expect(200).text();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines = lines.filter(|line| line["step"] == step);
    lines.map(|line| line["text"].as_str().expect("text").to_owned()).collect()
}

/// An input that is there, and empty.
const EMPTY: [(&str, &str); 1] = [("Content-Type", "application/octet-stream")];

/// Invokes a workflow in which the attacker must be stopped by a key, and the victim be intact.
fn is_refused(server: &Server, document: &Value) {
    server.put_workflow(document);
    let path = format!("/invoke/{}", document["name"].as_str().expect("a name"));
    let answer = server.ask_with("POST", &path, &EMPTY, b"");
    let location = format!("/invocations/{}", answer.headers["x-invocation-id"]);
    let error = answer.error(502, "memory-fault", "function");
    assert_eq!((&error["step"], &error["report"]["isolation"]), (&json!("attacker"), &json!("mpk")), "{error:#}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("protection key denies"), "{message}");
    let got = printed(server, &location, "attacker").iter().any(|line| line.contains("got "));
    assert!(!got, "{error:#}");
    assert_eq!(printed(server, &location, "victim"), ["intact"], "{error:#}");
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn keys_are_in_force_and_reported() {
    let server = Server::start_with(&["--isolation", "mpk"]);
    server.put_shipped("echo.json");
    server.put_example("misbehave");
    assert_eq!(server.get("/healthz").expect(200).json()["isolation"], "mpk");
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains("monohull_isolation{mode=\"mpk\"} 1\n"), "{metrics}");
    assert_eq!(server.post("/invoke/echo", b"hello").expect(200).text(), "hello");

    let location = server.post("/async-invoke/echo", b"later").expect(202).headers["location"].clone();
    let shown = server.ended(&location);
    assert_eq!((&shown["status"], &shown["report"]["isolation"]), (&json!("completed"), &json!("mpk")), "{shown:#}");
    assert_eq!(shown["result"]["out"]["text"], "later");

    let mut panic = single("panic", "misbehave", &json!({}));
    panic["steps"][0]["args"] = json!({ "how": "panic" });
    server.put_workflow(&panic);
    let error = server.post("/invoke/panic", b"").error(502, "panic", "function");
    assert_eq!(error["report"]["isolation"], "mpk", "{error:#}");
}

/// Where functions share a key the attack works, so the attacker is able to; with a key for each it ends the attacker alone.
#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn functions_are_isolated_if_the_workflow_requires_it() {
    let server = Server::start_with(&["--isolation", "mpk"]);
    server.put_example("attacks");
    for (what, how) in [("heap", "read"), ("stack", "write"), ("buffer", "read")] {
        server.put_workflow(&attack("together", "workflow", what, how, 1));
        let location =
            server.ask_with("POST", "/async-invoke/together", &EMPTY, b"").expect(202).headers["location"].clone();
        let shown = server.ended(&location);
        assert_eq!(shown["status"], "completed", "{shown:#}");
        let got = printed(&server, &location, "attacker").iter().any(|line| line.starts_with("got "));
        assert!(got, "{what} {how}: {shown:#}");
        is_refused(&server, &attack("apart", "function", what, how, 2));
    }
}

#[test]
#[ignore = "needs protection keys: run by `cargo xtask test --keys`"]
fn memory_of_the_system_is_out_of_reach() {
    let server = Server::start_with(&["--isolation", "mpk"]);
    server.put_example("attacks");
    for (what, how) in [("carrier", "read"), ("signal-stack", "write"), ("selector", "write")] {
        is_refused(&server, &attack("reach", "workflow", what, how, 2));
    }
}
