//! Our side of a cold start: a supervisor in a process of its own, whose spawner is forked before anything else happens.
//!
//! ```text
//! idle worker made │ request: job given … first instruction … answer … process reaped │ idle worker made │ …
//!            └────────────────────── what is measured ─────────────────────────┘
//! ```

use crate::harness::Result;
use crate::ours::nothing_document;
use monohull_visor::engine::{IsolationWish, Ready};
use monohull_visor::worker::{Job, Message, Running, Settings, Spawner};
use monohull_visor::workflow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What of a cold start is wanted.
pub(crate) fn measure(what: &str, count: usize) -> Result<f64> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let settings = Settings::usual(IsolationWish::Auto).map_err(|error| wrong(&error))?;
    let spawner = Spawner::start(&settings).map_err(|error| wrong(&error))?;
    let document = nothing_document(1).to_string();
    let plan = workflow::load_str(Path::new("bench.json"), &document).map_err(|error| wrong(&error))?;
    let ready = Arc::new(Ready::new(plan).map_err(|error| wrong(&error))?);
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let worker = spawner.idle_worker().map_err(|error| wrong(&error))?;
        let made = start.elapsed();
        // The new process goes to sleep before its job comes.
        std::thread::yield_now();
        let job = Job::new(ready.clone(), Vec::new());
        let start = Instant::now();
        let mut running = worker.assign(&job).map_err(|error| wrong(&error))?;
        let first = listen(&mut running, |message| match message {
            Message::Ended { report, .. } => {
                let at = report.timeline.iter().find(|point| point.name == "first-instruction");
                at.map(|point| point.at_ns.saturating_sub(job.requested_ns) as f64)
            }
            _ => None,
        })?;
        let answered = start.elapsed();
        listen(&mut running, |message| matches!(message, Message::Died(_)).then_some(()))?;
        let reaped = start.elapsed();
        samples.push(match what {
            "first-instruction" => first,
            "answered" => answered.as_nanos() as f64,
            "reaped" => reaped.as_nanos() as f64,
            "idle-worker" => made.as_nanos() as f64,
            _ => return Err(format!("unknown measurement {what}")),
        });
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples[samples.len() / 2])
}

/// Waits for a message that gives something.
fn listen<T>(running: &mut Running, mut wanted: impl FnMut(&Message) -> Option<T>) -> Result<T> {
    loop {
        running.wait(None).map_err(|error| error.to_string())?;
        while let Some(message) = running.next_message().map_err(|error| error.to_string())? {
            if let Some(found) = wanted(&message) {
                return Ok(found);
            }
            if let Message::Died(death) = message {
                return Err(death.failure().message);
            }
        }
    }
}
