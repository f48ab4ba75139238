//! Functions on the host's network: what they may reach, what they may not, and that sockets behave as std's do.

#[path = "../support/mod.rs"]
mod support;

mod allowed;
mod http;
mod https;
mod refused;
mod tour;

use monohull_visor::engine::RunOptions;
use monohull_visor::report::{Progress, RunReport, Stream};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A workflow in which the probe asks these questions.
fn probe(network: Value, questions: Value) -> Value {
    json!({
        "name": "probe",
        "functions": { "probe": { "image": "network-probe" } },
        "steps": [{ "name": "probe", "function": "probe", "args": { "questions": questions } }],
        "network": network,
        // A peer that failed must not keep the function waiting.
        "limits": { "timeout": "600s" },
    })
}

/// The answers.
fn ask(network: Value, questions: Value) -> Vec<String> {
    lines(&support::run(&probe(network, questions)))
}

/// What the first instance printed.
fn lines(report: &RunReport) -> Vec<String> {
    assert!(report.error.is_none(), "{:#?}", report.error);
    report.steps[0].instances[0].lines.iter().map(|line| line.text.clone()).collect()
}

/// Runs a workflow while the test reads its output.
fn beside<T>(document: &Value, work: impl FnOnce(&Receiver<String>) -> T) -> (RunReport, T) {
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        let run =
            scope.spawn(|| support::run_with(document, &RunOptions::default(), Arc::new(Ear(Mutex::new(sender)))));
        let done = work(&receiver);
        (run.join().expect("the run does not panic"), done)
    })
}

struct Ear(Mutex<Sender<String>>);

impl Progress for Ear {
    fn line(&self, _: &str, _: u32, _: Stream, text: &str) {
        // The test may have read enough.
        let _ = self.0.lock().expect("the sender").send(text.to_owned());
    }
}
