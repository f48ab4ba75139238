//! What is recorded of an invocation: where it came from, what it printed and when, and how it ended.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::http::content::Content;
use crate::http::error::ApiError;
use crate::http::trace::Trace;
use crate::invocations::report::Report;
use crate::invocations::status::Status;
use monohull_report::Stream;

/// What a line or a point takes beside its text, about.
pub(crate) const OVERHEAD: usize = 96;

/// How much of what was printed is sent at a time.
const PIECE: usize = 64 << 10;

/// A moment on an invocation's timeline.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) name: Cow<'static, str>,
    /// Microseconds since the request was accepted.
    pub(crate) at_us: u64,
}

/// A line that a function has printed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogLine {
    pub(crate) at_us: u64,
    pub(crate) step: String,
    pub(crate) instance: u32,
    pub(crate) stream: Stream,
    pub(crate) text: String,
}

impl LogLine {
    /// Bytes it takes, about.
    pub(crate) fn size(&self) -> usize {
        self.text.len() + self.step.len() + OVERHEAD
    }

    /// As many of the first ones as are sent at a time: one at least, if there are any.
    pub(crate) fn piece_of(lines: &[LogLine]) -> &[LogLine] {
        let mut bytes = 0;
        let fits = |line: &&LogLine| {
            bytes += line.size();
            bytes <= PIECE
        };
        &lines[..lines.iter().take_while(fits).count().max(1).min(lines.len())]
    }
}

/// The fields of an invocation that do not depend on its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    pub(crate) call_id: String,
    pub(crate) trace: Trace,
    pub(crate) workflow: String,
    /// Milliseconds since 1970.
    pub(crate) accepted_ms: u64,
    /// Of the output slots that have one.
    pub(crate) content_types: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn workflow(&self) -> &str {
        &self.workflow
    }

    /// When it was accepted (ns since 1970).
    pub(crate) fn accepted_ns(&self) -> u64 {
        self.accepted_ms.saturating_mul(1_000_000)
    }
}

/// What was recorded while an invocation ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Printed {
    pub(crate) points: Vec<Point>,
    pub(crate) lines: Vec<LogLine>,
    pub(crate) lines_dropped: u64,
}

impl Printed {
    /// Whether nothing was printed.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.lines_dropped == 0
    }

    /// The lines.
    pub(crate) fn into_lines(self) -> Vec<LogLine> {
        self.lines
    }

    /// Adds what was printed later; of the timelines the later one stays.
    pub(crate) fn add(&mut self, later: Printed) {
        self.points = later.points;
        self.lines.extend(later.lines);
        self.lines_dropped += later.lines_dropped;
    }
}

/// What came of an invocation.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) status: Status,
    pub(crate) duration_us: u64,
    /// The report of the workflow's process, if there is one. Printed lines are stored apart.
    pub(crate) report: Option<Report>,
    /// The output slots, by name.
    pub(crate) result: Result<Vec<(String, Content)>, ApiError>,
    /// Output slots whose content is a file that was not opened, and its length.
    pub(crate) stored: Vec<(String, u64)>,
}

impl End {
    /// The same without what output slots held.
    pub(crate) fn without_outputs(mut self) -> End {
        if let Ok(outputs) = &mut self.result {
            outputs.clear();
        }
        self
    }
}
