//! What a run comes to, for its report: times, attempts and output of every instance.

use super::{Attempt, InstanceState, State, StepScheduler, StepState, of_instance, parts};
use crate::clock::{Clock, Scale};
use monohull_domain::Domain;
use monohull_report::failure::FailureKind;
use monohull_report::{Failure, InstanceReport, MappedFiles, Point, RunReport, Status, StepReport};

impl StepScheduler {
    /// The report of a run.
    pub(crate) fn report(&self, domain: &Domain, clock: &Clock, error: Option<Failure>) -> RunReport {
        let modules = domain.modules().into_iter().filter(|module| module.failure.is_none());
        let modules = modules.map(|module| module.name.to_owned()).collect();
        let mut report = self.make_report(clock, domain.isolation(), domain.first_entry(), modules, error);
        report.mapped_files = domain.mapped().map(|mapped| MappedFiles {
            mappings: mapped.mappings,
            bytes: mapped.bytes,
            faults: mapped.faults,
            filled_at_once: mapped.at_once,
        });
        report.not_suspended = domain.suspension_refused();
        report.published = domain.published();
        report.told_to_end = self.lock().told_to_end || domain.is_told_to_end();
        report.sent = domain.sent();
        for (token, start) in domain.starts() {
            let (step, index) = parts(token);
            let instance = report.steps.get_mut(step).and_then(|step| step.instances.get_mut(index as usize));
            instance.into_iter().for_each(|instance| instance.start = Some(Box::new(start.clone())));
        }
        report.note_start();
        let scale = clock.scale();
        let state = self.lock();
        report.timeline = state.timeline.with(&scale, domain).points();
        let gone_on = state.gone_on.map(|at_ns| Point { name: "gone-on".to_owned(), at_ns });
        report.timeline.extend(gone_on);
        report
    }

    /// The report of a run without its domain.
    pub(crate) fn bare_report(&self, clock: &Clock, isolation: &str, error: Failure) -> RunReport {
        self.make_report(clock, isolation, 0, Vec::new(), Some(error))
    }

    fn make_report(
        &self,
        clock: &Clock,
        isolation: &str,
        first_entry: u64,
        modules: Vec<String>,
        error: Option<Failure>,
    ) -> RunReport {
        let state = self.lock();
        let scale = clock.scale();
        let steps = state.steps.iter().enumerate();
        let mut steps: Vec<_> = steps.map(|(step, s)| s.report(&state, step, &scale)).collect();
        for (&(step, index), failed) in &state.failed {
            if let Some(instance) = steps[step].instances.get_mut(index as usize) {
                instance.failed_attempts.clone_from(failed);
            }
        }
        RunReport {
            workflow: state.plan.name.clone(),
            status: if error.is_some() { Status::Failed } else { Status::Done },
            isolation: isolation.to_owned(),
            isolation_note: None,
            cold_start_us: state.cold_start(&scale, first_entry),
            duration_us: state.taken_until(&scale, monohull_domain::host_time::ticks()),
            steps,
            modules,
            output: Default::default(),
            unread: None,
            error,
            timeline: Vec::new(),
            mapped_files: None,
            lines_delayed: 0,
            suspended: state.suspended.if_any(),
            not_suspended: None,
            published: Default::default(),
            told_to_end: false,
            sent: Vec::new(),
            sandbox: None,
            process: None,
            start: None,
        }
    }
}

impl StepState {
    fn report(&self, run: &State, step: usize, scale: &Scale) -> StepReport {
        let plan = &run.plan;
        let instances = (0..).zip(&self.instances).map(|(i, s)| s.report(run, step, i, scale));
        let instances: Vec<_> = instances.collect();
        let status = if plan.steps[step].handles.is_some() {
            // What it did not do well it has told the askers.
            if self.started { Status::Done } else { Status::Cancelled }
        } else if instances.iter().any(|i| i.status == Status::Failed) {
            Status::Failed
        } else if self.started && instances.iter().all(|i| i.status == Status::Done) {
            Status::Done
        } else {
            Status::Cancelled
        };
        StepReport {
            name: self.labels.step.clone(),
            function: self.labels.function.clone(),
            status,
            attempts: self.instances.iter().map(|i| i.attempts).max().unwrap_or(0),
            handled: self.handled,
            instances,
        }
    }
}

impl InstanceState {
    fn report(&self, run: &State, step: usize, index: u32, scale: &Scale) -> InstanceReport {
        let mut report = InstanceReport {
            index,
            start_us: 0,
            load_us: 0,
            run_us: 0,
            park_us: 0,
            bytes_in: 0,
            bytes_out: 0,
            attempts: self.attempts,
            status: Status::Cancelled,
            error: None,
            failed_attempts: Vec::new(),
            lines: self.lines.clone(),
            start: None,
        };
        let Some(Attempt { usage, result, .. }) = &self.last else { return report };
        report.start_us = match (self.before, usage.started) {
            (Some(spent), _) => spent.start_us,
            (None, 0) => 0,
            (None, started) => run.taken_until(scale, started),
        };
        report.load_us = self.before.map_or(0, |spent| spent.load_us) + scale.us(usage.load);
        report.run_us = self.before.map_or(0, |spent| spent.run_us) + scale.us(usage.run);
        report.park_us = self.before.map_or(0, |spent| spent.park_us) + scale.us(usage.park);
        report.bytes_in = usage.bytes_in;
        report.bytes_out = usage.bytes_out;
        match result {
            Ok(()) => report.status = Status::Done,
            Err(failure) if failure.kind == FailureKind::Cancelled => {}
            Err(failure) => {
                report.status = Status::Failed;
                report.error = Some(Box::new(of_instance(&run.plan, step, index, (**failure).clone())));
            }
        }
        report
    }
}
