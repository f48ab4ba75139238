//! The verbs of durable invocations with a server: the same commands as with a state folder, by `--server` or `MONOHULL_SERVER`.

mod serve_support;

use serde_json::{Value, json};
use serve_support::verbs::{Done, run_verb};
use serve_support::{Server, StateFolder, eventually, single};
use std::fs;

const DAY: u64 = 86_400_000;

fn start_on(state: &StateFolder) -> Server {
    let server = Server::start_on(state, &["--suspend", "1s"], &[]);
    for example in ["inbox", "forked"] {
        server.put_example(example);
    }
    let events = json!({ "events": ["a", "b"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
    let agent = json!({ "args": { "rounds": 3, "milliseconds": DAY }, "outputs": ["diary"] });
    server.put_workflow(&single("agent", "forked", &agent));
    server
}

fn sleeper(server: &Server, workflow: &str, id: &str) {
    server.post(&format!("/async-invoke/{workflow}?id={id}"), b"").expect(202);
    let at = format!("/invocations/{id}");
    eventually("it waits", || server.get(&at).json()["status"] == "suspended");
}

#[test]
fn verbs_do_with_a_server_what_they_do_with_a_state_folder() {
    let state = StateFolder::new();
    let server = start_on(&state);
    let address = format!("http://{}", server.address);
    let run = |arguments: &[&str]| run_verb(&address, arguments, &[], "");
    let done = |arguments: &[&str]| run(arguments).expect(0);
    let says = |done: Done, text: &str| assert!(done.out.contains(text), "{text}: {}\n{}", done.out, done.err);
    sleeper(&server, "inbox", "order");
    sleeper(&server, "agent", "agent");
    // An address on the command line counts for more than the variable.
    says(run_verb("http://127.0.0.1:1", &["ps", "--server", &address], &[], "").expect(0), "order");
    let listed = done(&["ps", "--status", "suspended", "--workflow", "inbox", "--json"]).json();
    assert_eq!((&listed["invocations"][0]["id"], &listed["after"]), (&json!("order"), &Value::Null), "{listed:#}");
    let first = done(&["ps", "--limit", "1", "--json"]).json();
    let after = first["after"].as_str().expect("there are more").to_owned();
    let second = done(&["ps", "--limit", "1", "--after", &after, "--json"]).json();
    assert_ne!(first["invocations"][0]["id"], second["invocations"][0]["id"]);
    says(done(&["show", "order"]), "for event `a`");
    assert_eq!(done(&["show", "order", "--json"]).json()["mail"], 0);
    assert_eq!(run(&["result", "order"]).expect(4).out, "", "it has not ended");
    says(done(&["pause", "order"]), "order: paused");
    assert_eq!(run(&["result", "order", "--wait"]).expect(4).out, "", "it goes on by hand alone");
    let sent = done(&["send", "order", "a", "--data", "x", "--key", "k", "--json"]).json();
    assert_eq!(sent, json!({ "id": "order", "event": "a", "duplicate": false }));
    says(done(&["send", "order", "a", "--data", "x", "--key", "k"]), "was sent before");
    run(&["send", "order", "a", "--data", "y", "--key", "k"]).expect(2);
    says(done(&["resume", "order", "--server", &address]), "order: suspended");
    done(&["send", "order", "b", "--data", "y"]);
    assert_eq!(done(&["result", "order", "--wait"]).out, "a: x\nb: y\n");
    let path = state.path().with_extension("result");
    done(&["result", "order", "--output", path.to_str().expect("text")]);
    assert_eq!(fs::read_to_string(&path).expect("written"), "a: x\nb: y\n");
    fs::remove_file(path).expect("removed");
    run(&["result", "order", "--slot", "other"]).expect(2);
    run(&["cancel", "order"]).expect(2);
    says(done(&["purge", "order"]), "order: removed");
    run(&["show", "order"]).expect(2);

    says(done(&["fork", "agent", "--count", "2"]), "agent-2: suspended");
    run(&["fork", "agent", "--id", "agent-1,new"]).expect(0);
    says(done(&["fork", "agent"]), "agent-3: suspended");
    says(done(&["checkpoints", "agent", "--label", "here"]), "checkpoint 1 is `here`");
    says(done(&["rewind", "agent", "--to", "here"]), "agent: suspended, generation 2 (= here)");
    says(done(&["checkpoints", "agent"]), "2 (= 1)");
    says(done(&["kill", "agent-1"]), "agent-1: cancelled");
    says(done(&["kill", "agent-1"]), "agent-1: cancelled");
    run(&["result", "agent-1"]).expect(1);
    let refused = run(&["kill", "unknown", "--json"]).expect(2).json();
    assert_eq!(refused["error"]["kind"], "not-found");
}

#[test]
fn an_invocation_is_exported_and_imported() {
    let home = StateFolder::new();
    let server = start_on(&home);
    let at_home = format!("http://{}", server.address);
    sleeper(&server, "agent", "agent");
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("agent.invocation");
    let file = file.to_str().expect("text");
    let exported = run_verb(&at_home, &["export", "agent", "--to", file, "--json"], &[], "").expect(0).json();
    assert_eq!(exported["bytes"], fs::metadata(file).expect("written").len());
    // What is there is not overwritten.
    run_verb(&at_home, &["export", "agent", "--to", file], &[], "").expect(3);
    let away = StateFolder::new();
    fs::copy(home.path().join("checkpoint.key"), away.path().join("checkpoint.key")).expect("copied");
    let there = Server::start_on(&away, &["--suspend", "1s"], &[]);
    let address = format!("http://{}", there.address);
    assert_eq!(run_verb(&address, &["import", file, "--paused"], &[], "").expect(0).out, "agent: paused\n");
    run_verb(&address, &["import", file], &[], "").expect(2);
    assert_eq!(run_verb(&address, &["import", file, "--id", "other"], &[], "").expect(0).out, "other: suspended\n");
    let stranger = Server::start();
    let refused = run_verb(&format!("http://{}", stranger.address), &["import", file], &[], "").expect(2);
    assert!(refused.err.contains("checkpoint.key"), "{}", refused.err);
}

/// A call with a key is made once.
#[test]
fn invoke_has_a_key() {
    let server = start_on(&StateFolder::new());
    server.put_example("echo");
    server.put_workflow(&single("echo", "echo", &json!({ "inputs": ["in"], "outputs": ["out"] })));
    let address = format!("http://{}", server.address);
    for _ in 0..2 {
        assert_eq!(run_verb(&address, &["invoke", "echo", "--key", "k", "--input", "-"], &[], "x").expect(0).out, "x");
    }
    run_verb(&address, &["invoke", "echo", "--key", "k", "--input", "-"], &[], "y").expect(2);
    let listed = server.get("/invocations?workflow=echo").json();
    assert_eq!(listed["invocations"].as_array().map(Vec::len), Some(1), "{listed:#}");
}
