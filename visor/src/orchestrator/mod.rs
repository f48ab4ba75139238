//! A plan becomes steps, instances, retries and deadlines.
//!
//! ```text
//! Plan ─ Ready::new: images read, verified, sealed ─▶ Ready ─ run ─▶ Domain, input slots ─▶ Conductor ─▶ RunReport
//!                    (once; never on the cold path)                                          │ Ended, Timer
//!                                                                                            ▼
//!                                                                     start, retry, cancel, or run it all again
//! ```
#![deny(unsafe_code)]

mod clock;
mod conductor;
pub mod options;
#[allow(unsafe_code, reason = "inputs and outputs are copied straight to and from slot buffers")]
mod slots;

pub use options::{IsolationWish, RunOptions, modules_folder};

use crate::domain::failure::{Blame, FailureKind};
use crate::domain::image::map::{LoadError, LoadedImage};
use crate::domain::instance::Spec;
use crate::domain::{Domain, DomainError, Options, Sink};
use crate::report::{Failure, Progress, RunReport, Status, Stream};
use crate::workflow::Plan;
use crate::workflow::plan::Separation;
use clock::Clock;
use conductor::{Conductor, Outcome};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What the host cannot do, so that no run takes place.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// there is no folder with the libos modules; `cargo xtask build` makes one
    #[error("there is no folder with the libos modules; `cargo xtask build` makes one")]
    NoModules,
    /// the host cannot hold a workflow domain: {0}
    #[error("the host cannot hold a workflow domain: {0}")]
    Domain(#[from] DomainError),
}

/// A plan with its images verified and in memory: what can be run, any number of times.
pub struct Ready {
    plan: Arc<Plan>,
    images: Vec<Arc<LoadedImage>>,
    carriers: usize,
}

impl Ready {
    /// Reads and verifies the images of a plan; the same file is read once.
    pub fn new(plan: Plan) -> Result<Ready, LoadError> {
        let mut known: HashMap<PathBuf, Arc<LoadedImage>> = HashMap::new();
        let mut images = Vec::new();
        for function in &plan.functions {
            let image = match known.get(&function.image) {
                Some(image) => image.clone(),
                None => Arc::new(LoadedImage::open(&function.name, &function.image)?),
            };
            known.insert(function.image.clone(), image.clone());
            images.push(image);
        }
        // Asking for the host's cores reads files of its control groups: not something for the cold path.
        let carriers = plan.limits.carriers.unwrap_or_else(cores);
        Ok(Ready { plan: Arc::new(plan), images, carriers })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Runs the workflow to its end, in a domain of its own. Only one domain can exist per process at a time.
    pub fn run(&self, options: &RunOptions, progress: Arc<dyn Progress>) -> Result<RunReport, HostError> {
        let clock = Clock::start();
        let modules = options.modules.clone().or_else(modules_folder).ok_or(HostError::NoModules)?;
        let mut conductor = Conductor::new(self.plan.clone(), self.images.clone(), progress.clone());
        loop {
            let domain = Domain::new(Options {
                carriers: self.carriers,
                modules: modules.clone(),
                keys: options.isolation.keys(),
                separate: self.plan.separation == Separation::Function,
                load_all: options.load_all,
                sink: Some(Arc::new(Lines(progress.clone()))),
            })?;
            if let Err(failure) = slots::fill(&domain, &self.plan, options) {
                return Ok(conductor.report(&domain, &clock, Some(*failure)));
            }
            domain.run(conductor.driver())?;
            match conductor.outcome() {
                Outcome::Done => {
                    let mut report = conductor.report(&domain, &clock, None);
                    match slots::collect(&domain, &self.plan, options) {
                        Ok(output) => report.output = output,
                        Err(failure) => {
                            report.status = Status::Failed;
                            report.error = Some(*failure);
                        }
                    }
                    return Ok(report);
                }
                Outcome::Failed(failure) => return Ok(conductor.report(&domain, &clock, Some(failure))),
                // A new domain: nothing of the failed run is left in it.
                Outcome::Again(pause) => {
                    drop(domain);
                    std::thread::sleep(pause);
                }
            }
        }
    }
}

/// Prepares and runs a plan once. An image that cannot be loaded is the workflow's failure, not the host's.
pub fn run(plan: &Plan, options: &RunOptions, progress: Arc<dyn Progress>) -> Result<RunReport, HostError> {
    match Ready::new(plan.clone()) {
        Ok(ready) => ready.run(options, progress),
        Err(error) => {
            let blame = match &error {
                LoadError::Read { .. } => Blame::Workflow,
                LoadError::Refused { .. } => Blame::Function,
                LoadError::Seal { .. } => Blame::Host,
            };
            let clock = Clock::start();
            let conductor = Conductor::new(Arc::new(plan.clone()), Vec::new(), progress);
            Ok(conductor.bare_report(&clock, Failure::of_workflow(FailureKind::Load, blame, error.to_string())))
        }
    }
}

/// Passes lines of output to whoever watches the run.
struct Lines(Arc<dyn Progress>);

impl Sink for Lines {
    fn line(&self, spec: &Spec, stream: u32, text: &str) {
        let stream = if stream == 2 { Stream::Stderr } else { Stream::Stdout };
        self.0.line(&spec.labels.step, spec.index, stream, text);
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
