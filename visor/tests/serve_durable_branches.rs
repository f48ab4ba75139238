//! Copies of a durable invocation by the thousand: each request makes new ones, and what is shown of them stays small.

mod serve_support;

use serde_json::{Value, json};
use serve_support::{Answer, Server, eventually, single};
use std::collections::HashSet;

/// The most that one request makes.
const COPIES: usize = 1000;
/// As many are named.
const SHOWN: usize = 100;

fn fork(server: &Server, count: usize) -> Answer {
    let order = json!({ "count": count, "paused": true }).to_string();
    server.ask_with("POST", "/invocations/one/fork", &[("Content-Type", "application/json")], order.as_bytes())
}

fn names(answer: &Answer) -> Vec<String> {
    let made = answer.json();
    let copies = made["copies"].as_array().expect("a list").iter();
    let name = |copy: &Value| {
        assert_eq!((&copy["came"], &copy["status"]), (&json!("new"), &json!("paused")), "{copy:#}");
        copy["id"].as_str().expect("an id").to_owned()
    };
    copies.map(name).collect()
}

#[test]
fn each_request_makes_new_copies_and_a_bounded_number_is_shown() {
    let most = 3 * COPIES + 11;
    let server = Server::start_with(&["--suspend", "1s", "--max-durable", &most.to_string()]);
    server.put_example("inbox");
    server.put_workflow(&single(
        "inbox",
        "inbox",
        &json!({ "args": { "events": ["a"], "fills": "result" }, "outputs": ["result"] }),
    ));
    server.post("/async-invoke/inbox?id=one", b"").expect(202);
    eventually("it waits", || server.get("/invocations/one").expect(200).json()["status"] == "suspended");

    // A list without a name asks for no copy, and gets none.
    let json = [("Content-Type", "application/json")];
    server.ask_with("POST", "/invocations/one/fork", &json, br#"{"ids": []}"#).error(400, "bad-request", "client");
    let mut all = HashSet::new();
    for _ in 0..3 {
        all.extend(names(&fork(&server, COPIES).expect(200)));
    }
    assert!(all.len() == 3 * COPIES && all.contains("one-1") && all.contains("one-3000"));
    let shown = server.get("/invocations/one").expect(200).json();
    assert_eq!(shown["fork_count"], 3 * COPIES);
    assert_eq!(shown["forks"].as_array().map(Vec::len), Some(SHOWN));

    // Names in their midst are free again.
    let remove = |id: &str| {
        server.post(&format!("/invocations/{id}/cancel"), b"").expect(200);
        server.post(&format!("/invocations/{id}/purge"), b"").expect(204);
    };
    for id in ["one-7", "one-1500"] {
        remove(id);
        assert!(all.remove(id));
    }
    let more = names(&fork(&server, 12).expect(200));
    assert!(more.iter().all(|name| all.insert(name.clone())), "{more:?}");
    // All that there may be are there: 3 times 1000, without two, with twelve, and the one that they are of.
    fork(&server, 1).error(429, "full", "host");
    remove("one-9");
    assert_eq!(names(&fork(&server, 1).expect(200)).len(), 1);
}

/// Calls without an id are counted too, which are in the ledger from their start and become durable when they wait: one that is accepted has room then.
#[test]
fn calls_that_become_durable_are_counted() {
    let server = Server::start_with(&["--suspend", "1s", "--max-durable", "2"]);
    server.put_example("inbox");
    let args = json!({ "events": ["a"], "fills": "result" });
    server.put_workflow(&single("inbox", "inbox", &json!({ "args": args, "outputs": ["result"] })));
    let begin = || server.post("/async-invoke/inbox", b"").expect(202).headers["location"].clone();
    let waits = |location: &str| {
        eventually("it waits", || server.get(location).expect(200).json()["status"] == "suspended");
    };
    let refused = || _ = server.post("/async-invoke/inbox", b"").error(429, "full", "host");
    let all = [begin(), begin()];
    // Before or behind their first waits.
    refused();
    all.iter().for_each(|location| waits(location));
    refused();
    server.post(&format!("{}/cancel", all[0]), b"").expect(200);
    let another = begin();
    refused();
    waits(&another);
}
