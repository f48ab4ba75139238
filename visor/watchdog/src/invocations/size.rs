//! What a report takes in memory, about. A worker chooses what is in it, so everything is counted: what all reports have is added up, what
//! few have is counted from its JSON, which costs as much as writing it.

use std::io;

use monohull_report::{InstanceReport, Line, OutputReport, Point, RunReport, Sandbox, StepReport};
use serde::Serialize;

/// Counts bytes of JSON, and for each value of a list, which may be an empty string, what a string takes.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let values = bytes.iter().filter(|byte| **byte == b',').count();
        self.0 += bytes.len() + values * size_of::<String>();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Of what few reports have.
fn rare(value: Option<&impl Serialize>) -> usize {
    let mut count = Count(0);
    if let Some(value) = value {
        // Counting does not fail.
        let _ = serde_json::to_writer(&mut count, value);
    }
    count.0
}

fn text(text: &str) -> usize {
    size_of::<String>() + text.len()
}

/// Of a whole report.
pub(crate) fn of_report(report: &RunReport) -> usize {
    // A field that is added has to be counted here.
    let RunReport {
        workflow,
        status: _,
        isolation,
        isolation_note,
        cold_start_us: _,
        duration_us: _,
        steps,
        modules,
        output,
        unread,
        error,
        timeline,
        mapped_files,
        lines_delayed: _,
        suspended: _,
        not_suspended,
        published,
        sandbox,
        process: _,
        told_to_end: _,
        // They have left before it is kept.
        sent: _,
        start,
    } = report;
    let no_template = start.iter().filter_map(|start| start.no_template.as_ref());
    let texts =
        [workflow, isolation].into_iter().chain(modules).chain(isolation_note).chain(not_suspended).chain(no_template);
    let published = published.iter().map(|(name, published)| text(name) + text(published));
    let outputs = output.iter().map(|(slot, output)| {
        let OutputReport { bytes: _, path, content } = output;
        size_of::<OutputReport>() + text(slot) + rare(path.as_ref()) + rare(content.as_ref())
    });
    let points = timeline.iter().map(|Point { name, at_ns: _ }| size_of::<Point>() + name.len());
    let sandbox = sandbox.as_ref().map_or(0, |sandbox| {
        let Sandbox { no_new_privs: _, seccomp: _, landlock, cgroup } = sandbox;
        landlock.len() + cgroup.len()
    });
    size_of::<RunReport>()
        + texts.map(|one| text(one)).sum::<usize>()
        + steps.iter().map(of_step).sum::<usize>()
        + outputs.sum::<usize>()
        + points.sum::<usize>()
        + published.sum::<usize>()
        + sandbox
        + rare(unread.as_ref())
        + rare(error.as_ref())
        + rare(mapped_files.as_ref())
}

fn of_step(step: &StepReport) -> usize {
    let StepReport { name, function, status: _, attempts: _, handled: _, instances } = step;
    size_of::<StepReport>() + name.len() + function.len() + instances.iter().map(of_instance).sum::<usize>()
}

fn of_instance(instance: &InstanceReport) -> usize {
    let InstanceReport {
        index: _,
        start_us: _,
        load_us: _,
        run_us: _,
        park_us: _,
        bytes_in: _,
        bytes_out: _,
        attempts: _,
        status: _,
        error,
        failed_attempts,
        lines,
        start,
    } = instance;
    let lines = lines.iter().map(|Line { stream: _, text }| size_of::<Line>() + text.len());
    let failed = Some(failed_attempts).filter(|failed| !failed.is_empty());
    size_of::<InstanceReport>() + lines.sum::<usize>() + rare(error.as_ref()) + rare(failed) + rare(start.as_ref())
}
