//! What is counted, in Prometheus' format. `docs/service.md` lists every name with its meaning.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::invocations::kept::Excess;
use crate::invocations::record::End;
use crate::invocations::report::Report;
use crate::invocations::status::Status as Ending;
use monohull_domain::hostcall::NAMES as MODULES;
use monohull_durable::{Status as DurableStatus, Tally};
use monohull_report::{RunReport, Status};
use monohull_worker::Summary;
use monohull_workflow::bounds::INSTANCES_MAX;

/// The `Content-Type` of what [`Metrics::encode`] gives.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// From what a no-op takes to what a client waits for.
const DURATIONS: [f64; 16] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];
/// From a prototype's best to a machine that is overloaded.
const COLD_STARTS: [f64; 12] =
    [0.000_05, 0.000_1, 0.000_15, 0.000_2, 0.000_3, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.1, 1.0];

/// With how many bytes one invocation is counted at most: a sum that a worker makes up does not turn the counter over.
const BYTES_MAX: u64 = 1 << 50;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByOutcome {
    workflow: String,
    outcome: Cow<'static, str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByWorkflow {
    workflow: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByRoute {
    route: &'static str,
    status: Code,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByModule {
    module: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByStatus {
    status: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByProcess {
    process: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByStart {
    start: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByMigration {
    outcome: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByOrigin {
    from: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByMode {
    mode: String,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ByDirection {
    direction: &'static str,
}

/// A status code as a label.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Code(u16);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        write!(encoder, "{}", self.0)
    }
}

/// Everything that is counted.
pub(crate) struct Metrics {
    registry: Registry,
    invocations: Family<ByOutcome, Counter>,
    durations: Family<ByWorkflow, Histogram>,
    cold_starts: Histogram,
    requests: Family<ByRoute, Counter>,
    faults: Family<ByKind, Counter>,
    modules: Family<ByModule, Counter>,
    bytes: Family<ByDirection, Counter>,
    isolation: Family<ByMode, Gauge>,
    cgroup: Family<ByMode, Gauge>,
    domains: Family<ByState, Gauge>,
    processes: Family<ByProcess, Counter>,
    starts: Family<ByStart, Counter>,
    templates: Gauge,
    template_bytes: Gauge,
    answer_bytes: Gauge,
    kept_bytes: Gauge,
    kept_limit: Gauge,
    kept_evictions: Family<ByReason, Counter>,
    /// Outcomes there have been, so that they can be found again for a workflow.
    outcomes: Mutex<BTreeSet<Cow<'static, str>>>,
    queued: Gauge,
    connections: Gauge,
    handshakes: Family<ByReason, Counter>,
    remembered: Gauge,
    remembered_bytes: Gauge,
    log_dropped: Gauge,
    state_in_place: Gauge,
    durable: Family<ByStatus, Gauge>,
    durable_due: Gauge,
    durable_bytes: Gauge,
    durable_schedules: Gauge,
    resumes: Counter,
    wakes: Family<ByOrigin, Counter>,
    residents: Gauge,
    resident_bytes: Gauge,
    evictions: Family<ByReason, Counter>,
    not_resumed: Family<ByReason, Counter>,
    migrations: Family<ByMigration, Counter>,
    known: Known,
}

/// Counters that an invocation counts in whatever it does, so that they need not be found each time.
#[derive(Default)]
struct Known {
    /// Of a new process, and of one that has served others.
    processes: [OnceLock<Counter>; 2],
    /// At the beginning, and at a template.
    starts: [OnceLock<Counter>; 2],
    /// In, and out.
    bytes: [OnceLock<Counter>; 2],
    /// In the order of their names' list.
    modules: [OnceLock<Counter>; MODULES.len()],
}

/// Values that are read when the metrics are requested.
pub(crate) struct Now {
    pub(crate) running: usize,
    pub(crate) queued: usize,
    pub(crate) idle_workers: usize,
    pub(crate) kept_workers: usize,
    /// Bytes of those, and the most that there may be.
    pub(crate) kept_memory: (u64, u64),
    /// How many processes stay with waiting invocations, and their bytes.
    pub(crate) residents: (u64, u64),
    /// How many templates, and their bytes.
    pub(crate) templates: (u64, u64),
    pub(crate) answer_bytes: u64,
    pub(crate) remembered: usize,
    pub(crate) remembered_bytes: u64,
    pub(crate) log_dropped: u64,
    pub(crate) state_in_place: bool,
    /// What the ledger has; what it had before, if it cannot be read now.
    pub(crate) durable: Option<Tally>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        let metrics = Metrics {
            registry: Registry::with_prefix("monohull"),
            invocations: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            cold_starts: Histogram::new(COLD_STARTS),
            requests: Family::default(),
            faults: Family::default(),
            modules: Family::default(),
            bytes: Family::default(),
            isolation: Family::default(),
            cgroup: Family::default(),
            domains: Family::default(),
            processes: Family::default(),
            starts: Family::default(),
            templates: Gauge::default(),
            template_bytes: Gauge::default(),
            answer_bytes: Gauge::default(),
            kept_bytes: Gauge::default(),
            kept_limit: Gauge::default(),
            kept_evictions: Family::default(),
            outcomes: Mutex::default(),
            queued: Gauge::default(),
            connections: Gauge::default(),
            handshakes: Family::default(),
            remembered: Gauge::default(),
            remembered_bytes: Gauge::default(),
            log_dropped: Gauge::default(),
            state_in_place: Gauge::default(),
            durable: Family::default(),
            durable_due: Gauge::default(),
            durable_bytes: Gauge::default(),
            durable_schedules: Gauge::default(),
            resumes: Counter::default(),
            wakes: Family::default(),
            residents: Gauge::default(),
            resident_bytes: Gauge::default(),
            evictions: Family::default(),
            not_resumed: Family::default(),
            migrations: Family::default(),
            known: Known::default(),
        };
        metrics.registered()
    }

    fn registered(mut self) -> Metrics {
        let r = &mut self.registry;
        r.register("invocations", "Invocations that have ended, by workflow and outcome", self.invocations.clone());
        r.register_with_unit(
            "invocation_duration",
            "From the acceptance of the request to the end of the workflow",
            Unit::Seconds,
            self.durations.clone(),
        );
        r.register_with_unit(
            "cold_start",
            "From the acceptance of the request to the first instruction of the first function",
            Unit::Seconds,
            self.cold_starts.clone(),
        );
        r.register("http_requests", "Answers, by route and status code", self.requests.clone());
        r.register("faults", "Failed instances, by the kind of failure", self.faults.clone());
        r.register("module_loads", "Libos modules loaded, by module", self.modules.clone());
        r.register(
            "slot_bytes",
            "Bytes that functions took over (in) and handed on (out) by reference",
            self.bytes.clone(),
        );
        r.register("isolation", "1 for the isolation that invocations run under", self.isolation.clone());
        r.register("cgroup", "1 for the control group of workflows' processes: own, or none", self.cgroup.clone());
        r.register(
            "domains",
            "Processes for workflows: ready for any, kept for another invocation of one, or running one",
            self.domains.clone(),
        );
        r.register(
            "process_invocations",
            "Invocations given to a process, by whether it was new or had served others",
            self.processes.clone(),
        );
        r.register_with_unit(
            "kept",
            "Memory that processes have for themselves which wait for another invocation",
            Unit::Bytes,
            self.kept_bytes.clone(),
        );
        r.register_with_unit("kept_limit", "The most that those may have", Unit::Bytes, self.kept_limit.clone());
        r.register(
            "kept_evictions",
            "Such processes that were ended, by reason: their `memory` or `number`",
            self.kept_evictions.clone(),
        );
        r.register("starts", "Invocations by where their first instances begin: main or template", self.starts.clone());
        r.register("templates", "Templates of functions in memory", self.templates.clone());
        r.register("template_bytes", "Bytes of all templates", self.template_bytes.clone());
        r.register("answer_bytes", "Bytes of large answers that are being sent", self.answer_bytes.clone());
        r.register("queued", "Invocations that wait for their turn", self.queued.clone());
        r.register("connections", "Connections of clients", self.connections.clone());
        r.register(
            "tls_handshake_failures",
            "Connections that did not come to use TLS where it is expected, by reason",
            self.handshakes.clone(),
        );
        r.register("remembered", "Ended invocations that are retained in memory", self.remembered.clone());
        r.register_with_unit("remembered", "Memory that those take", Unit::Bytes, self.remembered_bytes.clone());
        r.register(
            "log_lines_dropped",
            "Lines of the log that were dropped because the reader was too slow",
            self.log_dropped.clone(),
        );
        r.register(
            "state_in_place",
            "1 while the state folder and its database are those that the server opened",
            self.state_in_place.clone(),
        );
        r.register(
            "durable_invocations",
            "Durable invocations that have not ended, by status: `suspended` ones wait as checkpoints",
            self.durable.clone(),
        );
        r.register(
            "durable_due",
            "Durable invocations that are due and that no process runs",
            self.durable_due.clone(),
        );
        r.register_with_unit("durable_checkpoint", "Checkpoints on the disk", Unit::Bytes, self.durable_bytes.clone());
        r.register("durable_schedules", "Schedules", self.durable_schedules.clone());
        r.register("durable_resumes", "Durable invocations that went on from a checkpoint", self.resumes.clone());
        r.register(
            "durable_wakes",
            "Durable invocations that went on after a wait, by where from: the `process` that had stayed, or a `checkpoint`",
            self.wakes.clone(),
        );
        r.register("residents", "Processes that stay with durable invocations which wait", self.residents.clone());
        r.register_with_unit(
            "resident",
            "Memory that those have for themselves",
            Unit::Bytes,
            self.resident_bytes.clone(),
        );
        r.register(
            "resident_evictions",
            "Such processes that were ended, by reason: their `memory` or `number`, they were `idle`, they `died`, or the invocation was `changed`",
            self.evictions.clone(),
        );
        r.register(
            "durable_resume_failures",
            "Durable invocations that could not go on, by reason: what is kept is `unusable`, or the `host` failed",
            self.not_resumed.clone(),
        );
        r.register(
            "durable_migrations",
            "Durable invocations that were tried in another version",
            self.migrations.clone(),
        );
        r.register(
            "build",
            "The version of this server",
            prometheus_client::metrics::info::Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        self
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        self.requests.get_or_create(&ByRoute { route, status: Code(status) }).inc();
    }

    /// Counts an invocation there was no place for.
    pub(crate) fn turned_away(&self, workflow: &str) {
        self.count(workflow, "full".into());
    }

    fn count(&self, workflow: &str, outcome: Cow<'static, str>) {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).insert(outcome.clone());
        self.invocations.get_or_create(&ByOutcome { workflow: workflow.to_owned(), outcome }).inc();
    }

    /// Counts an invocation that has ended.
    pub(crate) fn ended(&self, workflow: &str, end: &End) {
        let outcome = match &end.result {
            Ok(_) if end.status == Ending::Cancelled => "cancelled".into(),
            Ok(_) => "completed".into(),
            Err(refusal) => refusal.error.kind.clone(),
        };
        self.count(workflow, outcome);
        let seconds = Duration::from_micros(end.duration_us).as_secs_f64();
        self.durations.get_or_create(&ByWorkflow { workflow: workflow.to_owned() }).observe(seconds);
        match &end.report {
            Some(Report::Whole(report)) => self.reported(report, end.duration_us),
            Some(Report::Packed(packed, _)) => self.summarized(packed.summary(), end.duration_us),
            None => {}
        }
    }

    /// Forgets what was counted for a workflow that is gone, so that names do not pile up.
    pub(crate) fn forget(&self, workflow: &str) {
        self.durations.remove(&ByWorkflow { workflow: workflow.to_owned() });
        for outcome in self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            self.invocations.remove(&ByOutcome { workflow: workflow.to_owned(), outcome: outcome.clone() });
        }
    }

    /// The report may come from hostile hands: it started no later than it ended, what it moved is bounded, and no name in it
    /// becomes a label that is not one of ours.
    fn reported(&self, report: &RunReport, duration_us: u64) {
        let mut summary = Summary { cold_start_us: report.cold_start_us, ..Summary::default() };
        for (bit, name) in MODULES.iter().enumerate() {
            summary.modules |= u32::from(report.modules.iter().any(|module| module == name)) << bit;
        }
        for instance in report.steps.iter().flat_map(|step| &step.instances).take(INSTANCES_MAX as usize) {
            summary.bytes_in = summary.bytes_in.saturating_add(instance.bytes_in);
            summary.bytes_out = summary.bytes_out.saturating_add(instance.bytes_out);
            if let (Status::Failed, Some(error)) = (instance.status, &instance.error) {
                self.faults.get_or_create(&ByKind { kind: error.kind.name() }).inc();
            }
        }
        self.summarized(summary, duration_us);
    }

    /// The same of a summary, for failures.
    fn summarized(&self, summary: Summary, duration_us: u64) {
        if summary.cold_start_us > 0 {
            let cold_start = summary.cold_start_us.min(duration_us);
            self.cold_starts.observe(Duration::from_micros(cold_start).as_secs_f64());
        }
        for (bit, module) in MODULES.iter().enumerate().filter(|(bit, _)| summary.modules & 1 << bit != 0) {
            let counter = || self.modules.get_or_create_owned(&ByModule { module });
            self.known.modules[bit].get_or_init(counter).inc();
        }
        let directions = [("in", summary.bytes_in), ("out", summary.bytes_out)];
        for ((direction, bytes), known) in directions.into_iter().zip(&self.known.bytes) {
            known
                .get_or_init(|| self.bytes.get_or_create_owned(&ByDirection { direction }))
                .inc_by(bytes.min(BYTES_MAX));
        }
    }

    /// Counts an invocation that a process is given, which has served others before or not.
    pub(crate) fn given_to_process(&self, reused: bool) {
        let process = if reused { "reused" } else { "new" };
        let counter = || self.processes.get_or_create_owned(&ByProcess { process });
        self.known.processes[usize::from(reused)].get_or_init(counter).inc();
    }

    /// Counts processes that waited for another invocation and were ended.
    pub(crate) fn kept_ended(&self, excess: Excess) {
        let Excess { number, memory } = excess;
        for (reason, count) in [("number", number), ("memory", memory)].into_iter().filter(|(_, count)| *count > 0) {
            self.kept_evictions.get_or_create(&ByReason { reason }).inc_by(count);
        }
    }

    /// Counts an invocation whose instance begins at a template, or at its beginning.
    pub(crate) fn started(&self, at_template: bool) {
        let start = if at_template { "template" } else { "main" };
        let counter = || self.starts.get_or_create_owned(&ByStart { start });
        self.known.starts[usize::from(at_template)].get_or_init(counter).inc();
    }

    /// Counts a durable invocation that goes on from a checkpoint.
    pub(crate) fn resumed(&self) {
        self.resumes.inc();
    }

    /// Counts a durable invocation that goes on after a wait, in its process or from its checkpoint.
    pub(crate) fn woken(&self, in_place: bool) {
        let from = if in_place { "process" } else { "checkpoint" };
        self.wakes.get_or_create(&ByOrigin { from }).inc();
    }

    /// Counts processes that stayed with waiting invocations and were ended.
    pub(crate) fn residents_ended(&self, ended: [(&'static str, u64); 5]) {
        for (reason, count) in ended.into_iter().filter(|(_, count)| *count > 0) {
            self.evictions.get_or_create(&ByReason { reason }).inc_by(count);
        }
    }

    /// Counts a durable invocation that was tried in another version of its workflow.
    pub(crate) fn migrated(&self, outcome: &'static str) {
        self.migrations.get_or_create(&ByMigration { outcome }).inc();
    }

    /// Counts one that could not go on: what is kept is `unusable`, or the `host` failed.
    pub(crate) fn not_resumed(&self, reason: &'static str) {
        self.not_resumed.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a connection that has not come to use TLS.
    pub(crate) fn no_handshake(&self, reason: &'static str) {
        self.handshakes.get_or_create(&ByReason { reason }).inc();
    }

    /// Counts a connection, until this is dropped.
    pub(crate) fn connected(&self) -> impl Drop + use<> {
        struct Connected(Gauge);
        impl Drop for Connected {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// Whether workflows' processes have control groups: `own`, or `none` and why.
    pub(crate) fn cgroup_is(&self, which: &str) {
        let mode = which.split(':').next().unwrap_or_default().to_owned();
        self.cgroup.get_or_create(&ByMode { mode }).set(1);
    }

    /// The isolation in force.
    pub(crate) fn isolation_is(&self, mode: &str) {
        self.isolation.clear();
        self.isolation.get_or_create(&ByMode { mode: mode.to_owned() }).set(1);
    }

    /// All of it as text.
    pub(crate) fn encode(&self, now: &Now) -> String {
        self.domains.get_or_create(&ByState { state: "idle" }).set(now.idle_workers as i64);
        self.domains.get_or_create(&ByState { state: "kept" }).set(now.kept_workers as i64);
        self.domains.get_or_create(&ByState { state: "running" }).set(now.running as i64);
        if let Some(tally) = &now.durable {
            for status in DurableStatus::ALL.into_iter().filter(|status| !status.is_end()) {
                let found = tally.living.iter().find(|(there, _)| *there == status);
                let gauge = self.durable.get_or_create(&ByStatus { status: status.name() });
                gauge.set(found.map_or(0, |(_, count)| *count) as i64);
            }
            self.durable_due.set(tally.due as i64);
            self.durable_bytes.set(tally.checkpoint_bytes as i64);
            self.durable_schedules.set(tally.schedules as i64);
        }
        self.kept_bytes.set(now.kept_memory.0 as i64);
        self.kept_limit.set(now.kept_memory.1.min(i64::MAX as u64) as i64);
        self.residents.set(now.residents.0 as i64);
        self.resident_bytes.set(now.residents.1 as i64);
        self.templates.set(now.templates.0 as i64);
        self.template_bytes.set(now.templates.1 as i64);
        self.answer_bytes.set(now.answer_bytes as i64);
        self.queued.set(now.queued as i64);
        self.remembered.set(now.remembered as i64);
        self.remembered_bytes.set(now.remembered_bytes as i64);
        self.log_dropped.set(now.log_dropped as i64);
        self.state_in_place.set(now.state_in_place.into());
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_worker_makes_up_are_bounded() {
        let instance = serde_json::json!({
            "index": 0, "start_us": 0, "load_us": 0, "run_us": 0, "park_us": 0,
            "bytes_in": u64::MAX, "bytes_out": u64::MAX, "attempts": 1, "status": "done",
        });
        let step = serde_json::json!({
            "name": "s", "function": "f", "status": "done", "attempts": 1, "instances": [instance, instance],
        });
        let report = serde_json::json!({
            "workflow": "w", "status": "done", "isolation": "process", "cold_start_us": u64::MAX, "duration_us": 1,
            "steps": [step], "modules": ["made-up", "mm"], "output": {}, "error": null,
        });
        let metrics = Metrics::new();
        let report = Some(serde_json::from_value::<RunReport>(report).expect("a report").into());
        let end = End {
            status: crate::invocations::status::Status::Completed,
            duration_us: 1000,
            report,
            result: Ok(Vec::new()),
            stored: Vec::new(),
        };
        metrics.ended("w", &end);
        metrics.ended("w", &end);
        let now = Now {
            running: 0,
            queued: 0,
            idle_workers: 0,
            kept_workers: 0,
            kept_memory: (0, 0),
            residents: (0, 0),
            templates: (0, 0),
            answer_bytes: 0,
            remembered: 0,
            remembered_bytes: 0,
            log_dropped: 0,
            state_in_place: true,
            durable: None,
        };
        let text = metrics.encode(&now);
        assert!(text.contains(&format!("slot_bytes_total{{direction=\"in\"}} {}\n", 2 * BYTES_MAX)), "{text}");
        assert!(text.contains("monohull_cold_start_seconds_sum 0.002\n"), "{text}");
        assert!(text.contains("module=\"mm\"") && !text.contains("made-up"), "{text}");
    }
}
