//! The report of a run that ended as most do: it travels as few bytes, and is decoded when it is asked for.
//!
//! ```text
//!   worker      RunReport ── pack ─▶ bytes in the answer     a report with anything unusual travels as JSON
//!   supervisor  bytes ── receive: read once, counted, kept as they are
//!                 └── unpack, for a client, a page or a record ─▶ RunReport
//! ```

use monohull_domain::hostcall::NAMES as MODULES;
use monohull_ipc::ChannelError;
use monohull_report::{InstanceReport, OutputReport, Point, RunReport, Sandbox, Status, StepReport};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most bytes of a packed report. One of more instances than fit is rare, and takes long anyway.
const PACKED_MAX: usize = 32 << 10;

/// The report of a run that is done: as its process has packed it.
#[derive(Clone, Debug)]
pub struct PackedReport {
    bytes: Box<[u8]>,
    summary: Summary,
    sandbox: Arc<Sandbox>,
}

/// What is looked at of every report.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// From the request to the first instruction of the first function.
    pub cold_start_us: u64,
    /// The libos modules that were loaded: a bit for each, in the order of their names' list.
    pub modules: u32,
    /// Bytes that instances took over by reference, all together.
    pub bytes_in: u64,
    /// Bytes that they handed on.
    pub bytes_out: u64,
}

/// The fields that such a report has.
#[derive(Serialize, Deserialize)]
struct Fields<'r> {
    #[serde(borrow)]
    workflow: &'r str,
    isolation: &'r str,
    cold_start_us: u64,
    duration_us: u64,
    #[serde(borrow)]
    steps: Vec<Step<'r>>,
    #[serde(borrow)]
    modules: Vec<&'r str>,
    #[serde(borrow)]
    output: Vec<(&'r str, u64)>,
    #[serde(borrow)]
    timeline: Vec<(&'r str, u64)>,
    lines_delayed: u64,
}

#[derive(Serialize, Deserialize)]
struct Step<'r> {
    name: &'r str,
    function: &'r str,
    status: Status,
    attempts: u32,
    instances: Vec<Instance>,
}

#[derive(Serialize, Deserialize)]
struct Instance {
    index: u32,
    start_us: u64,
    load_us: u64,
    run_us: u64,
    park_us: u64,
    bytes_in: u64,
    bytes_out: u64,
    attempts: u32,
    status: Status,
}

/// Packs a report; `None` if it has something that a packed one cannot have, or too much.
pub(super) fn pack(report: &RunReport) -> Option<Vec<u8>> {
    // A field that is added is packed, or such a report is not.
    let RunReport {
        workflow,
        status: Status::Done,
        isolation,
        isolation_note: None,
        cold_start_us,
        duration_us,
        steps,
        modules,
        output,
        unread: None,
        error: None,
        timeline,
        mapped_files: None,
        lines_delayed,
        suspended: None,
        not_suspended: None,
        published,
        told_to_end: false,
        sent,
        sandbox: None,
        process: None,
        start: None,
    } = report
    else {
        return None;
    };
    if !published.is_empty() || !sent.is_empty() {
        return None;
    }
    let output = output.iter().map(|(slot, output)| match output {
        OutputReport { bytes, path: None, content: None } => Some((slot.as_str(), *bytes)),
        _ => None,
    });
    let fields = Fields {
        workflow,
        isolation,
        cold_start_us: *cold_start_us,
        duration_us: *duration_us,
        steps: steps.iter().map(Step::of).collect::<Option<_>>()?,
        modules: modules.iter().map(String::as_str).collect(),
        output: output.collect::<Option<_>>()?,
        timeline: timeline.iter().map(|point| (point.name.as_str(), point.at_ns)).collect(),
        lines_delayed: *lines_delayed,
    };
    postcard::to_extend(&fields, Vec::with_capacity(512)).ok().filter(|bytes| bytes.len() <= PACKED_MAX)
}

impl<'r> Step<'r> {
    fn of(step: &'r StepReport) -> Option<Step<'r>> {
        let StepReport { name, function, status, attempts, handled: 0, instances } = step else { return None };
        let instances = instances.iter().map(Instance::of).collect::<Option<_>>()?;
        Some(Step { name, function, status: *status, attempts: *attempts, instances })
    }

    fn report(self) -> StepReport {
        StepReport {
            name: self.name.to_owned(),
            function: self.function.to_owned(),
            status: self.status,
            attempts: self.attempts,
            handled: 0,
            instances: self.instances.into_iter().map(Instance::report).collect(),
        }
    }
}

impl Instance {
    fn of(report: &InstanceReport) -> Option<Instance> {
        let InstanceReport {
            index,
            start_us,
            load_us,
            run_us,
            park_us,
            bytes_in,
            bytes_out,
            attempts,
            status,
            error: None,
            failed_attempts,
            lines,
            start: None,
        } = report
        else {
            return None;
        };
        (failed_attempts.is_empty() && lines.is_empty()).then_some(Instance {
            index: *index,
            start_us: *start_us,
            load_us: *load_us,
            run_us: *run_us,
            park_us: *park_us,
            bytes_in: *bytes_in,
            bytes_out: *bytes_out,
            attempts: *attempts,
            status: *status,
        })
    }

    fn report(self) -> InstanceReport {
        InstanceReport {
            index: self.index,
            start_us: self.start_us,
            load_us: self.load_us,
            run_us: self.run_us,
            park_us: self.park_us,
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            attempts: self.attempts,
            status: self.status,
            error: None,
            failed_attempts: Vec::new(),
            lines: Vec::new(),
            start: None,
        }
    }
}

fn read(bytes: &[u8]) -> Result<Fields<'_>, ChannelError> {
    let wrong = |what: String| ChannelError::Malformed(format!("its report: {what}"));
    match postcard::take_from_bytes::<Fields<'_>>(bytes) {
        Ok((fields, [])) => Ok(fields),
        Ok((_, rest)) => Err(wrong(format!("{} bytes too many", rest.len()))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

impl PackedReport {
    /// What a process has sent, if it can be read. That what it says is true is not known of any report.
    pub(super) fn receive(bytes: Vec<u8>, sandbox: Arc<Sandbox>) -> Result<PackedReport, ChannelError> {
        if bytes.len() > PACKED_MAX {
            return Err(ChannelError::TooLarge);
        }
        let fields = read(&bytes)?;
        let mut summary = Summary { cold_start_us: fields.cold_start_us, ..Summary::default() };
        for (bit, name) in MODULES.iter().enumerate() {
            summary.modules |= u32::from(fields.modules.contains(name)) << bit;
        }
        for instance in fields.steps.iter().flat_map(|step| &step.instances) {
            summary.bytes_in = summary.bytes_in.saturating_add(instance.bytes_in);
            summary.bytes_out = summary.bytes_out.saturating_add(instance.bytes_out);
        }
        Ok(PackedReport { bytes: bytes.into(), summary, sandbox })
    }

    /// What is looked at of every report.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        size_of::<PackedReport>() + self.bytes.len()
    }

    /// What happened when.
    pub fn timeline(&self) -> Vec<Point> {
        // It has been read before.
        let fields = read(&self.bytes).ok();
        fields.map(|fields| timeline(&fields)).unwrap_or_default()
    }

    /// The report.
    pub fn unpack(&self) -> Result<RunReport, ChannelError> {
        let fields = read(&self.bytes)?;
        let output = |(slot, bytes): &(&str, u64)| {
            ((*slot).to_owned(), OutputReport { bytes: *bytes, path: None, content: None })
        };
        Ok(RunReport {
            workflow: fields.workflow.to_owned(),
            status: Status::Done,
            isolation: fields.isolation.to_owned(),
            isolation_note: None,
            cold_start_us: fields.cold_start_us,
            duration_us: fields.duration_us,
            modules: fields.modules.iter().map(|name| (*name).to_owned()).collect(),
            output: fields.output.iter().map(output).collect(),
            unread: None,
            error: None,
            timeline: timeline(&fields),
            mapped_files: None,
            lines_delayed: fields.lines_delayed,
            suspended: None,
            not_suspended: None,
            published: Default::default(),
            told_to_end: false,
            sent: Vec::new(),
            sandbox: Some(Sandbox::clone(&self.sandbox)),
            process: None,
            start: None,
            steps: fields.steps.into_iter().map(Step::report).collect(),
        })
    }
}

fn timeline(fields: &Fields<'_>) -> Vec<Point> {
    fields.timeline.iter().map(|(name, at_ns)| Point { name: (*name).to_owned(), at_ns: *at_ns }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::{Line, StartKind, StartReport, Stream, Suspensions};
    use serde_json::{Value, json};

    /// The report of a run of two steps.
    fn report() -> RunReport {
        let instance = |index: u32| {
            json!({
                "index": index, "start_us": 1, "load_us": 2, "run_us": 300, "park_us": 4, "bytes_in": 5, "bytes_out": 60_000,
                "attempts": 1, "status": "done", "error": null,
            })
        };
        let step = |name: &str| {
            let instances = [instance(0), instance(1)];
            json!({ "name": name, "function": "f", "status": "done", "attempts": 1, "instances": instances })
        };
        let report = json!({
            "workflow": "w", "status": "done", "isolation": "process", "cold_start_us": 17, "duration_us": 400,
            "steps": [step("a"), step("b")], "modules": ["mm", "socket", "made-up"], "output": { "out": { "bytes": 7 } },
            "error": null, "timeline": [{ "name": "dispatched", "at_ns": u64::MAX }], "lines_delayed": 3,
        });
        serde_json::from_value(report).expect("a report")
    }

    fn as_json(report: &RunReport) -> Value {
        serde_json::to_value(report).expect("JSON")
    }

    #[test]
    fn a_packed_report_says_the_same() {
        let sandbox = Sandbox { cgroup: "none".to_owned(), ..Sandbox::default() };
        let packed = pack(&report()).expect("there is nothing unusual in it");
        assert!(packed.len() < serde_json::to_vec(&report()).expect("JSON").len() / 3, "{}", packed.len());
        let packed = PackedReport::receive(packed, Arc::new(sandbox.clone())).expect("a report");
        let expected = RunReport { sandbox: Some(sandbox), ..report() };
        assert_eq!(as_json(&packed.unpack().expect("a report")), as_json(&expected));
        assert_eq!(packed.timeline(), expected.timeline);
        let summary = Summary { cold_start_us: 17, modules: 1 << 7 | 1, bytes_in: 20, bytes_out: 240_000 };
        assert_eq!(packed.summary(), summary);
    }

    #[test]
    fn what_a_packed_report_cannot_have_is_not_packed() {
        let with = |change: &dyn Fn(&mut RunReport)| {
            let mut report = report();
            change(&mut report);
            pack(&report).is_some()
        };
        assert!(with(&|_| ()));
        assert!(!with(&|report| report.status = Status::Failed));
        assert!(!with(&|report| report.isolation_note = Some("why".to_owned())));
        assert!(!with(&|report| report.suspended = Some(Suspensions { times: 1, away_us: 7 })));
        assert!(!with(&|report| report.not_suspended = Some("why".to_owned())));
        assert!(!with(&|report| drop(report.published.insert("a".to_owned(), "b".to_owned()))));
        assert!(!with(&|report| report.told_to_end = true));
        assert!(!with(&|report| report.start = Some(StartReport { kind: StartKind::Main, no_template: None })));
        let main = || Box::new(StartReport { kind: StartKind::Main, no_template: None });
        assert!(!with(&|report| report.steps[0].instances[1].start = Some(main())));
        let line = || Line { stream: Stream::Stdout, text: "a line that was not sent".to_owned() };
        assert!(!with(&|report| report.steps[1].instances[1].lines.push(line())));
        assert!(!with(&|report| report.modules = vec![String::new(); PACKED_MAX]));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let refused = |bytes: &[u8]| {
            let received = PackedReport::receive(bytes.to_vec(), Arc::default());
            received.map(drop).expect_err("it is refused").to_string()
        };
        let packed = pack(&report()).expect("packed");
        assert!(refused(&packed[..packed.len() - 1]).contains("its report"));
        assert!(refused(&[&packed[..], b"x"].concat()).contains("1 bytes too many"));
        assert!(refused(b"nonsense").contains("its report"));
        assert!(refused(&vec![0; PACKED_MAX + 1]).contains("too long"));
    }
}
