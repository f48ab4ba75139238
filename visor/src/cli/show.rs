//! A run's result for people: a table of instances, the outputs, and what went wrong.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use crate::report::{CodePlace, Content, Failure, OutputReport, RunReport, Status};

/// Instances of one step that get a row of their own; the others are counted in one more.
const ROWS_PER_STEP: usize = 16;
/// Lines of an output that was not written to a file.
const OUTPUT_LINES: usize = 20;

/// The whole report as text.
pub(super) fn report(report: &RunReport) -> String {
    let mut text = String::new();
    for (slot, output) in &report.output {
        output_slot(&mut text, slot, output);
    }
    let _ = writeln!(text, "{}", table(report));
    let modules = if report.modules.is_empty() { "none".to_owned() } else { report.modules.join(", ") };
    let _ = writeln!(text, "workflow    {} {}", report.workflow, report.status.name());
    let _ = writeln!(text, "total       {}", time(report.duration_us));
    let _ = writeln!(text, "cold start  {}", time(report.cold_start_us));
    let _ = writeln!(text, "modules     {modules}");
    let _ = writeln!(text, "isolation   {}", report.isolation);
    text
}

fn table(report: &RunReport) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header([
        "step",
        "instance",
        "status",
        "start",
        "load",
        "run",
        "park",
        "bytes in",
        "bytes out",
        "attempts",
    ]);
    for step in &report.steps {
        for instance in step.instances.iter().take(ROWS_PER_STEP) {
            table.add_row([
                step.name.clone(),
                instance.index.to_string(),
                instance.status.name().to_owned(),
                time(instance.start_us),
                time(instance.load_us),
                time(instance.run_us),
                time(instance.park_us),
                bytes(instance.bytes_in),
                bytes(instance.bytes_out),
                instance.attempts.to_string(),
            ]);
        }
        if let Some(more) = step.instances.len().checked_sub(ROWS_PER_STEP).filter(|&more| more > 0) {
            let failed = step.instances[ROWS_PER_STEP..].iter().filter(|instance| instance.status == Status::Failed);
            table.add_row([step.name.clone(), format!("+ {more}"), format!("{} failed", failed.count())]);
        }
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn output_slot(text: &mut String, slot: &str, output: &OutputReport) {
    let size = bytes(output.bytes);
    match (&output.path, &output.content) {
        (Some(path), _) => {
            let _ = writeln!(text, "{slot} ({size}) written to {}", path.display());
        }
        (None, Some(Content::Text(content))) => {
            let _ = writeln!(text, "{slot} ({size}):");
            content.lines().take(OUTPUT_LINES).for_each(|line| {
                let _ = writeln!(text, "  {line}");
            });
            let more = content.lines().count().saturating_sub(OUTPUT_LINES);
            if more > 0 {
                let _ = writeln!(text, "  … {more} more lines; --output {slot}=PATH keeps them");
            }
        }
        (None, _) => {
            let _ = writeln!(text, "{slot} ({size}); --output {slot}=PATH keeps it");
        }
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
    let _ = write!(text, "{}: {}", failure.kind.name(), failure.message);
    if let Some(address) = failure.address {
        let _ = write!(text, "\n  address   {address:#x}");
        if let Some(owner) = &failure.address_of {
            let _ = write!(text, ", {owner}");
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
    match &place.symbol {
        Some(symbol) => format!("{:#x} {symbol}", place.offset),
        None => format!("{:#x}", place.offset),
    }
}

/// Microseconds with a unit that keeps the number short.
fn time(us: u64) -> String {
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
