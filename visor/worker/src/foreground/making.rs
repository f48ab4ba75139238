//! Makes the templates of a workflow, from which its later runs start.

use super::super::cgroup::{CgroupMode, Membership};
use super::super::{Job, JobTemplate, Message, ProcessError, Running, Settings, Template};
use super::Forked;
use monohull_domain::host_time::monotonic_ns;
use monohull_engine::{Delay, HostError, Latest, Ready, RunOptions, modules_folder};
use monohull_report::Failure;
use monohull_report::failure::{Blame, FailureKind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time in which its process reports by itself that its function was not ready.
const GRACE: Duration = Duration::from_millis(500);

/// Why no template was made.
#[derive(Debug, thiserror::Error)]
pub enum NotMade {
    /// The function is such that there can be none.
    #[error("{0}")]
    Never(String),
    /// The host lacked something.
    #[error(transparent)]
    Now(#[from] ProcessError),
    /// It was not ready in time, which may be the host's fault.
    #[error("the function was not ready within {0:?}")]
    Late(Duration),
    /// Its process has ended.
    #[error("{0}")]
    Died(String),
}

/// Runs the instance of a workflow that begins in this cell, alone and without inputs, in a process of its own, to where its function is ready: the
/// template, if it has at most so many bytes and is there within this time. The calling process must have one thread and no children.
pub fn make_template(
    (workflow, cell): (&Arc<Ready>, usize),
    options: &RunOptions,
    cgroup: CgroupMode,
    most: u64,
    within: Duration,
) -> Result<Template, NotMade> {
    let groups = Membership::set_up(cgroup)?;
    let made = make_in(&groups, (workflow, cell), options, most, within);
    groups.end();
    made
}

fn make_in(
    groups: &Membership,
    (workflow, cell): (&Arc<Ready>, usize),
    options: &RunOptions,
    most: u64,
    within: Duration,
) -> Result<Template, NotMade> {
    let modules = options.modules.clone().or_else(modules_folder).ok_or(HostError::NoModules);
    let keys = options.isolation.decide().keys;
    let modules = modules.map_err(ProcessError::from)?;
    let settings = Settings { modules, keys, preload: Vec::new(), groups: groups.clone() };
    let Forked { worker, spawner: _spawner } = Forked::new(&settings, groups)?;
    let mut job = Job::new(workflow.clone(), Vec::new());
    job.template = JobTemplate::Make(cell);
    job.latest = Some(Latest { at_ns: monotonic_ns() + within.as_nanos() as u64, delay: Delay::Queue });
    let mut running = worker.wait()?.assign(&job)?;
    let late = || NotMade::Late(within);
    let not_ready = || "it was not ready".to_owned();
    let latest = Instant::now() + within + GRACE;
    loop {
        match next(&mut running, latest)?.ok_or_else(late)? {
            Message::Suspended(made) if made.bytes > most => {
                let why = format!("it has {} bytes when it is ready, and at most {most} are kept", made.bytes);
                return Err(NotMade::Never(why));
            }
            Message::Suspended(made) => {
                let template = Template::kept(workflow, cell, made.continuation);
                return template.map_err(|error| NotMade::Now(ProcessError::Refused(error.to_string())));
            }
            Message::Ended { report, .. } => {
                return Err(match report.error {
                    Some(Failure { kind: FailureKind::Timeout, .. }) if Instant::now() >= latest - GRACE => late(),
                    Some(failure) if failure.blame == Blame::Host => NotMade::Died(failure.message),
                    failure => NotMade::Never(failure.map_or_else(not_ready, |failure| failure.message)),
                });
            }
            Message::Done { .. } => return Err(NotMade::Never(not_ready())),
            Message::Died(death) => return Err(NotMade::Died(death.failure().message)),
            _ => {}
        }
    }
}

/// The next message, if there is one in time.
fn next(running: &mut Running, latest: Instant) -> Result<Option<Message>, ProcessError> {
    loop {
        // What has come in time counts, however late this process looks at it.
        if let Some(message) = running.next_message()? {
            return Ok(Some(message));
        }
        let left = latest.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        running.wait(Some(left))?;
    }
}
