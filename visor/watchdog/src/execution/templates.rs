//! Makes templates of functions, and gives them to invocations.
//!
//! The first invocation whose instance says that it is ready starts a process besides, which makes the template: without inputs, and
//! for no invocation. Until it is there, and whenever it is not, instances start from their image. That process is one of those that may run, and ends
//! when its workflow has another version, or when calls wait for its place.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::invocations::report::Report;
use crate::invocations::templates::Found;
use crate::invocations::workers::{Run, failed};
use crate::service::Watchdog;
use monohull_domain::host_time::monotonic_ns;
use monohull_engine::{Delay, Latest, Ready};
use monohull_report::{StartKind, StartReport};
use monohull_worker::{Job, JobTemplate, Message, Template, may_have_template};

/// How long a function may take until it is ready. One that takes longer has no template.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// The time in which its process reports that by itself.
const GRACE: Duration = Duration::from_millis(500);

/// How often is looked whether a template that is being made is still needed.
const LOOK: Duration = Duration::from_millis(250);

/// How long a process that makes one may go on while calls wait, unless it has the only place. Most functions are ready before that.
const LEAVE: Duration = Duration::from_millis(250);

/// How often is looked whether calls wait.
const GLANCE: Duration = Duration::from_millis(20);

/// Why no template was made.
enum NotMade {
    /// Calls wait for its place.
    Later,
    /// The function is such that there can be none.
    Never(String),
    /// The host lacked something.
    Now(String),
}

impl Watchdog {
    /// The template for an invocation of a workflow, if there is one.
    pub(crate) fn template_for(&self, workflow: &Arc<Ready>) -> JobTemplate {
        match self.templates.find(workflow) {
            Found::Template(template) => JobTemplate::From(template),
            Found::Nothing | Found::Making | Found::Refused(_) => JobTemplate::No,
        }
    }

    /// Completes what a report says of the start, and has a template made if there is none.
    pub(crate) fn note_start(self: &Arc<Self>, workflow: &Arc<Ready>, report: &mut Report) {
        // One that is packed says nothing of a start.
        let Some(report) = report.whole_mut() else { return };
        let Some(start) = &mut report.start else { return };
        if !may_have_template(workflow) {
            report.start = None;
            return;
        }
        if start.kind == StartKind::Template {
            return;
        }
        // The reason is this server's, and not what a process says.
        *start = StartReport { kind: StartKind::Main, no_template: None };
        match self.templates.find(workflow) {
            Found::Refused(why) => start.no_template = Some(why.to_string()),
            Found::Nothing
                if !self.is_ending()
                    && self.has_place()
                    && self.registry.is_current(workflow)
                    && self.templates.begin(workflow) =>
            {
                tokio::spawn(self.clone().make_template(workflow.clone()));
            }
            _ => {}
        }
    }

    /// A template could not be used: what came with it is wrong. It is not used again.
    pub(crate) fn drop_template(&self, workflow: &Arc<Ready>, why: &str) {
        tracing::error!(workflow = workflow.plan().name, why, "a template cannot be used");
        self.templates.refuse(workflow, why);
    }

    async fn make_template(self: Arc<Self>, workflow: Arc<Ready>) {
        let name = workflow.plan().name.clone();
        let made = tokio::select! {
            biased;
            made = self.take_place(&workflow) => made,
            () = self.is_not_needed(&workflow) => Err(NotMade::Now("it is not needed any more".to_owned())),
        };
        match made {
            Ok(template) => {
                tracing::info!(workflow = name, bytes = template.bytes(), "a template has been made");
                self.templates.put(&workflow, template);
            }
            Err(NotMade::Never(why)) => {
                let why = self.secrets.redactor().text(why);
                tracing::info!(workflow = name, why, "there is no template");
                self.templates.refuse(&workflow, &why);
            }
            Err(NotMade::Later) => {
                tracing::info!(workflow = name, "a template is made later: calls wait");
                self.templates.put_off(&workflow);
            }
            Err(NotMade::Now(why)) => {
                tracing::warn!(workflow = name, why, "a template could not be made");
                self.templates.forget(&workflow);
            }
        }
    }

    /// Returns when a workflow has another version, or is gone, or when the server ends.
    async fn is_not_needed(&self, workflow: &Arc<Ready>) {
        while !self.is_ending() && self.registry.is_current(workflow) {
            sleep(LOOK).await;
        }
    }

    /// Whether there is a place for a process that makes one: the only one is that of the calls, if any wait.
    fn has_place(&self) -> bool {
        self.admission.concurrency() > 1 || self.admission.load().1 == 0
    }

    /// Makes one in a place of those that may run, until calls wait for that.
    async fn take_place(&self, workflow: &Arc<Ready>) -> Result<Template, NotMade> {
        let _permit = self.admission.permit().await;
        let is_wanted = async {
            if self.admission.concurrency() > 1 {
                sleep(LEAVE).await;
            }
            while self.admission.load().1 == 0 {
                sleep(GLANCE).await;
            }
        };
        tokio::select! {
            biased;
            made = self.try_template(workflow) => made,
            () = is_wanted => Err(NotMade::Later),
        }
    }

    /// Makes one. Dropping the future ends the process.
    async fn try_template(&self, workflow: &Arc<Ready>) -> Result<Template, NotMade> {
        let latest = Instant::now() + READY_WITHIN;
        let late = |_| NotMade::Never(format!("it was not ready within {READY_WITHIN:?}"));
        let refused = |refusal: crate::http::error::ApiError| NotMade::Now(refusal.error.message);
        let worker = self.workers.idle_worker();
        let worker = timeout_at(latest, worker).await.map_err(|_| NotMade::Now("no process was available".into()))?;
        let job = Job {
            latest: Some(Latest { at_ns: monotonic_ns() + READY_WITHIN.as_nanos() as u64, delay: Delay::Queue }),
            template: JobTemplate::Make,
            ..Job::new(workflow.clone(), Vec::new())
        };
        let mut run = Run::start(worker.map_err(refused)?, &job).map_err(|error| refused(failed(&error)))?;
        loop {
            match timeout_at(latest + GRACE, run.next()).await.map_err(late)?.map_err(refused)? {
                Message::Suspended(made) => {
                    let limit = self.templates.limit();
                    if made.bytes > limit {
                        let why = format!("it has {} bytes when it is ready, and at most {limit} are kept", made.bytes);
                        return Err(NotMade::Never(why));
                    }
                    let template = Template::of(workflow, &made.continuation, limit);
                    return template.map_err(|error| NotMade::Now(error.to_string()));
                }
                Message::Ended { report, .. } => {
                    let why = report.error.map_or_else(|| "it was not ready".to_owned(), |failure| failure.message);
                    return Err(NotMade::Never(why));
                }
                Message::Done { .. } => return Err(NotMade::Never("it was not ready".to_owned())),
                Message::Died(death) => return Err(NotMade::Never(death.failure().message)),
                _ => {}
            }
        }
    }
}
