//! The code of durable invocations: each goes on in the version that it was started in, which is kept as long as it is needed.

mod serve_support;

use monohull_visor::watchdog::openapi::DOCUMENT;
use serde_json::{Value, json};
use serve_support::verbs::run_verb;
use serve_support::{Server, eventually, image_bytes, root, single};
use sha2::{Digest, Sha256};
use std::fs;

const OPTIONS: [&str; 6] = ["--suspend", "1s", "--concurrency", "8", "--prefork", "4"];
const SLEEPERS: usize = 100;

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
fn a_hundred_sleepers_are_redeployed_under_and_end_with_their_own_code() {
    let server = Server::start_with(&OPTIONS);
    let put = |server: &Server, example: &str| {
        let answer = server.ask("PUT", "/functions/f", &image_bytes(example));
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
    };
    put(&server, "inbox");
    server.put_workflow(&document("first"));
    let location = |number: usize| format!("/invocations/sleeper-{number}");
    for number in 0..SLEEPERS {
        server.post(&format!("/async-invoke/w?id=sleeper-{number}"), b"").expect(202);
    }
    let suspended = |server: &Server| versions(server, "w")["versions"][0]["invocations"]["suspended"].as_u64();
    eventually("all sleep", || suspended(&server) == Some(SLEEPERS as u64));
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
    assert_eq!((&old["current"], &old["living"]), (&json!(false), &json!(SLEEPERS)), "{shown:#}");
    assert_eq!(shown["older"], SLEEPERS, "{shown:#}");
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
    for number in 0..SLEEPERS {
        server.post(&format!("{}/events/first", location(number)), b"it").expect(202);
    }
    for number in 0..SLEEPERS {
        let output = server.get(&format!("{}/outputs/result?wait=180s", location(number))).expect(200).text();
        assert_eq!(output, "first: it\n", "{number}");
    }
    server.get("/workflows/w/versions").error(404, "not-found", "client");
    eventually("the image is removed with the last of them", || !kept.exists());
    let metrics = server.get("/metrics").expect(200).text();
    assert!(metrics.contains(&format!("\nmonohull_durable_resumes_total {SLEEPERS}\n")), "{metrics}");
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
