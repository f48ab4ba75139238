//! An attack as the second of the invocations of a process that serves one after the other.
//!
//! ```text
//!   invocation without an attack ─▶ with it ─▶ if its process has survived, another one without, in which nothing is found
//! ```
//!
//! All three are of the same workflow. What is attacked is in the input; the first and the last have none.

use super::{Attack, Ran, image, visor};
use crate::places;
use crate::serve_support::{Server, StateFolder, eventually};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// What the workflow is called.
const WORKFLOW: &str = "attack";
/// The input of an invocation without an attack.
const NONE: &str = "none";

/// A server, and which image each of its functions has.
struct Again {
    server: Server,
    functions: HashMap<String, PathBuf>,
}

thread_local! {
    /// The servers of this test, by the visor and its isolation.
    static SERVERS: RefCell<HashMap<(PathBuf, String), Again>> = RefCell::default();
}

/// What comes of an attack.
pub(super) fn attack(attack: &Attack, isolation: &str, attempts: &str) -> Ran {
    let places = places::places(&attack.visor);
    with(&attack.visor, isolation, |again| {
        again.deploy(&attack.document(attempts));
        again.finds_nothing(&attack.name(), 0);
        let (ran, before) = again.invoke(places.as_bytes());
        assert_eq!(before, 1, "{}: {}", attack.name(), ran.output);
        if ran.report["status"] == "done" {
            again.finds_nothing(&attack.name(), 2);
        }
        ran
    })
}

/// The last of three equal invocations of this workflow. Those before have ended well.
pub(super) fn run(document: &Value) -> Ran {
    with(&visor(), "mpk", |again| {
        again.deploy(document);
        for number in 0..2 {
            let (ran, before) = again.invoke(b"");
            ran.is_done("an earlier invocation");
            assert_eq!(before, number, "{}", ran.output);
        }
        let (ran, before) = again.invoke(b"");
        assert_eq!(before, 2, "{}", ran.output);
        ran
    })
}

fn with<T>(visor: &Path, isolation: &str, act: impl FnOnce(&mut Again) -> T) -> T {
    SERVERS.with_borrow_mut(|servers| {
        let key = (visor.to_owned(), isolation.to_owned());
        act(servers.entry(key).or_insert_with(|| Again::start(visor, isolation)))
    })
}

impl Again {
    fn start(visor: &Path, isolation: &str) -> Again {
        let options = ["--prefork", "2", "--process", "reused", "--isolation", isolation];
        let server = Server::start_by(places::at_fixed_addresses(visor), &StateFolder::new(), &options, &[]);
        Again { server, functions: HashMap::new() }
    }

    /// Registers a workflow and its functions.
    fn deploy(&mut self, document: &Value) {
        let mut document = document.clone();
        for (name, function) in document["functions"].as_object_mut().expect("functions") {
            let path = PathBuf::from(function["image"].as_str().expect("a path"));
            function["image"] = format!("function:{name}").into();
            if self.functions.get(name) == Some(&path) {
                continue;
            }
            // One that is nowhere is that of the attacks, as another image.
            let bytes = std::fs::read(&path).unwrap_or_else(|_| {
                let mut bytes = std::fs::read(image("attacks")).expect("an image");
                bytes.push(0);
                bytes
            });
            let answer = self.server.ask("PUT", &format!("/functions/{name}"), &bytes);
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
            self.functions.insert(name.clone(), path);
        }
        document["name"] = WORKFLOW.into();
        self.server.put_workflow(&document);
    }

    /// An invocation without an attack, in a process that has served so many.
    #[track_caller]
    fn finds_nothing(&self, name: &str, served: u64) {
        let (ran, before) = self.invoke(NONE.as_bytes());
        ran.is_done(name);
        ran.got_nothing(name);
        assert_eq!((ran.printed("victim"), before), (vec!["intact"], served), "{name}: {}", ran.output);
    }

    /// What comes of an invocation, and how many its process had served before.
    fn invoke(&self, input: &[u8]) -> (Ran, u64) {
        let headers = [("Content-Type", "application/octet-stream")];
        let headers = if input.is_empty() { &[] } else { &headers[..] };
        let answer = self.server.ask_with("POST", &format!("/invoke/{WORKFLOW}"), headers, input);
        let location = format!("/invocations/{}", answer.headers["x-invocation-id"]);
        // What had its permit is kept then, or has ended.
        eventually("it is reset, or ends", || self.server.get("/healthz").json()["running"] == 0);
        let shown = self.server.get(&location).expect(200).json();
        let lines = self.server.get(&format!("{location}/logs?format=json")).expect(200).text();
        let mut report = shown["report"].clone();
        if report.is_null() {
            report = json!({ "status": shown["status"], "error": shown["error"] });
        }
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let steps = report["steps"].as_array_mut().into_iter().flatten();
            let Some(step) = steps.into_iter().find(|step| step["name"] == line["step"]) else { continue };
            let index = line["instance"].as_u64().expect("a number") as usize;
            let instance = &mut step["instances"][index];
            match instance["lines"].as_array_mut() {
                Some(lines) => lines.push(line),
                None => instance["lines"] = json!([line]),
            }
        }
        let status = ExitStatus::from_raw(if report["status"] == "done" { 0 } else { 1 << 8 });
        let before = report["process"]["before"].as_u64().unwrap_or(u64::MAX);
        let output = format!("{report:#}\n{lines}\n{}", self.server.log());
        (Ran { status, report, output }, before)
    }
}
