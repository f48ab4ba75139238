//! Events that functions send to other invocations: they leave with a commit, once, and only where the workflow file permits it.

mod serve_support;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use serve_support::{Server, StateFolder, eventually, single};

const OPTIONS: [&str; 2] = ["--suspend", "1s"];

/// A workflow of the example `inbox` that takes these events, with what else it is given.
fn inbox(name: &str, events: &[&str], more: &Value, sends_to: &[&str]) -> Value {
    let mut args = json!({ "events": events, "fills": "result" });
    for (key, value) in more.as_object().expect("an object") {
        args[key] = value.clone();
    }
    let mut document = single(name, "inbox", &json!({ "args": args, "outputs": ["result"] }));
    if !sends_to.is_empty() {
        document["sends_to"] = json!(sends_to);
    }
    document
}

/// Registers `receiver`, which takes `paid` twice and then `end`; `other`, which is as that; and what a test sends from.
fn deploy(server: &Server, senders: &[Value]) {
    server.put_example("inbox");
    for name in ["receiver", "other"] {
        server.put_workflow(&inbox(name, &["paid", "paid", "end"], &json!({}), &[]));
    }
    for sender in senders {
        server.put_workflow(sender);
    }
}

fn shown(server: &Server, id: &str) -> Value {
    server.get(&format!("/invocations/{id}")).expect(200).json()
}

#[track_caller]
fn start(server: &Server, workflow: &str, id: &str) {
    server.post(&format!("/async-invoke/{workflow}?id={id}"), b"").expect(202);
    eventually("it waits", || shown(server, id)["status"] == "suspended");
}

#[track_caller]
fn send(server: &Server, id: &str, event: &str) {
    server.post(&format!("/invocations/{id}/events/{event}"), event.as_bytes()).expect(202);
}

#[track_caller]
fn ends_with(server: &Server, id: &str, result: &str) {
    assert_eq!(server.get(&format!("/invocations/{id}/outputs/result?wait=120s")).expect(200).text(), result);
}

fn kill_now(server: Server) {
    server.signal(Signal::SIGKILL);
    server.wait();
}

/// Sends `paid` to `r` after `go`, and after `on`.
fn sender(more: Value, sends_to: &[&str]) -> Value {
    let mut args = json!({ "sends": ["paid", "paid"], "sends_to": "r" });
    for (key, value) in more.as_object().expect("an object") {
        args[key] = value.clone();
    }
    inbox("sender", &["go", "on"], &args, sends_to)
}

#[test]
fn what_is_sent_leaves_with_the_commit_and_wakes_its_receiver() {
    let server = Server::start_with(&OPTIONS);
    deploy(&server, &[sender(json!({}), &["receiver"])]);
    start(&server, "receiver", "r");
    start(&server, "sender", "s");
    send(&server, "s", "go");
    eventually("r has taken the first", || shown(&server, "r")["generation"] == 2);
    send(&server, "s", "on");
    ends_with(&server, "s", "go: go\non: on\n");
    eventually("with the end of s comes the second", || shown(&server, "r")["generation"] == 3);
    send(&server, "r", "end");
    ends_with(&server, "r", "paid: s 0\npaid: s 1\nend: end\n");
}

/// An invocation that ends without a wait sends with its end, and one may send to itself.
#[test]
fn what_never_waits_sends_at_its_end_and_one_may_send_to_itself() {
    let server = Server::start_with(&OPTIONS);
    let at_once = json!({ "sends": ["paid"], "sends_to": "r", "poll": true });
    let to_itself = json!({ "sends": ["b"], "sends_to": "me" });
    deploy(
        &server,
        &[inbox("at-once", &["go"], &at_once, &["*"]), inbox("itself", &["a", "b"], &to_itself, &["itself"])],
    );
    start(&server, "receiver", "r");
    let answer = server.post("/invoke/at-once", b"").expect(200);
    assert_eq!(answer.text(), "go is late\n");
    eventually("r has it", || shown(&server, "r")["generation"] == 2);
    start(&server, "itself", "me");
    send(&server, "me", "a");
    ends_with(&server, "me", "a: a\nb: me 0\n");
}

/// The window between the call and the commit: the sender is killed there, and runs again from the checkpoint before.
#[test]
fn a_sender_that_is_killed_before_its_commit_has_sent_nothing_and_sends_once_later() {
    let state = StateFolder::new();
    let server = Server::start_on(&state, &OPTIONS, &[]);
    // After `go` it is busy, and prints, until `on` comes.
    let args = json!({ "sends": ["paid"], "sends_to": "r", "busy_from": 1, "busy_to": 2 });
    deploy(&server, &[inbox("sender", &["go", "on", "last"], &args, &["receiver"])]);
    start(&server, "receiver", "r");
    start(&server, "sender", "s");
    send(&server, "s", "go");
    let took = |server: &Server| {
        let logs = server.get("/invocations/s/logs").expect(200).text();
        logs.lines().any(|line| line.ends_with("go: go"))
    };
    eventually("it has sent, and is busy", || took(&server));
    let nothing = |server: &Server| {
        let receiver = shown(server, "r");
        assert_eq!((&receiver["generation"], &receiver["mail"]), (&json!(1), &json!(0)), "{receiver:#}");
    };
    nothing(&server);
    kill_now(server);
    let server = Server::start_on(&state, &OPTIONS, &[]);
    eventually("it has sent again", || took(&server));
    nothing(&server);
    send(&server, "s", "on");
    eventually("r has it", || shown(&server, "r")["generation"] == 2);
    kill_now(server);
    let server = Server::start_on(&state, &OPTIONS, &[]);
    send(&server, "s", "last");
    ends_with(&server, "s", "go: go\non: on\nlast: last\n");
    assert_eq!(shown(&server, "r")["generation"], 2, "nothing came twice");
    send(&server, "r", "paid");
    send(&server, "r", "end");
    ends_with(&server, "r", "paid: s 0\npaid: paid\nend: end\n");
}

/// An instance that fails after it has sent is started again, and sends the same again.
#[test]
fn another_attempt_sends_nothing_twice() {
    let server = Server::start_with(&OPTIONS);
    let mut sender = sender(json!({ "fails_after": 1 }), &["receiver"]);
    sender["steps"][0]["retry"] = json!({ "max_attempts": 2 });
    deploy(&server, &[sender]);
    start(&server, "receiver", "r");
    start(&server, "sender", "s");
    send(&server, "s", "go");
    eventually("r has taken the first", || shown(&server, "r")["generation"] == 2);
    eventually("s waits", || shown(&server, "s")["status"] == "suspended");
    assert_eq!(shown(&server, "r")["mail"], 0);
    send(&server, "s", "on");
    eventually("r has taken the second", || shown(&server, "r")["generation"] == 3);
    send(&server, "r", "end");
    ends_with(&server, "r", "paid: s 0\npaid: s 1\nend: end\n");
}

/// Without `sends_to` the call is refused. A receiver of another workflow, one that there is not, and a text that is no id get nothing, and
/// the sender goes on.
#[test]
fn only_receivers_that_the_workflow_file_names_are_sent_events() {
    let server = Server::start_with(&OPTIONS);
    let named = |name: &str, to: &str, sends_to: &[&str]| {
        inbox(name, &["go"], &json!({ "sends": ["paid"], "sends_to": to }), sends_to)
    };
    let longest = "x".repeat(65);
    deploy(
        &server,
        &[
            named("allowed", "r", &["receiver"]),
            named("refused", "r", &[]),
            named("another", "o", &["receiver"]),
            named("nobody", "nobody", &["*"]),
            named("path", "../r", &["*"]),
            named("long", &longest, &["*"]),
            named("ended", "done", &["*"]),
        ],
    );
    start(&server, "receiver", "r");
    start(&server, "other", "o");
    start(&server, "receiver", "done");
    server.post("/invocations/done/cancel", b"").expect(200);
    let refused = "sending event `paid` to `r`: the workflow file does not permit it: `sends_to` names no workflow\n";
    let wrong = |to: &str| {
        format!(
            "sending event `paid` to `{to}`: the id of an invocation has 1 to 64 letters, digits, `-` and `_`, and the name of an event 1 \
             to 128 bytes without control characters\n"
        )
    };
    let cases = [
        ("refused", refused.to_owned()),
        ("another", String::new()),
        ("nobody", String::new()),
        ("path", wrong("../r")),
        ("long", wrong(&longest)),
        ("ended", String::new()),
    ];
    for (workflow, complaint) in cases {
        start(&server, workflow, workflow);
        send(&server, workflow, "go");
        ends_with(&server, workflow, &format!("go: go\n{complaint}"));
        for id in ["r", "o"] {
            let receiver = shown(&server, id);
            assert_eq!(
                (&receiver["generation"], &receiver["mail"]),
                (&json!(1), &json!(0)),
                "{workflow}: {receiver:#}"
            );
        }
    }
    // The control.
    start(&server, "allowed", "allowed");
    send(&server, "allowed", "go");
    eventually("r has it", || shown(&server, "r")["generation"] == 2);
}

/// A function that sends without end is refused at the bounds, and its receiver's mailbox ends at its own. Others are served meanwhile.
#[test]
fn floods_end_at_the_bounds_of_the_outbox_and_of_the_mailbox() {
    let server = Server::start_with(&OPTIONS);
    let flood = |name: &str, times: usize, bytes: usize| {
        let args = json!({
            "sends": ["flood"], "sends_to": "r", "sends_times": times, "sends_bytes": bytes,
        });
        inbox(name, &["go"], &args, &["receiver"])
    };
    deploy(&server, &[flood("many", 1000, 1), flood("much", 1000, 1 << 20), flood("long", 1, (1 << 20) + 1)]);
    for id in ["r", "victim"] {
        start(&server, "receiver", id);
    }
    let complains = |workflow: &str, id: &str, complaint: &str| {
        start(&server, workflow, id);
        send(&server, id, "go");
        ends_with(&server, id, &format!("go: go\nsending event `flood` to `r`: {complaint}\n"));
    };
    complains("many", "many", "a workflow sends at most 256 events between two checkpoints");
    assert_eq!(shown(&server, "r")["mail"], 256);
    complains("much", "much", "a workflow sends at most 4194304 bytes between two checkpoints");
    assert_eq!(shown(&server, "r")["mail"], 260);
    complains("long", "long", "an event has at most 1048576 bytes");
    for number in 1..4 {
        complains("many", &format!("many-{number}"), "a workflow sends at most 256 events between two checkpoints");
    }
    let receiver = shown(&server, "r");
    assert_eq!((&receiver["mail"], &receiver["status"]), (&json!(1000), &json!("suspended")), "{receiver:#}");
    for event in ["paid", "paid", "end"] {
        send(&server, "victim", event);
    }
    ends_with(&server, "victim", "paid: paid\npaid: paid\nend: end\n");
}
