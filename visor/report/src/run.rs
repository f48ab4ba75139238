//! What a run reports: its progress ([`Progress`]), and its result ([`RunReport`]).
//!
//! [`RunReport`] is the one document `monohull run --json` prints. Its field names are stable; fields may be added.
//! All times are whole microseconds, all sizes bytes.

use super::Outgoing;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::escape::json_path_if_any;
use crate::failure::Failure;
use crate::text::quoted;

/// The result of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The workflow's name.
    pub workflow: String,
    /// How it ended.
    pub status: Status,
    /// The isolation that was in force: `process` or `mpk`.
    pub isolation: String,
    /// Why it was not a stronger one that this machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation_note: Option<String>,
    /// From the request to the first instruction of the first function.
    pub cold_start_us: u64,
    /// From the request to the end of the last step.
    pub duration_us: u64,
    /// The steps, in the order in which they could start.
    pub steps: Vec<StepReport>,
    /// Names of the libos modules that were loaded, in order.
    pub modules: Vec<String>,
    /// The output slots, by name.
    pub output: BTreeMap<String, OutputReport>,
    /// Slots that were filled and not read, as far as the workflow does not ignore them; absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<Unread>,
    /// Why the workflow failed.
    pub error: Option<Failure>,
    /// What happened when, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub timeline: Vec<Point>,
    /// What files functions have mapped; absent if they have mapped none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped_files: Option<MappedFiles>,
    /// Printed lines that could not be passed on while the workflow ran, because the reader of the others had stopped or was
    /// slow. They are in the report, or were passed on at the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lines_delayed: u64,
    /// How long the run was away from any process, or stood still in one; absent if it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended: Option<Suspensions>,
    /// Why the workflow was not suspended although it only waited and was to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_suspended: Option<String>,
    /// What the workflow has published last, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub published: BTreeMap<String, String>,
    /// Whether its code has taken, since its last checkpoint, the event that tells it to end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub told_to_end: bool,
    /// Events for other invocations that leave with this end. Not part of the document.
    #[serde(skip)]
    pub sent: Vec<Outgoing>,
    /// The sandbox of the workflow's process; absent if the workflow ran in the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// The server's process that ran the workflow; absent outside of a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessReport>,
    /// Where the first instance began, in the order of the steps, that says when it is ready or need not say it; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<StartReport>,
}

impl RunReport {
    /// Whether it did its work, and nothing on the way failed: neither an attempt that another one followed, nor an instance that the others did without.
    pub fn is_without_failure(&self) -> bool {
        let instances = || self.steps.iter().flat_map(|step| &step.instances);
        let has_failed = |instance: &InstanceReport| {
            instance.status == Status::Failed || instance.error.is_some() || !instance.failed_attempts.is_empty()
        };
        self.status == Status::Done && self.error.is_none() && !instances().any(has_failed)
    }

    /// Whether it is of a run that went on from where it was captured. One that could not has run nothing.
    pub fn has_gone_on(&self) -> bool {
        self.timeline.iter().any(|point| point.name == "gone-on")
    }

    /// Takes over what the first of the instances says of its start that says something.
    pub fn note_start(&mut self) {
        let mut instances = self.steps.iter().flat_map(|step| &step.instances);
        self.start = instances.find_map(|instance| instance.start.as_deref().cloned());
    }
}

fn is_false(is: &bool) -> bool {
    !*is
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// How often a run has gone on from where it was captured, and how long it was away before. That is not in `duration_us`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Suspensions {
    /// How often it has gone on.
    pub times: u64,
    /// From each capture until it went on, by the wall clock, all together.
    pub away_us: u64,
}

impl Suspensions {
    /// The run goes on once more, after so long.
    pub fn add(&mut self, away: Duration) {
        self.times = self.times.saturating_add(1);
        self.away_us = self.away_us.saturating_add(u64::try_from(away.as_micros()).unwrap_or(u64::MAX));
    }

    /// These, unless there are none.
    pub fn if_any(self) -> Option<Suspensions> {
        (self != Suspensions::default()).then_some(self)
    }
}

/// Files that functions have mapped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MappedFiles {
    /// How many mappings were made.
    pub mappings: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// How often a thread had to wait for a page.
    pub faults: u64,
    /// Why mappings were filled when they were made and not when they were touched; absent if only their size was the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filled_at_once: Option<String>,
}

/// A moment in the life of an invocation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// What happened.
    pub name: String,
    /// When: CLOCK_MONOTONIC, in ns.
    pub at_ns: u64,
}

/// The process of a server in which a workflow ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Whether it was for this invocation alone, or for several of the same workflow.
    pub kind: ProcessKind,
    /// How many invocations of the workflow it had served before.
    pub before: u64,
}

/// Where an instance began whose function says when it is ready.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StartReport {
    /// At its beginning, or at the template.
    pub kind: StartKind,
    /// Why there is no template of the function; absent if there is one, or none has been made yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_template: Option<String>,
}

/// A place at which an instance begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StartKind {
    /// The function's first instruction.
    Main,
    /// Where the function was ready in the process that made the template.
    Template,
}

/// How many invocations a process is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// One.
    PerInvocation,
    /// Several, one after the other.
    Reused,
}

/// The sandbox of a workflow's process, which was in force before it mapped a function.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Sandbox {
    /// No program it could start would gain rights.
    pub no_new_privs: bool,
    /// System calls outside a list end the process.
    pub seccomp: bool,
    /// Files: `full`, or what the kernel cannot restrict.
    pub landlock: String,
    /// Its own control group: the folder, or why there is none.
    pub cgroup: String,
}

/// How a workflow, step or instance ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It did its work.
    Done,
    /// It failed.
    Failed,
    /// It was ended, or never started, because something else failed.
    Cancelled,
}

impl Status {
    /// Its name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// What became of a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepReport {
    /// The step's name.
    pub name: String,
    /// The name of its function.
    pub function: String,
    /// How it ended.
    pub status: Status,
    /// The most attempts any of its instances took.
    pub attempts: u32,
    /// How many requests it has handled, if it handles an effect. An instance is then used for one after the other, and tells of its last one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub handled: u64,
    /// Its instances, by index; none if the step never started.
    pub instances: Vec<InstanceReport>,
}

/// What became of an instance. Times are those of its last attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceReport {
    /// Which of the step's instances, from 0.
    pub index: u32,
    /// From the start of the workflow to the start of the instance.
    pub start_us: u64,
    /// Mapping and relocating its image.
    pub load_us: u64,
    /// Running its code.
    pub run_us: u64,
    /// Waiting without a thread.
    pub park_us: u64,
    /// Bytes it took over by reference.
    pub bytes_in: u64,
    /// Bytes it handed on by reference.
    pub bytes_out: u64,
    /// Attempts it took.
    pub attempts: u32,
    /// How it ended.
    pub status: Status,
    /// Why it failed. In a box, as most have not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Box<Failure>>,
    /// The attempts that failed and were followed by another, in order, as far as they are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_attempts: Vec<FailedAttempt>,
    /// What it printed, all attempts together, up to the workflow's limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<Line>,
    /// Where it began; absent if its function does not say when it is ready, and if it is none that may have a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Box<StartReport>>,
}

/// An attempt that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailedAttempt {
    /// Which one, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub error: Failure,
}

/// A line a function printed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Where to.
    pub stream: Stream,
    /// The line, without its end.
    pub text: String,
}

/// An output stream of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// An output slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OutputReport {
    /// Bytes in it.
    pub bytes: u64,
    /// The file it was written to.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "json_path_if_any")]
    pub path: Option<PathBuf>,
    /// What it holds, if it was not written to a file.
    #[serde(flatten)]
    pub content: Option<Content>,
}

/// What an output slot holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Valid UTF-8.
    Text(String),
    /// Anything else, in base64.
    #[serde(rename = "base64", with = "base64_text")]
    Bytes(Vec<u8>),
}

/// Bytes as text, of the kind that the service gives and takes.
mod base64_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(de::Error::custom)
    }
}

impl Content {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Content::Text(text) => text.as_bytes(),
            Content::Bytes(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Content {
        match String::from_utf8(bytes) {
            Ok(text) => Content::Text(text),
            Err(error) => Content::Bytes(error.into_bytes()),
        }
    }
}

/// What becomes of a run that leaves a slot unread (`"unread"` in the file).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnUnread {
    /// It fails.
    #[default]
    Fail,
    /// It succeeds, and its report lists the slot.
    Warn,
    /// It succeeds.
    Ignore,
}

/// Slots that were filled, that no step has taken, and that are no outputs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unread {
    /// How many they are.
    pub count: u64,
    /// Bytes in all of them.
    pub bytes: u64,
    /// The first of them, in the order of their names.
    pub slots: Vec<UnreadSlot>,
}

/// A slot that was filled and not read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnreadSlot {
    /// Its name.
    pub slot: String,
    /// Bytes in it.
    pub bytes: u64,
    /// The step that filled it; absent if it is an input of the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The instance of that step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<u32>,
    /// The workflow file's rule for it: `fail` or `warn`.
    pub outcome: OnUnread,
}

impl fmt::Display for UnreadSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, ", quoted(&self.slot), self.bytes)?;
        match (&self.step, self.instance) {
            (Some(step), Some(instance)) => write!(f, "filled by {step}[{instance}])"),
            _ => f.write_str("an input of the workflow)"),
        }
    }
}

/// Receives what happens while a workflow runs. Called from any carrier thread; must not block for long.
pub trait Progress: Send + Sync {
    /// A step's first instance is about to start.
    fn step_started(&self, _step: &str, _instances: u32) {}
    /// An instance has ended for good (its retries are over).
    fn instance_ended(&self, _step: &str, _index: u32, _ok: bool) {}
    /// All instances of a step have ended.
    fn step_ended(&self, _step: &str) {}
    /// A moment that the invocation's timeline names.
    fn point(&self, _name: &'static str, _at_ns: u64) {}
    /// An instance has printed a line.
    fn line(&self, _step: &str, _index: u32, _stream: Stream, _text: &str) {}
}

/// Discards all progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {}
