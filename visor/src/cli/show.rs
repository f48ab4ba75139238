//! A run's result for people: a table of instances, the outputs, and what went wrong.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, Table};

use monohull_report::escape::{Line, quoted_lines, shown};
use monohull_report::{
    CodePlace, Content, Failure, OutputReport, ProcessKind, ProcessReport, RunReport, Sandbox, StartKind, StartReport,
    Status, Suspensions, Unread,
};

/// Instances of one step that get a row of their own; the others are counted in one more.
const ROWS_PER_STEP: usize = 16;
/// Unread slots that get a line of their own.
const UNREAD_LINES: usize = 10;
/// Lines of an output that was not written to a file.
const OUTPUT_LINES: usize = 20;

/// Which process of a server it was.
fn process_use(process: &ProcessReport) -> String {
    match (process.kind, process.before) {
        (ProcessKind::PerInvocation, _) => "for this invocation alone".to_owned(),
        (ProcessKind::Reused, 0) => "new, and used again".to_owned(),
        (ProcessKind::Reused, before) => format!("used again, after {before} invocations"),
    }
}

/// The whole report as text.
pub(super) fn report(report: &RunReport) -> String {
    let mut text = String::new();
    for (slot, output) in &report.output {
        output_slot(&mut text, slot, output, report.error.is_none());
    }
    let _ = writeln!(text, "{}", super::table::text(&table(report)));
    let modules = if report.modules.is_empty() { "none".to_owned() } else { report.modules.join(", ") };
    let _ = writeln!(text, "workflow    {} {}", report.workflow, report.status.name());
    let _ = writeln!(text, "total       {}", time(report.duration_us));
    let _ = writeln!(text, "cold start  {}", time(report.cold_start_us));
    starts(&mut text, report);
    if let Some(Suspensions { times, away_us }) = report.suspended {
        let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
        let away = humantime::format_duration(Duration::from_millis(away_us / 1000));
        let _ = writeln!(text, "suspended   {times}, away for {away}");
    }
    let _ = writeln!(text, "modules     {modules}");
    if let Some(left) = &report.unread {
        unread(&mut text, left);
    }
    let _ = writeln!(text, "isolation   {}", report.isolation);
    if let Some(note) = &report.isolation_note {
        let _ = writeln!(text, "            {note}");
    }
    if let Some(sandbox) = &report.sandbox {
        let _ = writeln!(text, "sandbox     {}", given_up(sandbox));
    }
    if let Some(process) = &report.process {
        let _ = writeln!(text, "process     {}", process_use(process));
    }
    text
}

/// Outputs of a workflow that has ended well, as text.
pub(super) fn outputs(outputs: &BTreeMap<String, OutputReport>) -> String {
    let mut text = String::new();
    for (slot, output) in outputs {
        output_slot(&mut text, slot, output, false);
    }
    text
}

/// Where instances began that may have templates.
fn starts(text: &mut String, report: &RunReport) {
    let is_one = report.steps.iter().map(|step| step.instances.len()).sum::<usize>() == 1;
    for step in &report.steps {
        for instance in &step.instances {
            let which = if is_one { String::new() } else { format!("{}[{}] ", step.name, instance.index) };
            let _ = match instance.start.as_deref() {
                Some(StartReport { kind: StartKind::Template, .. }) => {
                    writeln!(text, "start       {which}from a template")
                }
                Some(StartReport { no_template: Some(why), .. }) => {
                    writeln!(text, "start       {which}from the image, without a template: {}", quoted_lines(why))
                }
                _ => Ok(()),
            };
        }
    }
}

/// What the process of a workflow has given up, and what it has not.
fn given_up(sandbox: &Sandbox) -> String {
    let force = |is: bool| if is { "in force" } else { "NOT in force" };
    format!(
        "list of system calls {}, no new privileges {}, Landlock {}, control group {}",
        force(sandbox.seccomp),
        force(sandbox.no_new_privs),
        sandbox.landlock,
        sandbox.cgroup
    )
}

/// A row for each instance, as narrow as a terminal: how often it was tried is a column of a run in which one was tried again.
fn table(report: &RunReport) -> Table {
    let mut instances = report.steps.iter().flat_map(|step| &step.instances);
    let is_tried_again = instances.any(|instance| instance.attempts > 1);
    let head = ["step", "status", "start", "load", "run", "park", "in", "out"];
    let mut table = super::table::new(head.into_iter().chain(is_tried_again.then_some("attempts")));
    for step in &report.steps {
        if step.instances.is_empty() {
            table.add_row([&*step.name, step.status.name()]);
        }
        for instance in step.instances.iter().take(ROWS_PER_STEP) {
            let cells = [
                format!("{}[{}]", step.name, instance.index),
                instance.status.name().to_owned(),
                time(instance.start_us),
                time(instance.load_us),
                time(instance.run_us),
                time(instance.park_us),
                bytes(instance.bytes_in),
                bytes(instance.bytes_out),
            ];
            table.add_row(cells.into_iter().chain(is_tried_again.then(|| instance.attempts.to_string())));
        }
        if let Some(more) = step.instances.len().checked_sub(ROWS_PER_STEP).filter(|&more| more > 0) {
            let failed = step.instances[ROWS_PER_STEP..].iter().filter(|instance| instance.status == Status::Failed);
            table.add_row([format!("{} + {more}", step.name), format!("{} failed", failed.count())]);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// `is_lost`: it was not asked for. Otherwise the error says what has become of it.
fn output_slot(text: &mut String, slot: &str, output: &OutputReport, is_lost: bool) {
    let size = bytes(output.bytes);
    match (&output.path, &output.content) {
        (Some(path), _) => {
            let _ = writeln!(text, "{slot} ({size}) written to {}", shown(path));
        }
        (None, Some(Content::Text(content))) => {
            let _ = writeln!(text, "{slot} ({size}):");
            content.lines().take(OUTPUT_LINES).for_each(|line| {
                let _ = writeln!(text, "  {}", Line(line));
            });
            let more = content.lines().count().saturating_sub(OUTPUT_LINES);
            if more > 0 {
                let _ = writeln!(text, "  … {more} more lines; --output {slot}=PATH keeps them");
            }
        }
        (None, _) if is_lost => {
            let _ = writeln!(text, "{slot} ({size}); --output {slot}=PATH keeps it");
        }
        (None, _) => {
            let _ = writeln!(text, "{slot} ({size})");
        }
    }
}

/// Slots that were left unread, a line for each of the first.
fn unread(text: &mut String, left: &Unread) {
    let slots = if left.count == 1 { "slot" } else { "slots" };
    let _ = writeln!(text, "unread      {} {slots}, {}", left.count, bytes(left.bytes));
    for slot in left.slots.iter().take(UNREAD_LINES) {
        let _ = writeln!(text, "            {slot}");
    }
    if let Some(more) = left.count.checked_sub(UNREAD_LINES as u64).filter(|&more| more > 0) {
        let _ = writeln!(text, "            … and {more} more");
    }
}

/// A failure as text: what, where, whose fault, and the way there.
pub(super) fn failure(failure: &Failure) -> String {
    let mut text = String::new();
    if let Some(step) = &failure.step {
        let _ = write!(text, "{step}");
        if let Some(instance) = failure.instance {
            let _ = write!(text, "[{instance}]");
        }
        if let Some(function) = &failure.function {
            let _ = write!(text, " (function {function})");
        }
        text.push_str(": ");
    }
    let _ = write!(text, "{}: {}", failure.kind.name(), quoted_lines(&failure.message));
    if let Some(address) = failure.address {
        let _ = write!(text, "\n  address   {address:#x}");
        if let Some(owner) = &failure.address_of {
            let _ = write!(text, ", {}", Line(owner));
        }
    }
    if let Some(ip) = &failure.ip {
        let _ = write!(text, "\n  at        {}", place(ip));
    }
    for frame in &failure.backtrace {
        let _ = write!(text, "\n  called by {}", place(frame));
    }
    let _ = write!(text, "\n  at fault  {}", failure.blame.name());
    text
}

fn place(place: &CodePlace) -> String {
    let mut text = format!("{:#x}", place.offset);
    if let Some(symbol) = &place.symbol {
        let _ = write!(text, " {}", Line(symbol));
    }
    if let Some(source) = &place.source {
        let _ = write!(text, "\n            {}", Line(source));
    }
    text
}

/// Microseconds with a unit that keeps the number short.
pub(super) fn time(us: u64) -> String {
    match us {
        0..10_000 => format!("{us} µs"),
        10_000..10_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}

/// Bytes with a unit that keeps the number short.
fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_report::{Blame, InstanceReport, StepReport};
    use monohull_workflow::plan::FailureKind;
    use std::collections::BTreeMap;

    fn instance(index: u32, status: Status) -> InstanceReport {
        InstanceReport {
            index,
            start_us: 12,
            load_us: 34_000,
            run_us: 56_000_000,
            park_us: 0,
            bytes_in: 0,
            bytes_out: 16 << 20,
            attempts: 3,
            status,
            error: None,
            failed_attempts: Vec::new(),
            lines: Vec::new(),
            start: None,
        }
    }

    fn sample(instances: u32) -> RunReport {
        let step = StepReport {
            name: "map".to_owned(),
            function: "f".to_owned(),
            status: Status::Done,
            attempts: 3,
            handled: 0,
            instances: (0..instances).map(|index| instance(index, Status::Done)).collect(),
        };
        let content = Some(Content::Text("line\n".repeat(30)));
        RunReport {
            workflow: "w".to_owned(),
            status: Status::Done,
            isolation: "process".to_owned(),
            isolation_note: None,
            cold_start_us: 210,
            duration_us: 1_500_000,
            steps: vec![step],
            modules: vec!["mm".to_owned(), "stdio".to_owned()],
            output: BTreeMap::from([("counts".to_owned(), OutputReport { bytes: 150, path: None, content })]),
            unread: None,
            error: None,
            timeline: Vec::new(),
            mapped_files: None,
            lines_delayed: 0,
            suspended: None,
            not_suspended: None,
            published: Default::default(),
            told_to_end: false,
            sent: Vec::new(),
            sandbox: None,
            process: None,
            start: None,
        }
    }

    #[test]
    fn the_table_has_times_bytes_and_the_isolation() {
        let text = report(&sample(2));
        for part in
            ["map[1]  done", "12 µs", "34.0 ms", "56.0 s", "16.00 MiB", "210 µs", "mm, stdio", "process", "w done"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(text.contains("… 10 more lines; --output counts=PATH keeps them"), "{text}");
    }

    #[test]
    fn a_run_that_was_suspended_says_how_long_it_was_away() {
        assert!(!report(&sample(1)).contains("suspended"), "it never was");
        for (times, away_us, line) in [
            (1, 1_500_999, "suspended   once, away for 1s 500ms\n"),
            (3, 86_403_000_000, "suspended   3 times, away for 1day 3s\n"),
        ] {
            let text = report(&RunReport { suspended: Some(Suspensions { times, away_us }), ..sample(1) });
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn many_instances_are_counted() {
        let text = report(&sample(1000));
        assert!(text.contains("+ 984") && text.lines().count() < 60, "{text}");
    }

    #[test]
    fn a_failure_names_cause_place_and_blame() {
        let text = failure(&Failure {
            kind: FailureKind::MemoryFault,
            blame: Blame::Function,
            message: "wrote to address 0".to_owned(),
            step: Some("map".to_owned()),
            instance: Some(2),
            function: Some("f".to_owned()),
            address: Some(0),
            address_of: Some("unmapped".to_owned()),
            ip: Some(CodePlace {
                offset: 0x1234,
                symbol: Some("f::main + 0x4".to_owned()),
                source: Some("/w/src/lib.rs:3:5".to_owned()),
            }),
            backtrace: vec![CodePlace { offset: 0x99, symbol: None, source: None }],
        });
        let lines = [
            "map[2] (function f): memory-fault: wrote to address 0",
            "  address   0x0, unmapped",
            "  at        0x1234 f::main + 0x4",
            "            /w/src/lib.rs:3:5",
            "  called by 0x99",
            "  at fault  the function",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn the_json_document_has_the_promised_fields() {
        let json = serde_json::to_value(sample(1)).expect("JSON");
        for field in ["status", "isolation", "cold_start_us", "duration_us", "steps", "modules", "output", "error"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        let first = &json["steps"][0]["instances"][0];
        for field in
            ["index", "start_us", "load_us", "run_us", "park_us", "bytes_in", "bytes_out", "attempts", "status"]
        {
            assert!(first.get(field).is_some(), "{field}");
        }
        assert_eq!(json["output"]["counts"]["text"], "line\n".repeat(30));
        let again: RunReport = serde_json::from_value(json.clone()).expect("a report");
        assert_eq!(serde_json::to_value(again).expect("JSON"), json);
    }
}
