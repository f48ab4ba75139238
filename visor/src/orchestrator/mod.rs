//! A plan becomes steps, instances, retries and deadlines.

pub mod options;

pub use options::{IsolationWish, RunOptions};

use crate::report::{Progress, RunReport};
use crate::workflow::Plan;

/// What the host cannot do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HostError(String);

/// Runs a workflow to its end.
pub fn run(_plan: &Plan, _options: &RunOptions, _progress: &dyn Progress) -> Result<RunReport, HostError> {
    Err(HostError("this build of Monohull cannot run workflows yet".to_owned()))
}
