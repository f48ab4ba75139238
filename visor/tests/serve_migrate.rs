//! Invocations are moved to another version of their workflow: all of it or nothing, and nothing is lost.

mod serve_support;

use monohull_visor::watchdog::openapi::DOCUMENT;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Answer, Server, eventually, single};

const OPTIONS: [&str; 6] = ["--suspend", "1s", "--concurrency", "4", "--prefork", "4"];

fn ask(server: &Server, workflow: &str, order: &Value) -> Answer {
    let json = [("Content-Type", "application/json")];
    server.ask_with("POST", &format!("/workflows/{workflow}/migrate"), &json, order.to_string().as_bytes())
}

/// The results, by id.
fn migrate(server: &Server, order: &Value) -> Vec<(String, String)> {
    let shown = ask(server, "w", order).expect(200).json();
    let mut root: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    root["$ref"] = "#/components/schemas/Migrated".into();
    assert!(jsonschema::validator_for(&root).expect("a schema").is_valid(&shown), "{shown:#}");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let results = shown["results"].as_array().expect("a list").iter();
    results.map(|result| (text(&result["id"]), text(&result["came"]))).collect()
}

fn results(of: &[(&str, &str)]) -> Vec<(String, String)> {
    of.iter().map(|(id, came)| ((*id).to_owned(), (*came).to_owned())).collect()
}

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

fn count(server: &Server, id: &str) -> String {
    server.get(&format!("/invocations/{id}/state/count")).expect(200).text()
}

/// Sends a number to a counter, and waits until it has it.
fn add(server: &Server, id: &str, number: &str, sum: &str) {
    server.post(&format!("/invocations/{id}/events/add"), number.as_bytes()).expect(202);
    eventually("it has counted", || count(server, id) == sum && shown(server, id)["status"] == "suspended");
}

/// A counter whose document differs from others by its words.
fn counter(words: &str) -> Value {
    let mut document = single("w", "counter", &json!({ "args": { "confirm": false }, "outputs": ["total"] }));
    document["description"] = words.into();
    document
}

/// A server with counters of an old version.
fn counters(ids: &[&str]) -> Server {
    let server = Server::start_with(&OPTIONS);
    server.put_example("counter");
    server.put_workflow(&counter("old"));
    for id in ids {
        server.post(&format!("/async-invoke/w?id={id}"), b"").expect(202);
    }
    eventually("they wait", || ids.iter().all(|id| shown(&server, id)["status"] == "suspended"));
    server
}

#[test]
fn invocations_go_on_in_the_new_version_with_what_they_had_published() {
    let server = counters(&["a", "b"]);
    add(&server, "a", "5", "5");
    add(&server, "b", "7", "7");
    server.post("/async-invoke/w?id=c&delay=1d", b"").expect(202);
    // One event stays in a mailbox, and another comes while its invocation is paused.
    server.post("/invocations/a/events/other", b"x").expect(202);
    server.post("/invocations/b/pause", b"").expect(200);
    server.post("/invocations/b/events/add", b"1").expect(202);
    let before = shown(&server, "a");
    let old = before["version"].as_str().expect("a version").to_owned();
    assert_eq!(migrate(&server, &json!({})), results(&[]), "there is one version");
    server.put_workflow(&counter("new"));
    let all = |came: &str| ["a", "b", "c"].map(|id| (id.to_owned(), came.to_owned())).to_vec();
    assert_eq!(migrate(&server, &json!({ "dry_run": true })), all("possible"));
    let tried = shown(&server, "a");
    for field in ["version", "status", "generation", "checkpoint", "published", "waiting_for", "mail", "attempts"] {
        assert_eq!(tried[field], before[field], "{field}: {tried:#}");
    }
    assert_eq!(migrate(&server, &json!({ "from": "0123456789abcdef" })), results(&[]));
    assert_eq!(migrate(&server, &json!({ "from": old, "limit": 1 })), results(&[("a", "migrated")]));
    let moved = shown(&server, "a");
    assert_ne!(moved["version"], before["version"]);
    assert_eq!((&moved["status"], &moved["published"]["count"]), (&json!("suspended"), &json!("5")), "{moved:#}");
    assert_eq!((&moved["mail"], &moved["accepted_ms"]), (&json!(1), &before["accepted_ms"]), "{moved:#}");
    let checkpoints = server.get("/invocations/a/checkpoints").expect(200).json();
    let generations: Vec<_> =
        checkpoints["checkpoints"].as_array().expect("a list").iter().map(|kept| &kept["generation"]).collect();
    assert_eq!(generations, [&moved["generation"]], "none is of other code: {checkpoints:#}");
    assert!(moved["generation"].as_u64() > before["generation"].as_u64());
    // The command line does the others.
    let address = format!("http://{}", server.address);
    let told = run_verb(&address, &["migrate", "w"], &[], "").expect(0).out;
    assert_eq!(told, "b: migrated\nc: migrated\n");
    assert_eq!(run_verb(&address, &["migrate", "w"], &[], "").expect(0).out, "no invocation is in an older version\n");
    assert_eq!(migrate(&server, &json!({ "id": "b" })), results(&[("b", "same")]));
    let versions = server.get("/workflows/w/versions").expect(200).json();
    assert_eq!((&versions["older_versions"], &versions["versions"][0]["living"]), (&json!(0), &json!(3)));
    // The paused one has what came meanwhile, and stays paused.
    assert_eq!((shown(&server, "b")["status"].as_str(), count(&server, "b").as_str()), (Some("paused"), "8"));
    server.post("/invocations/b/resume", b"").expect(200);
    // What was handed over stays over later checkpoints, and a copy has it too.
    add(&server, "a", "1", "6");
    let order = json!({ "ids": ["copy"] }).to_string();
    let json = [("Content-Type", "application/json")];
    server.ask_with("POST", "/invocations/a/fork", &json, order.as_bytes()).expect(200);
    for (id, total) in [("a", "6\n"), ("copy", "6\n"), ("b", "8\n")] {
        server.post(&format!("/invocations/{id}/events/close"), b"").expect(202);
        let output = server.get(&format!("/invocations/{id}/outputs/total?wait=180s")).expect(200).text();
        assert_eq!(output, total, "{id}");
    }
}

#[test]
fn what_fails_in_the_new_version_stays_in_its_own() {
    let server = counters(&["a"]);
    add(&server, "a", "5", "5");
    let before = shown(&server, "a");
    // It panics after it has taken an event and sent one; and what it sends goes nowhere.
    server.put_example("inbox");
    let args = json!({
        "events": ["add", "add"], "fills": "total", "poll": true, "sends": ["add"], "sends_to": "b", "fails_after": 1,
    });
    let mut broken = single("w", "inbox", &json!({ "args": args, "outputs": ["total"] }));
    broken["sends_to"] = json!(["w"]);
    server.post("/async-invoke/w?id=b", b"").expect(202);
    eventually("it waits", || shown(&server, "b")["status"] == "suspended");
    server.put_workflow(&broken);
    server.post("/invocations/a/pause", b"").expect(200);
    server.post("/invocations/a/events/add", b"2").expect(202);
    let result = ask(&server, "w", &json!({ "id": "a" })).expect(200).json()["results"][0].take();
    assert_eq!(result["came"], "failed", "{result:#}");
    assert!(result["reason"].as_str().is_some_and(|reason| reason.contains("as asked, after 1 events")), "{result:#}");
    let address = format!("http://{}", server.address);
    let told = run_verb(&address, &["migrate", "w", "--id", "a"], &[], "").expect(1).out;
    assert!(told.starts_with("a: stays in its version: ") && told.contains("as asked"), "{told}");
    let after = shown(&server, "a");
    for field in ["version", "generation", "checkpoint", "published", "waiting_for", "attempts", "undelivered"] {
        assert_eq!(after[field], before[field], "{field}: {after:#}");
    }
    assert_eq!((&after["status"], &after["mail"]), (&json!("paused"), &json!(1)), "{after:#}");
    assert_eq!((shown(&server, "b")["mail"].as_u64(), count(&server, "b").as_str()), (Some(0), "0"));
    // The control: it goes on in its own code, with the event that the trial has seen.
    server.post("/invocations/a/resume", b"").expect(200);
    eventually("it has counted", || count(&server, "a") == "7");
    server.post("/invocations/a/events/close", b"").expect(202);
    assert_eq!(server.get("/invocations/a/outputs/total?wait=180s").expect(200).text(), "7\n");
}

/// A new version that ends at once completes the invocation.
#[test]
fn a_new_version_may_end_without_a_wait() {
    let server = counters(&["a", "b"]);
    server.put_example("inbox");
    let args = json!({ "events": ["close"], "fills": "total", "poll": true });
    server.put_workflow(&single("w", "inbox", &json!({ "args": args, "outputs": ["total"] })));
    assert_eq!(migrate(&server, &json!({ "id": "a", "dry_run": true })), results(&[("a", "possible")]));
    assert_eq!(shown(&server, "a")["status"], "suspended");
    assert_eq!(migrate(&server, &json!({})), results(&[("a", "migrated"), ("b", "migrated")]));
    assert_eq!(server.get("/invocations/a/outputs/total?wait=180s").expect(200).text(), "close is late\n");
    ask(&server, "w", &json!({ "id": "a" })).error(409, "conflict", "client");
}

/// The new version never comes to a wait, and the server is killed.
#[test]
fn a_kill_while_it_is_tried_leaves_the_old_version() {
    let server = counters(&["a"]);
    add(&server, "a", "5", "5");
    server.put_example("inbox");
    let args = json!({ "events": ["add", "never"], "fills": "total", "busy_from": 0, "busy_to": 2 });
    server.put_workflow(&single("w", "inbox", &json!({ "args": args, "outputs": ["total"] })));
    let (state, address) = (server.state(), format!("http://{}", server.address));
    let client = std::thread::spawn(move || run_verb(&address, &["migrate", "w"], &[], ""));
    eventually("it runs", || shown(&server, "a")["status"] == "running");
    server.post("/invocations/a/events/add", b"2").expect(202);
    eventually("the new version has taken the event", || {
        server.get("/invocations/a/logs").expect(200).text().contains("add: 2")
    });
    server.signal(Signal::SIGKILL);
    server.wait();
    client.join().expect("a thread");
    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("the old version has it", || count(&server, "a") == "7");
    server.post("/invocations/a/events/close", b"").expect(202);
    assert_eq!(server.get("/invocations/a/outputs/total?wait=180s").expect(200).text(), "7\n");
}

/// Of a call that became durable when it waited for the first time the inputs are gone, unless it may be run again.
#[test]
fn without_its_inputs_an_invocation_stays_where_it_is() {
    let server = Server::start_with(&OPTIONS);
    server.put_shipped("durable/approval.json");
    let order = [("Content-Type", "text/plain")];
    let id = server.ask_with("POST", "/async-invoke/approval", &order, b"17 hulls").expect(202).json()["id"].take();
    let id = id.as_str().expect("an id").to_owned();
    eventually("it waits", || shown(&server, &id)["status"] == "suspended");
    let mut document = server.get("/workflows/approval").expect(200).json();
    document["description"] = "another one".into();
    server.put_workflow(&document);
    let result = ask(&server, "approval", &json!({})).expect(200).json()["results"][0].take();
    assert_eq!(result["came"], "failed", "{result:#}");
    assert!(result["reason"].as_str().is_some_and(|reason| reason.contains("`order` was not kept")), "{result:#}");
    // The control.
    server.ask_with("POST", "/async-invoke/approval?id=one", &order, b"17 hulls").expect(202);
    eventually("it waits", || shown(&server, "one")["status"] == "suspended");
    document["description"] = "a third one".into();
    server.put_workflow(&document);
    let result = ask(&server, "approval", &json!({ "id": "one" })).expect(200).json()["results"][0].take();
    assert_eq!(result["came"], "migrated", "{result:#}");
}

#[test]
fn wrong_requests_change_nothing() {
    let server = counters(&["a"]);
    let before = shown(&server, "a");
    server.put_workflow(&counter("new"));
    let mut other = counter("other");
    other["name"] = "v".into();
    server.put_workflow(&other);
    ask(&server, "nothing", &json!({})).error(404, "not-found", "client");
    ask(&server, "w", &json!({ "id": "nobody" })).error(404, "not-found", "client");
    ask(&server, "v", &json!({ "id": "a" })).error(404, "not-found", "client");
    for wrong in [json!({ "limit": 0 }), json!({ "limit": 101 }), json!({ "from": "x" }), json!({ "to": 1 })] {
        ask(&server, "w", &wrong).error(400, "bad-request", "client");
    }
    assert_eq!(migrate(&server, &json!({ "cursor": "a" })), results(&[]));
    assert_eq!(shown(&server, "a")["version"], before["version"]);
    // The control.
    assert_eq!(migrate(&server, &json!({ "id": "a" })), results(&[("a", "migrated")]));
}

/// It would not be run again there: in its own version it is.
#[test]
fn what_may_have_begun_is_not_moved_to_a_version_that_runs_once() {
    let server = Server::start_with(&OPTIONS);
    server.put_example("misbehave");
    let document = |words: &str, attempts: u32| {
        let more = json!({ "args": { "how": "endless-loop" }, "retry": { "max_attempts": attempts } });
        let mut document = single("w", "misbehave", &more);
        document["description"] = words.into();
        document
    };
    server.put_workflow(&document("old", 2));
    server.post("/async-invoke/w?id=begun", b"").expect(202);
    let refused = std::cell::RefCell::new(Value::Null);
    eventually("it was tried, and is not moved", || {
        let row = shown(&server, "begun");
        if row["status"] == "running" {
            // All processes of workflows: one of them is its own.
            for pid in server.descendants().into_iter().skip(1) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            return false;
        }
        if row["attempts"] == 0 {
            return false;
        }
        server.put_workflow(&document("new", 1));
        *refused.borrow_mut() = ask(&server, "w", &json!({ "id": "begun" })).expect(200).json()["results"][0].take();
        let refused = refused.borrow();
        // It may be tried again at this moment, which is a reason of its own.
        refused["came"] == "failed"
            && refused["reason"].as_str().is_some_and(|reason| reason.contains("it may have begun"))
    });
    let before = &shown(&server, "begun")["version"];
    // The control: where it may be run again it is moved.
    server.put_workflow(&document("newer", 3));
    eventually("it is moved", || {
        let row = shown(&server, "begun");
        let migrated = ask(&server, "w", &json!({ "id": "begun" })).expect(200).json();
        migrated["results"][0]["came"] == "migrated" || row["version"] != *before
    });
}

/// A child that the new version starts again is the one that there is, and its end is told again.
#[test]
fn children_stay_the_same() {
    let server = Server::start_with(&OPTIONS);
    server.put_example("family");
    let put = |name: &str, does: &[&str], starts: &[&str]| {
        let mut document = single(name, "family", &json!({ "args": { "does": does }, "outputs": ["result"] }));
        if !starts.is_empty() {
            document["starts"] = json!(starts);
        }
        if does == ["input"] {
            document["inputs"] = json!(["input"]);
        }
        server.put_workflow(&document);
    };
    put("says", &["input"], &[]);
    put("waits", &["wait go"], &[]);
    put("w", &["start says one x", "start waits two", "join one", "wait go"], &["says", "waits"]);
    server.post("/async-invoke/w?id=a", b"").expect(202);
    let waits_for = |event: &str| {
        eventually("it waits", || {
            let shown = shown(&server, "a");
            shown["status"] == "suspended" && shown["waiting_for"][0]["event"] == event
        });
    };
    waits_for("go");
    let ids = || {
        let children = shown(&server, "a")["children"].take();
        let ids =
            children.as_array().expect("children").iter().map(|child| child["id"].as_str().expect("an id").to_owned());
        ids.collect::<Vec<_>>()
    };
    let before = ids();
    assert_eq!(before.len(), 2);
    put("w", &["start says one x", "join one", "wait again", "start waits two", "join two"], &["says", "waits"]);
    assert_eq!(migrate(&server, &json!({})), results(&[("a", "migrated")]));
    waits_for("again");
    server.post("/invocations/a/events/again", b"1").expect(202);
    waits_for("child:two");
    server.post(&format!("/invocations/{}/events/go", before[1]), b"2").expect(202);
    let output = server.get("/invocations/a/outputs/result?wait=180s").expect(200).text();
    assert_eq!(output, "one: Completed: x\nagain: 1\ntwo: Completed: go: 2\n");
    assert_eq!(ids(), before);
}
