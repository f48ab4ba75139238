//! Makes templates of functions, and gives them to invocations.
//!
//! The first invocation in which an instance says that it is ready starts a process besides, which makes the template of that instance: without
//! inputs, and for no invocation. Until it is there, and whenever it is not, instances start from their image. That process is one of those that may
//! run, and ends when its workflow has another version, or when calls wait for its place.

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
use monohull_worker::{Job, JobTemplate, Message, OF_THE_HOST, Template, template_instances};

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
    /// The templates for an invocation of a workflow, as far as there are any.
    pub(crate) fn templates_for(&self, workflow: &Arc<Ready>) -> JobTemplate {
        self.templates.made(workflow).into()
    }

    /// Completes what a report says of the starts of instances, and has templates made that are not there yet.
    pub(crate) fn note_starts(self: &Arc<Self>, workflow: &Arc<Ready>, report: &mut Report) {
        // One that is packed says nothing of a start.
        let Some(report) = report.whole_mut().filter(|report| report.start.is_some()) else { return };
        let may_have = template_instances(workflow);
        let mut is_told = false;
        for (step, of_step) in report.steps.iter_mut().enumerate() {
            for instance in &mut of_step.instances {
                let Some(start) = instance.start.as_deref_mut() else { continue };
                match may_have.iter().position(|of| *of == (step, instance.index)) {
                    Some(cell) => self.note_start((workflow, cell), start),
                    None if !workflow.is_self_contained() && !is_told => {
                        start.no_template = Some(OF_THE_HOST.to_owned());
                        is_told = true;
                    }
                    None => instance.start = None,
                }
            }
        }
        report.note_start();
    }

    fn note_start(self: &Arc<Self>, of: (&Arc<Ready>, usize), start: &mut StartReport) {
        if start.kind == StartKind::Template {
            return;
        }
        // The reason is this server's, and not what a process says.
        let unfit = start.no_template.take();
        match self.templates.find(of) {
            Found::Template if unfit.is_some() => {
                let why = "it does not fit";
                self.drop_template(of, why);
                start.no_template = Some(why.to_owned());
            }
            Found::Refused(why) => start.no_template = Some(why.to_string()),
            Found::Nothing
                if !self.is_ending()
                    && self.has_place()
                    && self.registry.is_current(of.0)
                    && self.templates.begin(of) =>
            {
                tokio::spawn(self.clone().make_template(of.0.clone(), of.1));
            }
            _ => {}
        }
    }

    /// The template of the instance with which the workflow begins cannot be used, or what came with it is wrong. It is not used again, and others are
    /// made anew.
    pub(crate) fn drop_templates(&self, workflow: &Arc<Ready>, why: &str) {
        for template in self.templates.made(workflow) {
            match template.cell() {
                0 => self.drop_template((workflow, 0), why),
                cell => self.templates.forget((workflow, cell)),
            }
        }
    }

    fn drop_template(&self, of: (&Arc<Ready>, usize), why: &str) {
        tracing::error!(workflow = of.0.plan().name, cell = of.1, why, "a template cannot be used");
        self.templates.refuse(of, why);
    }

    async fn make_template(self: Arc<Self>, workflow: Arc<Ready>, cell: usize) {
        let name = workflow.plan().name.clone();
        let of = (&workflow, cell);
        let made = tokio::select! {
            biased;
            made = self.take_place(of) => made,
            () = self.is_not_needed(&workflow) => Err(NotMade::Now("it is not needed any more".to_owned())),
        };
        match made {
            Ok(template) => {
                tracing::info!(workflow = name, cell, bytes = template.bytes(), "a template has been made");
                self.templates.put(of, template);
            }
            Err(NotMade::Never(why)) => {
                let why = self.secrets.redactor().text(why);
                tracing::info!(workflow = name, cell, why, "there is no template");
                self.templates.refuse(of, &why);
            }
            Err(NotMade::Later) => {
                tracing::info!(workflow = name, "a template is made later: calls wait");
                self.templates.put_off(of);
            }
            Err(NotMade::Now(why)) => {
                tracing::warn!(workflow = name, why, "a template could not be made");
                self.templates.forget(of);
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
    async fn take_place(&self, of: (&Arc<Ready>, usize)) -> Result<Template, NotMade> {
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
            made = self.try_template(of) => made,
            () = is_wanted => Err(NotMade::Later),
        }
    }

    /// Makes one. Dropping the future ends the process.
    async fn try_template(&self, (workflow, cell): (&Arc<Ready>, usize)) -> Result<Template, NotMade> {
        let latest = Instant::now() + READY_WITHIN;
        let late = |_| NotMade::Never(format!("it was not ready within {READY_WITHIN:?}"));
        let refused = |refusal: crate::http::error::ApiError| NotMade::Now(refusal.error.message);
        let worker = self.workers.idle_worker();
        let worker = timeout_at(latest, worker).await.map_err(|_| NotMade::Now("no process was available".into()))?;
        let job = Job {
            latest: Some(Latest { at_ns: monotonic_ns() + READY_WITHIN.as_nanos() as u64, delay: Delay::Queue }),
            template: JobTemplate::Make(cell),
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
                    let template = Template::of(workflow, cell, &made.continuation, limit);
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
