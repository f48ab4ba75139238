//! What an invocation leaves behind on purpose in a process that serves others after it: threads, timers, files, mappings, handlers,
//! registers, memory. The next invocation in that process finds none of it, and is served as if nothing had been.
//!
//! The ways are those of `examples/attacks` (`remains`). The control: an invocation that leaves it and looks finds it.

mod serve_support;

use serde_json::{Value, json};
use serve_support::{Server, eventually, single};

/// All ways but for `handler`, whose look ends the invocation.
const WAYS: [&str; 9] = ["threads", "lines", "files", "mapped", "memory", "copied", "names", "registers", "hoard"];

/// What is left is full of this.
const MARK: &str = "c0ffee-left-behind";

/// A server with the workflow.
fn server() -> Server {
    let server = Server::start_with(&["--prefork", "2", "--process", "reused", "--suspend", "2h"]);
    server.put_example("attacks");
    server.put_workflow(&workflow("function"));
    server
}

fn workflow(isolation: &str) -> Value {
    single(
        "remains",
        "attacks",
        &json!({
            "args": { "role": "remains" },
            "inputs": ["todo"],
            "unread": "ignore",
            "isolation": isolation,
            "files": [{ "at": "/mem", "memory": "64MiB" }],
            "limits": { "carriers": 4, "slots": "256MiB", "timeout": "60s" },
        }),
    )
}

/// What came of an invocation.
struct Came {
    status: u16,
    /// The kind of its failure, if it is one.
    kind: Value,
    /// What it printed.
    lines: Vec<String>,
    /// How many invocations its process had served before.
    before: u64,
}

/// Has an invocation do something; its process has been reset afterwards, if it is one that stays.
#[track_caller]
fn invoke(server: &Server, todo: &str) -> Came {
    let octets = [("Content-Type", "application/octet-stream")];
    let answer = server.ask_with("POST", "/invoke/remains", &octets, todo.as_bytes());
    let id = answer.headers["x-invocation-id"].clone();
    if answer.status == 200 {
        eventually("it is reset", || server.get("/healthz").json()["kept_workers"] == 1);
    }
    let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
    let logs = server.get(&format!("/invocations/{id}/logs?format=raw")).expect(200).text();
    let before = shown["report"]["process"]["before"].as_u64();
    Came {
        status: answer.status,
        kind: shown["error"]["kind"].clone(),
        lines: logs.lines().map(|line| line.trim_start_matches("main[0] | ").to_owned()).collect(),
        before: before.unwrap_or_else(|| panic!("{todo}: {shown:#}")),
    }
}

impl Came {
    fn got(&self) -> Vec<&str> {
        self.lines.iter().map(String::as_str).filter(|line| line.starts_with("got ")).collect()
    }

    #[track_caller]
    fn expect_done(self, todo: &str) -> Came {
        assert_eq!(self.status, 200, "{todo}: {} {:#?}", self.kind, self.lines);
        self
    }
}

/// A new process for what follows: that of the last version has ended.
#[track_caller]
fn afresh(server: &Server) {
    server.put_workflow(&workflow("function"));
    eventually("it ends", || server.get("/healthz").json()["kept_workers"] == 0);
}

#[test]
fn nothing_that_an_invocation_leaves_reaches_the_next_one() {
    let server = server();
    let mut served = 0;
    for way in WAYS {
        let left = invoke(&server, &format!("leave {way} {MARK}")).expect_done(way);
        assert_eq!(left.before, served, "{way}: {}", server.log());
        let looked = invoke(&server, &format!("look {way} {MARK}")).expect_done(way);
        assert_eq!(looked.before, served + 1, "{way}: {}", server.log());
        assert_eq!(looked.got(), [""; 0], "{way}");
        assert_eq!(looked.lines, ["intact"], "{way}");
        served += 2;
    }
}

/// The positive control: there is something to be found.
#[test]
fn an_invocation_finds_what_it_has_left_itself() {
    let server = server();
    for way in WAYS {
        let both = invoke(&server, &format!("both {way} {MARK}")).expect_done(way);
        assert!(!both.got().is_empty(), "{way}: {:#?}", both.lines);
    }
}

/// Without the handler a fault ends the invocation.
#[test]
fn a_fault_handler_ends_with_its_invocation() {
    let server = server();
    let both = invoke(&server, &format!("both handler {MARK}")).expect_done("handler");
    assert_eq!(both.got().len(), 1, "{:#?}", both.lines);
    assert_eq!(invoke(&server, &format!("leave handler {MARK}")).expect_done("handler").before, 1);
    let looked = invoke(&server, &format!("look handler {MARK}"));
    assert_eq!(
        (looked.status, looked.kind, looked.before),
        (502, "illegal-instruction".into(), 2),
        "{:#?}",
        looked.lines
    );
}

/// Whatever is left, and however often: the process goes on, and the answers are right.
#[test]
fn what_is_left_again_and_again_keeps_no_later_invocation_from_its_process() {
    let server = server();
    for way in ["threads", "hoard"] {
        afresh(&server);
        for round in 0..4 {
            let left = invoke(&server, &format!("leave {way} {MARK}-{round}")).expect_done(way);
            assert_eq!(left.before, round, "{way}: {}", server.log());
        }
        let looked = invoke(&server, &format!("look {way} {MARK}-0")).expect_done(way);
        assert_eq!((looked.before, looked.got()), (4, vec![]), "{way}");
    }
}

/// One that waits becomes durable, as in a new process: it leaves the process that has served others, and goes on in another.
#[test]
fn an_invocation_that_waits_leaves_a_process_that_has_served_others() {
    let server = Server::start_with(&["--prefork", "2", "--process", "reused", "--suspend", "500ms"]);
    server.put_example("attacks");
    server.put_workflow(&workflow("function"));
    for round in 0..2 {
        for before in 0..2 {
            assert_eq!(invoke(&server, "nothing").expect_done("nothing").before, before, "{}", server.log());
        }
        let octets = [("Content-Type", "application/octet-stream")];
        let answer = server.ask_with("POST", "/invoke/remains", &octets, b"wait").expect(202);
        let location = format!("/invocations/{}", answer.headers["x-invocation-id"]);
        eventually("its process ends", || server.get("/healthz").json()["kept_workers"] == 0);
        let ended = server.ended(&location);
        assert_eq!(ended["status"], "completed", "{round}: {ended:#}");
        let lines = server.get(&format!("{location}/logs?format=raw")).expect(200).text();
        assert!(lines.contains("before") && lines.contains("after"), "{lines}");
    }
}

/// Hostcalls with arguments that are not the caller's: what they do to a process is nothing for the next invocation either.
#[test]
fn abuses_in_a_process_that_is_used_again_come_to_the_same() {
    let server = server();
    server.put_example("hostcall-abuse");
    for args in [json!({ "role": "stray-writes", "number": 7 }), json!({ "role": "odd-registers" })] {
        let more = json!({
            "args": args,
            "files": [{ "at": "/work", "memory": "1MiB" }],
            "limits": { "timeout": "600s" },
        });
        server.put_workflow(&single("abuse", "hostcall-abuse", &more));
        eventually("it ends", || server.get("/healthz").json()["kept_workers"] == 0);
        let mut first = None;
        for before in 0..3 {
            let answer = server.post("/invoke/abuse", b"").expect(200);
            let id = answer.headers["x-invocation-id"].clone();
            eventually("it is reset", || server.get("/healthz").json()["kept_workers"] == 1);
            let shown = server.get(&format!("/invocations/{id}")).expect(200).json();
            assert_eq!(shown["report"]["process"], json!({ "kind": "reused", "before": before }), "{}", server.log());
            let logs = server.get(&format!("/invocations/{id}/logs?format=raw")).expect(200).text();
            let lines: Vec<String> = logs.lines().map(str::to_owned).collect();
            assert!(!lines.is_empty(), "{args}");
            let same = first.get_or_insert_with(|| lines.clone());
            assert_eq!(*same, lines, "{args}, after {before}");
        }
    }
}
