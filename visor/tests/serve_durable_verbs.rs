//! The verbs of durable invocations with a server: the same commands as with a state folder, by `--server` or `MONOHULL_SERVER`.

#[path = "serve_support/interface.rs"]
mod interface;
mod serve_support;

use interface::keeps_to;
use nix::sys::signal::Signal;
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
    says(done(&["show", "order"]), "started     20");
    let shown = server.get("/invocations/agent").json();
    let until = shown["waiting_for"][0]["until"].as_str().expect("it waits for a time").to_owned();
    says(done(&["show", "agent"]), &format!(" until {until}\n"));
    server.get("/invocations/order/outputs/result").expect(202);
    server.get("/invocations/order/outputs/other").error(404, "not-found", "client");
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

/// What has happened to an invocation across suspensions, as a document and as a table: by whichever server it was run.
#[test]
fn a_timeline_tells_what_has_happened() {
    let state = StateFolder::new();
    let server = start_on(&state);
    let waits = |server: &Server, generation: u64| {
        eventually("it waits", || {
            let shown = server.get("/invocations/order").json();
            shown["status"] == "suspended" && shown["generation"] == generation
        });
    };
    sleeper(&server, "inbox", "order");
    server.post("/invocations/order/events/a", b"x").expect(202);
    waits(&server, 2);
    server.post("/invocations/order/rewind", br#"{"to": 1}"#).expect(200);
    server.post("/invocations/order/fork", br#"{"ids": ["copy"]}"#).expect(200);
    server.post("/invocations/order/pause", b"").expect(200);
    let first = server.pid() as u64;
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &["--suspend", "1s"], &[]);
    server.post("/invocations/order/resume", b"").expect(200);
    // The event that was taken before the rewind is not there any more.
    server.post("/invocations/order/events/a", b"y").expect(202);
    waits(&server, 4);
    server.post("/invocations/order/events/b", b"z").expect(202);
    server.get("/invocations/order/outputs/result?wait=120s").expect(200);
    let told = server.get("/invocations/order/timeline").expect(200).json();
    keeps_to("Timeline", &told);
    assert_eq!((&told["status"], &told["older"], &told["running"]), (&json!("completed"), &json!(0), &Value::Null));
    let entries = told["entries"].as_array().expect("a list").clone();
    let row = |entry: &Value| {
        json!([entry["what"], entry["woken"]["by"], entry["woken"]["name"], entry["generation"], entry["about"]])
    };
    let waits_for_a = "main[0] for event `a`";
    assert_eq!(
        entries.iter().map(row).collect::<Vec<_>>(),
        [
            json!(["suspended", "start", null, 1, waits_for_a]),
            json!(["suspended", "event", "a", 2, "main[0] for event `b`"]),
            json!(["rewound", null, null, 3, "to generation 1"]),
            json!(["forked", null, null, 3, "copy"]),
            json!(["paused", null, null, 3, "by hand"]),
            json!(["resumed", null, null, 3, ""]),
            json!(["suspended", "event", "a", 4, "main[0] for event `b`"]),
            json!(["completed", "event", "b", 4, ""]),
        ],
        "{told:#}"
    );
    let processes: Vec<_> = entries.iter().map(|entry| entry["process"].as_u64()).collect();
    assert_eq!(processes[0], Some(first), "{told:#}");
    assert_eq!((processes[2], processes[6]), (None, Some(server.pid() as u64)), "{told:#}");
    for leg in [0, 1, 6, 7] {
        assert!(entries[leg]["began"].is_string() && entries[leg]["duration_us"].is_u64(), "{told:#}");
    }
    let copied = server.get("/invocations/copy/timeline").expect(200).json();
    assert_eq!(row(&copied["entries"][0]), json!(["copied", null, null, 3, "of order, generation 3"]));
    // A page at a time.
    let page = |query: &str| server.get(&format!("/invocations/order/timeline?{query}"));
    let newest = page("limit=3").expect(200).json();
    assert_eq!((&newest["entries"][0]["number"], &newest["next_cursor"]), (&json!(5), &json!("5")));
    let before = page("limit=100&cursor=5").expect(200).json();
    assert_eq!((before["entries"].as_array().map(Vec::len), &before["next_cursor"]), (Some(5), &Value::Null));
    for wrong in ["limit=0", "limit=201", "cursor=x", "before=3"] {
        page(wrong).error(400, "bad-request", "client");
    }
    server.get("/invocations/unknown/timeline").error(404, "not-found", "client");

    let address = format!("http://{}", server.address);
    let shown = run_verb(&address, &["timeline", "order"], &[], "").expect(0);
    for part in ["started", "rewound", "event a", waits_for_a, "completed"] {
        assert!(shown.out.contains(part), "{part}: {}", shown.out);
    }
    let shown = run_verb(&address, &["timeline", "order", "--limit", "2"], &[], "").expect(0);
    assert!(!shown.out.contains("rewound") && shown.err.contains("--before 6"), "{}\n{}", shown.out, shown.err);
    assert_eq!(run_verb(&address, &["timeline", "order", "--json"], &[], "").expect(0).json(), told);
    run_verb(&address, &["timeline", "unknown"], &[], "").expect(2);
    server.post("/invocations/order/purge", b"").expect(204);
    server.get("/invocations/order/timeline").expect(410);
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

/// One that waits to be cancelled is told once, in its process or as a checkpoint, and ends by itself. Only the system tells it.
#[test]
fn one_that_waits_to_be_cancelled_is_told() {
    for more in [&["--suspend", "1ms"][..], &["--suspend", "1ms", "--resident-memory", "0"]] {
        let server = Server::start_on(&StateFolder::new(), more, &[]);
        server.put_example("inbox");
        let events = json!({ "events": ["cancel:", "b"], "fills": "result" });
        server.put_workflow(&single("inbox", "inbox", &json!({ "args": events, "outputs": ["result"] })));
        let waits_for = |id: &str, event: &str| {
            let at = format!("/invocations/{id}");
            eventually(event, || {
                let row = server.get(&at).json();
                row["status"] == "suspended" && row["waiting_for"][0]["event"] == *event
            });
        };
        let cancel = |id: &str| server.post(&format!("/invocations/{id}/cancel"), b"").expect(200).json();
        let started = |id: &str| {
            server.post(&format!("/async-invoke/inbox?id={id}"), b"").expect(202);
            waits_for(id, "cancel:");
        };
        started("one");
        server.post("/invocations/one/events/cancel:", b"").expect(400);
        assert_eq!(cancel("one"), json!({ "id": "one", "status": "suspended", "becomes": "cancelled" }));
        waits_for("one", "b");
        assert_eq!(cancel("one")["becomes"], "cancelled");
        waits_for("one", "b");
        server.post("/invocations/one/events/b", b"y").expect(202);
        eventually("it ends", || server.get("/invocations/one").json()["status"] == "cancelled");
        let row = server.get("/invocations/one").json();
        assert_eq!((&row["reason"], row["report"]["status"].as_str()), (&json!("it was told to end"), Some("done")));
        assert_eq!(cancel("one"), json!({ "id": "one", "status": "cancelled", "becomes": null }));
        server.get("/invocations/one/outputs/result").expect(404);
        let counted = "monohull_invocations_total{workflow=\"inbox\",outcome=\"cancelled\"} 1\n";
        eventually("it is counted as what it is", || server.get("/metrics").text().contains(counted));
        eventually("its end is in the log", || server.log().contains("\"status\":\"cancelled\""));
        assert!(!server.log().contains("\"status\":\"completed\""), "{}", server.log());
        // The other ways end it at once.
        started("two");
        let killed = server.post("/invocations/two/kill", b"").expect(200).json();
        assert_eq!(killed["status"], "cancelled");
        started("three");
        server.post("/invocations/three/pause", b"").expect(200);
        assert_eq!(cancel("three")["status"], "cancelled");
        // Of several functions each is told.
        let step = |name: &str| {
            let args = json!({ "events": ["cancel:"], "fills": name });
            json!({ "name": name, "function": "inbox", "args": args })
        };
        let functions = json!({ "inbox": { "image": "function:inbox" } });
        server.put_workflow(&json!({ "name": "both", "functions": functions, "steps": [step("a"), step("b")] }));
        server.post("/async-invoke/both?id=four", b"").expect(202);
        eventually("both wait", || {
            let row = server.get("/invocations/four").json();
            row["status"] == "suspended" && row["waiting_for"].as_array().is_some_and(|waits| waits.len() == 2)
        });
        assert_eq!(cancel("four")["becomes"], "cancelled");
        eventually("it ends", || server.get("/invocations/four").json()["status"] == "cancelled");
    }
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
