//! The end of an invocation: what is recorded, counted and logged of it.

use crate::http::content::Content;
use crate::http::error::ApiError;
use crate::invocations::invocation::Invocation;
use crate::invocations::record::End;
use crate::invocations::report::Report;
use crate::service::Watchdog;
use monohull_report::{self as report, RunReport};
use monohull_worker::Data;

/// Bytes of an error in the log.
pub(super) const LOGGED_MAX: usize = 4 << 10;

/// How a run ended, if it was not given up.
pub(crate) type Ended = (Option<Report>, Result<Vec<(String, Content)>, ApiError>);

impl Watchdog {
    /// The result of a run. A compromised process can only misreport its own work.
    pub(super) fn ended(&self, invocation: &Invocation, mut report: RunReport, outputs: Vec<(String, Data)>) -> Ended {
        for point in std::mem::take(&mut report.timeline) {
            invocation.point_at(point.name, point.at_ns);
        }
        let redactor = self.secrets.redactor();
        // Most lines arrived one by one, in order, and are stored apart; the report has those that found no room.
        for step in &mut report.steps {
            for instance in &mut step.instances {
                for line in std::mem::take(&mut instance.lines) {
                    invocation.line(step.name.clone(), instance.index, line.stream, redactor.text(line.text));
                }
            }
        }
        let result = match (&report.error, report.status) {
            (Some(failure), _) => Err(ApiError::failed(failure)),
            (None, report::Status::Done) => contents(outputs),
            (None, status) => {
                Err(ApiError::monohull(format!("the workflow ended as {}, without a reason", status.name())))
            }
        };
        (Some(report.into()), result)
    }

    /// The name an invocation is counted under: none but a registered workflow's, so that clients cannot make up series that
    /// stay for ever.
    pub(crate) fn counted_as<'n>(&self, name: &'n str) -> &'n str {
        if self.registry.knows_workflow(name) { name } else { "" }
    }

    /// Counts something of a workflow, by the name under which that is done.
    pub(crate) fn count_of(&self, workflow: &str, count: impl FnOnce(&str)) {
        let name = self.counted_as(workflow);
        count(name);
        // It may have been removed, and forgotten, before this was counted.
        if self.counted_as(name) != name {
            self.metrics.forget(name);
        }
    }

    /// Counts and logs an invocation that ends like this.
    pub(crate) fn log_end(&self, invocation: &Invocation, end: &End) {
        self.count_of(&invocation.workflow, |name| self.metrics.ended(name, end));
        if !tracing::enabled!(tracing::Level::INFO) {
            return;
        }
        let points: Vec<String> =
            invocation.points_with(Some(end)).iter().map(|point| format!("{}={}", point.name, point.at_us)).collect();
        let kind = end.result.as_ref().err().map_or("", |refusal| &*refusal.error.kind);
        let error = end.result.as_ref().err().map_or("", |refusal| refusal.error.message.as_str());
        // A worker may have made them up.
        let [kind, error] = [kind, error].map(|text| &text[..text.floor_char_boundary(LOGGED_MAX)]);
        tracing::info!(
            id = invocation.id,
            call_id = invocation.call_id,
            trace_id = invocation.trace.id,
            span_id = invocation.trace.span,
            workflow = invocation.workflow,
            status = end.status.name(),
            kind,
            error,
            duration_us = end.duration_us,
            cold_start_us = end.report.as_ref().map(Report::cold_start_us),
            timeline_us = points.join(" "),
            "invocation"
        );
    }
}

/// What output slots held.
pub(super) fn contents(outputs: Vec<(String, Data)>) -> Result<Vec<(String, Content)>, ApiError> {
    let contents = outputs.into_iter().map(|(slot, data)| Ok((slot, Content::of_output(data)?)));
    let unreadable = |error: std::io::Error| ApiError::host(format!("an output slot cannot be read: {error}"));
    contents.collect::<std::io::Result<_>>().map_err(unreadable)
}
