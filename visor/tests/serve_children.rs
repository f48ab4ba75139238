//! Children in a server: of registered workflows, started once and told once whatever is killed, and in the scope of their parent.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, single};
use std::thread::sleep;
use std::time::Duration;

const OPTIONS: [&str; 4] = ["--suspend", "1s", "--concurrency", "4"];
/// How often a server is killed while a parent and its children run.
const KILLS: u64 = 6;

/// A workflow of the example `family` that does this, and may start these workflows.
fn family(name: &str, does: &[&str], starts: &[&str], more: &Value) -> Value {
    let mut document = single(name, "family", &json!({ "args": { "does": does }, "outputs": ["result"] }));
    document["steps"][0]["fills"] = json!(["result"]);
    if !starts.is_empty() {
        document["starts"] = json!(starts);
    }
    if does.contains(&"input") {
        document["inputs"] = json!(["input"]);
        document["steps"][0]["takes"] = json!(["input"]);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        match key.as_str() {
            "retry" => document["steps"][0][key] = value.clone(),
            _ => document[key] = value.clone(),
        }
    }
    document
}

fn deploy(server: &Server, documents: &[Value]) {
    server.put_example("family");
    for document in documents {
        server.put_workflow(document);
    }
}

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

fn is(server: &Server, id: &str, status: &str) -> bool {
    shown(server, id)["status"] == status
}

#[track_caller]
fn start(server: &Server, workflow: &str, id: &str) {
    server.post(&format!("/async-invoke/{workflow}?id={id}"), b"").expect(202);
    eventually("it waits", || is(server, id, "suspended"));
}

/// The invocation that is a child of this name.
fn child_of(server: &Server, id: &str, child: &str) -> String {
    let found = || {
        let shown = shown(server, id);
        let children = shown["children"].as_array().expect("children").clone();
        children.into_iter().find(|known| known["child"] == child)
    };
    eventually("it is started", || found().is_some());
    found().expect("it is there")["id"].as_str().expect("an id").to_owned()
}

#[track_caller]
fn ends_with(server: &Server, id: &str, result: &str) {
    assert_eq!(server.get(&format!("/invocations/{id}/outputs/result?wait=240s")).expect(200).text(), result);
}

#[test]
fn an_album_is_made_by_children() {
    let server = Server::start_with(&OPTIONS);
    for example in ["album", "thumbnail"] {
        server.put_example(example);
        server.put_shipped(&format!("durable/{example}.json"));
    }
    let pictures = b"hull\n12345\n.....\n67890\n\nempty\n\nsail\nab\n";
    // A call that is not durable before it waits for its children.
    let answer = server.post("/invoke/album", pictures);
    let id = match answer.status {
        202 => answer.json()["id"].as_str().expect("an id").to_owned(),
        _ => panic!("it waits: {}", answer.text()),
    };
    let album = server.get(&format!("/invocations/{id}/outputs/album?wait=240s")).expect(200).text();
    assert_eq!(album, "hull\n135\n680\n\nempty: Failed: the picture is empty\n\nsail\na\n\n");
    let shown = shown(&server, &id);
    let children: Vec<_> = shown["children"].as_array().expect("children").iter().collect();
    let statuses: Vec<_> = children.iter().map(|child| json!([child["child"], child["status"]])).collect();
    assert_eq!(json!(statuses), json!([["hull", "completed"], ["empty", "failed"], ["sail", "completed"]]));
    let hull = self::shown(&server, children[0]["id"].as_str().expect("an id"));
    assert_eq!(hull["started_by"], json!({ "id": id, "child": "hull" }));
}

#[test]
fn a_parent_sleeps_until_its_child_has_ended_and_runs_on_when_it_does() {
    let server = Server::start_with(&OPTIONS);
    let child = family("child", &["input", "wait go"], &[], &json!({}));
    let parent = family("parent", &["start child a seventeen", "first stop a", "look a"], &["child"], &json!({}));
    deploy(&server, &[child, parent]);
    start(&server, "parent", "p");
    let waits = shown(&server, "p")["waiting_for"].clone();
    assert_eq!((&waits[1]["kind"], &waits[1]["name"]), (&json!("child"), &json!("a")), "{waits}");
    assert_eq!((&waits[1]["what"], &waits[0]["kind"]), (&json!("for child `a`"), &json!("event")), "{waits}");
    let a = child_of(&server, "p", "a");
    eventually("the child waits", || is(&server, &a, "suspended"));
    server.post(&format!("/invocations/{a}/events/go"), b"on").expect(202);
    ends_with(&server, "p", "a: Completed: seventeen | go: on\na: has not ended\n");
}

/// The server is killed at moments that have nothing to do with what parent and children do.
#[test]
fn a_server_that_is_killed_starts_each_child_once_and_tells_its_end_once() {
    let state = StateFolder::new();
    let again = json!({ "retry": { "max_attempts": 2 } });
    let documents = [
        family("child", &["input", "nap 1100", "start below x", "join x"], &["below"], &again),
        family("below", &["nap 1100"], &[], &again),
        family(
            "parent",
            &[
                "start child a 1",
                "start child b 2",
                "join b",
                "nap 1100",
                "again child c 3",
                "join a",
                "look a",
                "look b",
            ],
            &["child"],
            &again,
        ),
    ];
    let mut server = Server::start_on(&state, &OPTIONS, &[]);
    deploy(&server, &documents);
    server.post("/async-invoke/parent?id=p", b"").expect(202);
    for kill in 0..KILLS {
        sleep(Duration::from_millis(200 + 350 * (kill % 4)));
        server.signal(Signal::SIGKILL);
        server.wait();
        server = Server::start_on(&state, &OPTIONS, &[]);
    }
    let result = "b: Completed: 2 | x: Completed:\nc: Completed: 3 | x: Completed:\na: Completed: 1 | x: Completed:\n\
        a: has not ended\nb: has not ended\n";
    ends_with(&server, "p", result);
    let listed = server.get("/invocations?limit=100").expect(200).json();
    assert_eq!(listed["invocations"].as_array().expect("a list").len(), 7, "{listed}");
}

#[test]
fn children_that_run_are_stopped_with_their_parent() {
    for verb in ["cancel", "delete"] {
        let server = Server::start_with(&OPTIONS);
        let spin = single("spin", "sleeper", &json!({ "outputs": ["result"] }));
        let mut spin = spin;
        // It naps too shortly to be suspended, for hours.
        spin["steps"][0]["args"] = json!({ "naps": 100_000, "milliseconds": 100, "takes": "", "fills": "result" });
        server.put_example("sleeper");
        let parent = family("parent", &["start spin a", "detach spin d", "join a"], &["spin"], &json!({}));
        deploy(&server, &[spin, parent]);
        start(&server, "parent", "p");
        let [a, d] = ["a", "d"].map(|child| child_of(&server, "p", child));
        eventually("both run", || is(&server, &a, "running") && is(&server, &d, "running"));
        match verb {
            "cancel" => _ = server.post("/invocations/p/cancel", b"").expect(200),
            _ => _ = server.ask("DELETE", "/invocations/p", b"").expect(204),
        }
        eventually("the child has ended", || is(&server, &a, "cancelled"));
        assert!(is(&server, &d, "running"), "it is detached");
        server.post("/invocations/p/purge", b"").expect(204);
        server.ask("DELETE", &format!("/invocations/{d}"), b"").expect(204);
        eventually("it ends without its parent", || is(&server, &d, "cancelled"));
    }
}

#[test]
fn a_parent_learns_why_a_child_was_not_run_again() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let child = family("child", &["doze 900", "doze 900", "doze 900", "doze 900"], &[], &json!({}));
    let parent = family("parent", &["start child a", "join a"], &["child"], &json!({}));
    deploy(&server, &[child, parent]);
    start(&server, "parent", "p");
    let a = child_of(&server, "p", "a");
    eventually("it runs", || is(&server, &a, "running"));
    server.signal(Signal::SIGKILL);
    server.wait();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    let result = server.get("/invocations/p/outputs/result?wait=240s").expect(200).text().to_owned();
    assert!(result.starts_with("a: Failed: the server ended before the first checkpoint"), "{result}");
}

/// What is permitted works in the tests above.
#[test]
fn only_registered_workflows_that_the_file_names_are_started() {
    let server = Server::start_with(&OPTIONS);
    let child = family("child", &["nap 1100"], &[], &json!({}));
    let does = ["start other a", "again gone b", "again child c text", "start child d"];
    let parent = family("parent", &does, &["child", "gone"], &json!({}));
    let denied = family("denied", &["start child a", "nap 1100"], &[], &json!({}));
    let other = family("other", &["nap 1100"], &[], &json!({}));
    deploy(&server, &[child, other, parent, denied]);
    server.post("/async-invoke/parent?id=p", b"").expect(202);
    server.post("/async-invoke/denied?id=n", b"").expect(202);
    let log = server.get("/invocations/p/outputs/result?wait=240s").expect(200).text();
    let expected = "starting child `a` of `other`: `starts` of the workflow file does not name `other`\nb: Refused: ";
    assert!(log.starts_with(expected), "{log}");
    assert!(log.ends_with("\nc: Refused: the workflow `child` takes no input\n"), "{log}");
    ends_with(
        &server,
        "n",
        "starting child `a` of `child`: the workflow file does not permit it: `starts` names no workflow\n",
    );
    let shown = shown(&server, "p");
    let lost: Vec<_> =
        shown["undelivered"].as_array().expect("a list").iter().map(|lost| (&lost["what"], &lost["to"])).collect();
    assert_eq!(lost, [(&json!("start"), &json!("b")), (&json!("start"), &json!("c"))]);
    let listed = server.get("/invocations?workflow=other").expect(200).json();
    assert_eq!(listed["invocations"], json!([]), "nothing of it was started");
}

#[test]
fn an_end_of_a_child_cannot_be_forged() {
    let server = Server::start_with(&OPTIONS);
    let child = family("child", &["wait go"], &[], &json!({}));
    let does = ["start child a", "send p child:a forged", "join a"];
    let parent = family("parent", &does, &["child"], &json!({ "sends_to": ["*"] }));
    deploy(&server, &[child, parent]);
    start(&server, "parent", "p");
    let forged = b"\0\0\0\0\0";
    let refused = server.post("/invocations/p/events/child:a", forged).error(400, "bad-request", "client");
    assert!(refused["message"].as_str().expect("text").contains("begins with `child:`"), "{refused}");
    server.post("/callbacks/p/child:a", forged).expect(404);
    assert_eq!(shown(&server, "p")["mail"], 0);
    assert!(is(&server, "p", "suspended"), "the victim is as it was");
    let a = child_of(&server, "p", "a");
    server.post(&format!("/invocations/{a}/events/go"), b"on").expect(202);
    let expected = "sending event `child:a` to `p`: no function sends events whose names begin with `child:`\n\
        a: Completed: go: on\n";
    ends_with(&server, "p", expected);
}

#[test]
fn a_call_that_never_waits_starts_only_what_is_detached() {
    let server = Server::start_with(&OPTIONS);
    let child = family("child", &["input"], &[], &json!({}));
    let parent = family("parent", &["start child a 1", "detach child d 2"], &["child"], &json!({}));
    deploy(&server, &[child, parent]);
    assert_eq!(server.post("/invoke/parent", b"").expect(200).text(), "");
    let listed = || server.get("/invocations?workflow=child").expect(200).json()["invocations"].as_array().cloned();
    eventually("it has run", || listed().is_some_and(|list| list.len() == 1 && list[0]["status"] == "completed"));
    let id = listed().expect("a list")[0]["id"].as_str().expect("an id").to_owned();
    ends_with(&server, &id, "2\n");
}

/// Events that cannot be sent are seen by those who ask about their sender.
#[test]
fn what_could_not_be_sent_is_listed_under_its_sender() {
    let server = Server::start_with(&OPTIONS);
    let does = ["send nobody paid x", "wait go", "send done paid y"];
    let sender = family("sender", &does, &[], &json!({ "sends_to": ["sender"] }));
    deploy(&server, &[sender]);
    start(&server, "sender", "done");
    server.ask("DELETE", "/invocations/done", b"").expect(204);
    start(&server, "sender", "s");
    let lost = |number: usize| {
        let lost = shown(&server, "s")["undelivered"][number].clone();
        [&lost["what"], &lost["to"], &lost["name"], &lost["why"]]
            .map(|text| text.as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(lost(0), ["event", "nobody", "paid", "there is no such invocation"]);
    server.post("/invocations/s/events/go", b"").expect(202);
    eventually("it has ended", || is(&server, "s", "completed"));
    assert_eq!(lost(1), ["event", "done", "paid", "it has ended"]);
    assert_eq!(shown(&server, "s")["undelivered"].as_array().map(Vec::len), Some(2));
}
