//! What a row of the ledger has as bytes: what an invocation is started with, what came of it, and what it has printed.

use std::collections::BTreeMap;

use monohull_abi::handed;
use monohull_report::RunReport;
use serde::{Deserialize, Serialize};

use crate::http::error::ApiError;
use crate::invocations::record::{End, Head, Printed};
use crate::invocations::report::Report;

/// The version that the bytes of a start begin with.
const VERSION: u8 = 1;
/// The same of one that has behind that what was handed over to it.
const VERSION_MIGRATED: u8 = 2;
/// The same of one that has behind both the latest attempt that ended before anything of it was run.
const VERSION_UNBEGUN: u8 = 3;

/// What an invocation is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    /// What does not depend on its outcome.
    pub(crate) head: Head,
    /// The hash of the workflow's document.
    pub(crate) document: [u8; 32],
    /// The input slots, and the hash of what fills each. Of one that was run before it was durable only if it may be run again.
    pub(crate) inputs: Vec<(String, [u8; 32])>,
    /// The workflow's functions, and the hash of each one's image.
    pub(crate) functions: Vec<(String, [u8; 32])>,
    /// Where its end is told.
    pub(crate) callback: Option<String>,
    /// It may be run again from its beginning, if its server ends before its first checkpoint.
    pub(crate) again: bool,
    /// What the version before had published, if it was migrated to this one.
    #[serde(skip)]
    pub(crate) handed_over: BTreeMap<String, String>,
    /// The epoch of the latest attempt, if that ended before anything of it was run: the next one is as the first. 0 if there is none.
    #[serde(skip)]
    pub(crate) unbegun: u64,
}

impl Start {
    pub(crate) fn encode(&self) -> Result<Vec<u8>, ApiError> {
        let version = match (self.unbegun, self.handed_over.is_empty()) {
            (0, true) => VERSION,
            (0, false) => VERSION_MIGRATED,
            _ => VERSION_UNBEGUN,
        };
        let encode = || {
            let mut bytes = postcard::to_extend(self, vec![version])?;
            if version != VERSION {
                bytes = postcard::to_extend(&self.handed_over, bytes)?;
            }
            if version == VERSION_UNBEGUN {
                bytes = postcard::to_extend(&self.unbegun, bytes)?;
            }
            Ok(bytes)
        };
        encode().map_err(|error: postcard::Error| ApiError::monohull(error.to_string()))
    }

    /// What was encoded; `None` if it was not, or by a version that is not known.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Start> {
        let (version, bytes) = bytes.split_first()?;
        let (start, rest) = postcard::take_from_bytes::<Start>(bytes).ok()?;
        match (*version, rest) {
            (VERSION, []) => Some(start),
            (VERSION_MIGRATED, rest) => match postcard::take_from_bytes(rest) {
                Ok((handed_over, [])) => Some(Start { handed_over, ..start }),
                _ => None,
            },
            (VERSION_UNBEGUN, rest) => match postcard::take_from_bytes(rest) {
                Ok(((handed_over, unbegun), [])) => Some(Start { handed_over, unbegun, ..start }),
                _ => None,
            },
            _ => None,
        }
    }

    /// What was handed over to it, as functions read it.
    pub(crate) fn handed_over(&self) -> String {
        let mut all = String::new();
        for (name, text) in &self.handed_over {
            // A string takes all.
            let _ = handed::write(&mut all, name, text);
        }
        all
    }

    /// Whether what was started with these bytes may be run again from its beginning.
    pub(crate) fn begins_again(bytes: &[u8]) -> bool {
        Start::decode(bytes).is_some_and(|start| start.again)
    }

    /// The hashes of the files that a start names. One that cannot be read names none.
    pub(crate) fn files(bytes: &[u8]) -> Vec<[u8; 32]> {
        let start = Start::decode(bytes).into_iter();
        start
            .flat_map(|start| {
                let named = start.inputs.into_iter().chain(start.functions).map(|(_, hash)| hash);
                named.chain([start.document]).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Whether a call with this start is the same as one with the other: the same workflow is called with the same inputs.
    pub(crate) fn is_same_call(&self, other: &Start) -> bool {
        self.head.workflow() == other.head.workflow() && self.inputs == other.inputs
    }
}

/// What came of an invocation, as its row has it.
#[derive(Debug, Deserialize)]
pub(crate) struct Told {
    pub(crate) duration_us: u64,
    pub(crate) report: Option<RunReport>,
    #[serde(default)]
    pub(crate) refusal: Option<ApiError>,
}

/// The same, to be written. A report may be long, and no copy of it is made.
#[derive(Serialize)]
struct Telling<'e> {
    duration_us: u64,
    report: Option<&'e RunReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'e ApiError>,
}

impl Told {
    /// What a row has of an end, and what its run had published.
    pub(crate) fn encode(end: &End) -> (Vec<u8>, Option<BTreeMap<String, String>>) {
        let report = end.report.as_ref().and_then(Report::whole);
        let report = report.as_deref();
        let told = Telling { duration_us: end.duration_us, report, refusal: end.result.as_ref().err() };
        (serde_json::to_vec(&told).unwrap_or_default(), report.map(|report| report.published.clone()))
    }

    /// The same of one whose report is left out, as there is no room for it.
    pub(crate) fn encode_without_report(end: &End) -> Vec<u8> {
        let told = Telling { duration_us: end.duration_us, report: None, refusal: end.result.as_ref().err() };
        serde_json::to_vec(&told).unwrap_or_default()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Told> {
        serde_json::from_slice(bytes).ok()
    }
}

/// What was printed, as a row has it; nothing if nothing was.
pub(crate) fn encode_printed(printed: &Printed) -> Vec<u8> {
    if printed.is_empty() { Vec::new() } else { encode_end(printed) }
}

/// The same of an end, whose timeline is kept in any case.
pub(crate) fn encode_end(printed: &Printed) -> Vec<u8> {
    postcard::to_extend(printed, Vec::new()).unwrap_or_default()
}

pub(crate) fn decode_printed(bytes: &[u8]) -> Option<Printed> {
    postcard::from_bytes(bytes).ok()
}
