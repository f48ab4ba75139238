//! The report of an invocation that has ended. That of one that went as most do stays as its process has packed it until it is asked for.

use std::borrow::Cow;

use monohull_report::{Point, ProcessReport, RunReport};
use monohull_worker::PackedReport;
use serde::{Serialize, Serializer};

use crate::invocations::size;

/// A report, packed or not.
#[derive(Clone, Debug)]
pub(crate) enum Report {
    Whole(Box<RunReport>),
    /// With what this server knows of its process.
    Packed(PackedReport, ProcessReport),
}

impl Report {
    /// All of it; of one that was packed a copy is made. `None` if it cannot be put together.
    pub(crate) fn whole(&self) -> Option<Cow<'_, RunReport>> {
        match self {
            Report::Whole(report) => Some(Cow::Borrowed(report)),
            Report::Packed(packed, process) => {
                let mut report = packed.unpack().ok()?;
                // The timeline stands beside it, with this server's points.
                report.timeline.clear();
                report.process = Some(*process);
                Some(Cow::Owned(report))
            }
        }
    }

    /// The same, of one that is not needed any more.
    pub(crate) fn into_whole(self) -> Option<RunReport> {
        match self {
            Report::Whole(report) => Some(*report),
            packed @ Report::Packed(..) => packed.whole().map(Cow::into_owned),
        }
    }

    /// One that is not packed, to be changed.
    pub(crate) fn whole_mut(&mut self) -> Option<&mut RunReport> {
        match self {
            Report::Whole(report) => Some(report),
            Report::Packed(..) => None,
        }
    }

    /// Points in time that have not been added to the invocation's own.
    pub(crate) fn timeline(&self) -> Vec<Point> {
        match self {
            Report::Whole(_) => Vec::new(),
            Report::Packed(packed, _) => packed.timeline(),
        }
    }

    /// From the request to the first instruction of the first function.
    pub(crate) fn cold_start_us(&self) -> u64 {
        match self {
            Report::Whole(report) => report.cold_start_us,
            Report::Packed(packed, _) => packed.summary().cold_start_us,
        }
    }

    /// Bytes that it takes, about.
    pub(crate) fn size(&self) -> usize {
        match self {
            Report::Whole(report) => size::of_report(report),
            Report::Packed(packed, _) => packed.size(),
        }
    }
}

impl From<RunReport> for Report {
    fn from(report: RunReport) -> Report {
        Report::Whole(Box::new(report))
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.whole().serialize(to)
    }
}
