//! Assigning jobs, and receiving the messages of their workers.

use monohull_visor::report::RunReport;
use monohull_visor::worker::{Data, Death, Job, Message, Notice, Running, Spawner};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Longer than anything here takes: only a test that would hang runs into it.
const PATIENCE: Duration = Duration::from_secs(120);

/// All messages of a workflow.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Everything but the answer and the death.
    pub(crate) notices: Vec<Notice>,
    pub(crate) report: Option<Box<RunReport>>,
    pub(crate) outputs: Vec<(String, Data)>,
    pub(crate) death: Option<Death>,
}

impl Received {
    /// How its process ended.
    pub(crate) fn death(&self) -> &Death {
        self.death.as_ref().expect("the process has died")
    }

    /// Its report; that it has none is a failure.
    #[track_caller]
    pub(crate) fn report(&self) -> &RunReport {
        self.report.as_ref().unwrap_or_else(|| panic!("no report: {:?}", self.death))
    }
}

/// The next message.
#[track_caller]
pub(crate) fn next(running: &mut Running) -> Option<Message> {
    assert!(running.wait(Some(PATIENCE)).expect("waiting"), "no message of the workflow arrives");
    running.next_message().expect("a readable channel")
}

/// Receives messages until the process has died.
#[track_caller]
pub(crate) fn listen(mut running: Running) -> Received {
    let mut received = Received::default();
    loop {
        match next(&mut running) {
            None | Some(Message::Stderr) => {}
            Some(
                Message::Suspended(_)
                | Message::Captured(_)
                | Message::WentOn(_)
                | Message::EventsTaken
                | Message::Unfit { .. }
                | Message::Clean,
            ) => {
                panic!("that was not asked for")
            }
            Some(Message::Ended { report, outputs }) => {
                received.report = Some(report);
                received.outputs = outputs;
            }
            Some(Message::Done { report, outputs }) => {
                received.report = Some(Box::new(report.unpack().expect("a report")));
                received.outputs = outputs;
            }
            Some(Message::Died(death)) => {
                received.death = Some(death);
                assert!(running.next_message().expect("a readable channel").is_none(), "nothing comes after a death");
                return received;
            }
            Some(Message::Notice(notice)) => received.notices.push(notice),
        }
    }
}

/// A job of this document, with all notices.
pub(crate) fn job(document: &Value, inputs: Vec<(String, Data)>) -> Job {
    let mut job = Job::new(Arc::new(crate::support::ready(document)), inputs);
    job.lines = true;
    job.progress = true;
    job
}

/// Runs a job in a new process.
#[track_caller]
pub(crate) fn run(spawner: &Spawner, job: &Job) -> Received {
    listen(spawner.idle_worker().expect("an idle worker").assign(job).expect("a job is taken"))
}

/// A workflow of one step.
pub(crate) fn one_step(image: &str, args: Value) -> Value {
    json!({
        "name": image,
        "functions": { "f": { "image": image } },
        "steps": [{ "name": "step", "function": "f", "args": args }],
    })
}

/// A workflow that does not end by itself.
pub(crate) fn endless() -> Value {
    one_step("misbehave", json!({ "how": "endless-loop" }))
}
