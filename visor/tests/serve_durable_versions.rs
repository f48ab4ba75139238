//! The code of durable invocations: each goes on in the version that it was started in, which is kept as long as it is needed.

#[path = "support/extent.rs"]
mod extent;
mod serve_support;

use extent::some_of;
use monohull_visor::watchdog::openapi::DOCUMENT;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Server, eventually, image_bytes, root, single};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;

const OPTIONS: [&str; 6] = ["--suspend", "1s", "--concurrency", "8", "--prefork", "4"];
/// How many sleepers, and how many with `--full`.
const SLEEPERS: (usize, usize) = (200, 1000);

fn versions(server: &Server, workflow: &str) -> Value {
    let shown = server.get(&format!("/workflows/{workflow}/versions")).expect(200).json();
    let mut root: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    root["$ref"] = "#/components/schemas/Versions".into();
    let schema = jsonschema::validator_for(&root).expect("a schema");
    assert!(schema.is_valid(&shown), "{shown:#}");
    shown
}

/// Waits for an event and says what came, in the words of a version.
fn document(event: &str) -> Value {
    single("w", "f", &json!({ "args": { "events": [event], "fills": "result" }, "outputs": ["result"] }))
}

#[test]
fn sleepers_are_redeployed_under_and_end_with_their_own_code() {
    let sleepers = some_of(SLEEPERS.0, SLEEPERS.1);
    let server = Server::start_with(&OPTIONS);
    let put = |server: &Server, example: &str| {
        let answer = server.ask("PUT", "/functions/f", &image_bytes(example));
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    };
    put(&server, "inbox");
    server.put_workflow(&document("first"));
    let location = |number: usize| format!("/invocations/sleeper-{number}");
    server.post("/async-invoke/w?id=sleeper-0", b"").expect(202);
    eventually("the first sleeps", || server.get(&location(0)).expect(200).json()["status"] == "suspended");
    let copies: Vec<_> = (1..sleepers).map(|number| format!("sleeper-{number}")).collect();
    let order = json!({ "ids": copies }).to_string();
    let json = [("Content-Type", "application/json")];
    server.ask_with("POST", &format!("{}/fork", location(0)), &json, order.as_bytes()).expect(200);
    let suspended = |server: &Server| versions(server, "w")["versions"][0]["invocations"]["suspended"].as_u64();
    eventually("all sleep", || suspended(&server) == Some(sleepers as u64));
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains("monohull_durable_invocations{status=\"running\"} 0"), "{metrics}");
    // Another document, another image under the same name, and a server that knows neither of the old ones.
    put(&server, "sleeper");
    let naps = json!({ "naps": 1, "milliseconds": 1, "takes": "", "fills": "result" });
    server.put_workflow(&single("w", "f", &json!({ "args": naps, "outputs": ["result"] })));
    let state = server.state();
    assert_eq!(server.stop().0, Some(0));
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let shown = versions(&server, "w");
    let [current, old] = shown["versions"].as_array().expect("a list").as_slice() else { panic!("{shown:#}") };
    assert_eq!((&current["current"], &current["living"]), (&json!(true), &json!(0)), "{shown:#}");
    assert_eq!((&old["current"], &old["living"]), (&json!(false), &json!(sleepers)), "{shown:#}");
    assert_eq!((&shown["older"], &shown["older_versions"]), (&json!(sleepers), &json!(1)), "{shown:#}");
    assert!(current["deployed"].as_str() > old["deployed"].as_str() && old["deployed"].is_string(), "{shown:#}");
    assert_eq!(server.get(&location(7)).expect(200).json()["version"], old["version"]);
    let image = format!("{:x}", Sha256::digest(image_bytes("inbox")));
    assert_eq!(old["functions"][0]["image"], format!("sha256:{image}"));
    let kept = state.path().join("durable/files").join(&image);
    assert!(kept.exists(), "the image of the sleepers is kept");
    let output = server.post("/invoke/w", b"").expect(200).text();
    assert!(output.starts_with("1 naps"), "the new version: {output}");
    // A workflow that is registered no more has its sleepers all the same.
    server.ask("DELETE", "/workflows/w", b"").expect(204);
    server.ask("DELETE", "/functions/f", b"").expect(204);
    assert_eq!(versions(&server, "w")["registered"], false);
    for number in 0..sleepers {
        server.post(&format!("{}/events/first", location(number)), b"it").expect(202);
    }
    for number in 0..sleepers {
        let output = server.get(&format!("{}/outputs/result?wait=180s", location(number))).expect(200).text();
        assert_eq!(output, "first: it\n", "{number}");
    }
    server.get("/workflows/w/versions").error(404, "not-found", "client");
    eventually("the image is removed with the last of them", || !kept.exists());
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains(&format!("\nmonohull_durable_resumes_total {sleepers}\n")), "{metrics}");
}

/// What an operator looks at until old code is gone.
#[test]
fn who_keeps_an_older_version_is_listed_until_its_code_is_gone() {
    let server = Server::start_with(&OPTIONS);
    let address = format!("http://{}", server.address);
    server.put_example("inbox");
    let put = |words: &str| {
        let mut document =
            single("w", "inbox", &json!({ "args": { "events": ["first"], "fills": "result" }, "outputs": ["result"] }));
        document["description"] = words.into();
        server.put_workflow(&document);
        let shown = versions(&server, "w");
        shown["versions"][0]["version"].as_str().expect("a name").to_owned()
    };
    let start = |id: &str, more: &str| server.post(&format!("/async-invoke/w?id={id}{more}"), b"").expect(202);
    let status = |id: &str| server.get(&format!("/invocations/{id}")).expect(200).json()["status"].take();
    let oldest = put("one");
    ["a", "b"].iter().for_each(|id| drop(start(id, "")));
    eventually("they wait", || ["a", "b"].iter().all(|id| status(id) == "suspended"));
    server.post("/invocations/b/pause", b"").expect(200);
    let older = put("two");
    start("c", "&delay=1d");
    let current = put("three");
    assert!(oldest != older && older != current);
    // One page after another.
    let pages = (0..3).scan(String::new(), |cursor, _| {
        let page = server.get(&format!("/workflows/w/versions?limit=1{cursor}")).expect(200).json();
        *cursor = page["next_cursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
        Some((page["versions"][0]["version"].as_str().expect("a name").to_owned(), page["next_cursor"].is_null()))
    });
    let pages: Vec<_> = pages.collect();
    assert_eq!(pages, [(current, false), (older.clone(), false), (oldest.clone(), true)]);
    for wrong in ["limit=0", "limit=1001", "cursor=x", "version=1"] {
        server.get(&format!("/workflows/w/versions?{wrong}")).error(400, "bad-request", "client");
    }
    let list = |more: &str| {
        let listed = server.get(&format!("/invocations?{more}")).expect(200).json();
        let rows = listed["invocations"].as_array().expect("a list").clone();
        rows.into_iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(&format!("version={oldest}")), ["b", "a"]);
    assert_eq!(list(&format!("version={oldest}&status=paused&workflow=w")), ["b"]);
    assert_eq!(list(&format!("version={oldest}&workflow=v")), [""; 0]);
    server.get("/invocations?version=x").error(400, "bad-request", "client");
    // The same on a terminal, of 80 columns.
    let told = run_verb(&address, &["versions", "w"], &[], "").expect(0).out;
    let lines: Vec<_> = told.lines().collect();
    assert!(lines.len() == 4 && lines.iter().all(|line| line.len() <= 80), "{told}");
    let counts = |line: &str| line.split_whitespace().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(counts(lines[1])[..4], ["0", "0", "0", "0"], "{told}");
    assert_eq!(counts(lines[2])[..4], ["1", "0", "0", "0"], "{told}");
    assert_eq!(counts(lines[3]), ["1", "0", "1", "0", "-"], "{told}");
    assert_eq!(counts(lines[2]).len(), 6, "it has a due time: {told}");
    let told = run_verb(&address, &["versions", "w", "--invocations"], &[], "").expect(0).out;
    let ids: Vec<_> = told.lines().skip(1).map(|line| line.split_whitespace().last().expect("an id")).collect();
    assert_eq!(ids, ["c", "b", "a"], "{told}");
    let told = run_verb(&address, &["versions", "w", "--invocations", "--json"], &[], "").expect(0).json();
    assert_eq!(told["invocations"][2]["version"], oldest, "{told:#}");
    // It is gone with the last of them.
    server.post("/invocations/b/cancel", b"").expect(200);
    server.post("/invocations/c/cancel", b"").expect(200);
    server.post("/invocations/a/events/first", b"it").expect(202);
    server.get("/invocations/a/outputs/result?wait=180s").expect(200);
    let shown = versions(&server, "w");
    assert_eq!((&shown["older_versions"], &shown["versions"][0]["living"]), (&json!(0), &json!(0)), "{shown:#}");
    let told = run_verb(&address, &["versions", "w", "--invocations", "--json"], &[], "").expect(0).json();
    assert_eq!(told["invocations"], json!([]), "{told:#}");
    run_verb(&address, &["versions", "nothing"], &[], "").expect(2);
}

/// A failed invocation can be taken back, and needs its code for that.
#[test]
fn a_version_is_kept_for_what_has_failed_and_can_be_taken_back() {
    let server = Server::start_with(&OPTIONS);
    server.put_example("inbox");
    let args = json!({ "events": ["first", "second"], "fills": "result", "sends": [], "fails_after": 1 });
    let old = single("w", "inbox", &json!({ "args": args, "outputs": ["result"] }));
    server.put_workflow(&old);
    server.post("/async-invoke/w?id=a", b"").expect(202);
    let status = || server.get("/invocations/a").expect(200).json()["status"].take();
    eventually("it waits", || status() == "suspended");
    server.post("/invocations/a/events/first", b"").expect(202);
    eventually("it fails", || status() == "failed");
    let mut new = old.clone();
    new["description"] = "another one".into();
    server.put_workflow(&new);
    let shown = versions(&server, "w");
    let [_, old] = shown["versions"].as_array().expect("a list").as_slice() else { panic!("{shown:#}") };
    assert_eq!((&old["living"], &old["failed"]), (&json!(0), &json!(1)), "{shown:#}");
    assert_eq!((&shown["older"], &shown["older_versions"]), (&json!(0), &json!(1)), "{shown:#}");
    server.post("/invocations/a/purge", b"").expect(204);
    assert_eq!(versions(&server, "w")["older_versions"], 0);
}

#[test]
fn deploy_tells_how_many_go_on_in_older_versions() {
    let server = Server::start_with(&OPTIONS);
    let address = format!("http://{}", server.address);
    let text = fs::read_to_string(root().join("workflows/durable/approval.json")).expect("readable");
    let text = text.replace("../../target", "target");
    let deploy = |text: &str| run_verb(&address, &["deploy", "-"], &[], text).expect(0).out;
    assert_eq!(deploy(&text), "approval: deployed (functions: 1)\n");
    for id in ["one", "two"] {
        let order = [("Content-Type", "text/plain")];
        server.ask_with("POST", &format!("/async-invoke/approval?id={id}&delay=1d"), &order, b"x").expect(202);
    }
    assert_eq!(deploy(&text), "approval: deployed (functions: 1)\n", "it is the same");
    let mut other: Value = serde_json::from_str(&text).expect("JSON");
    other["limits"] = json!({ "timeout": "720h" });
    let said = "approval: deployed (functions: 1)\napproval: invocations that go on in older versions: 2\n";
    assert_eq!(deploy(&other.to_string()), said);
}

#[test]
fn changed_code_of_an_older_version_is_not_run() {
    let server = Server::start_with(&OPTIONS);
    server.ask("PUT", "/functions/f", &image_bytes("inbox")).expect(201);
    server.put_workflow(&document("first"));
    server.post("/async-invoke/w?id=later&delay=5s", b"").expect(202);
    server.ask("DELETE", "/workflows/w", b"").expect(204);
    server.ask("DELETE", "/functions/f", b"").expect(204);
    let image = format!("{:x}", Sha256::digest(image_bytes("inbox")));
    let kept = server.state().path().join("durable/files").join(image);
    fs::OpenOptions::new().append(true).open(kept).and_then(|mut kept| kept.write_all(b"more")).expect("written");
    let shown = || server.get("/invocations/later").expect(200).json();
    eventually("it is paused", || shown()["status"] == "paused");
    assert_eq!(shown()["reason"], "the image of its function `f` was changed");
}
