//! One invocation, from the request to what is remembered of it.
//!
//! ```text
//! pending ─▶ running ─▶ completed | failed | cancelled | suspended: it goes on as a durable one, from the ledger
//!    └──────────┴─────────────────────────────┘
//! ```
//!
//! Of a durable invocation there is one of these while a process runs it, from a commit to the next, and one is made of its row
//! for those who ask about it.
//!
//! The task that runs it writes here; others read here at the same time: the client that waits, clients that
//! follow its lines, and the page.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::clock::{Moment, ms_since_1970, ns_since_1970};
use crate::http::content::Content;
use crate::http::error::ApiError;
use crate::http::trace::Trace;
use crate::ids::random_id;
use crate::invocations::size;
use crate::invocations::workers::LargeMessagePermit;
use monohull_report::{RunReport, Stream};
use monohull_workflow::Plan;

/// Bytes of printed lines that are kept of one invocation. Each instance's output is limited by its workflow; this bounds
/// all of them together.
const LINES_MAX: usize = 1 << 20;
/// The most points of a timeline.
const POINTS_MAX: usize = 1024;
/// The longest name of a point. A worker's own are shorter.
const POINT_NAME_MAX: usize = 64;
/// What a line or a point takes beside its text, about.
const OVERHEAD: usize = 96;

/// How far an invocation is, durable or not: the same words as [`monohull_durable::Status`]. In records of earlier versions two
/// have other names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Status {
    /// It waits in the queue, or for the time at which it begins.
    #[serde(alias = "queued")]
    Pending,
    /// A worker process runs it.
    Running,
    /// Of a durable one: it waits as a checkpoint.
    Suspended,
    /// Of a durable one: it goes on by hand alone.
    Paused,
    /// It did its work.
    #[serde(alias = "done")]
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled, or its client disconnected.
    Cancelled,
}

impl From<monohull_durable::Status> for Status {
    fn from(status: monohull_durable::Status) -> Status {
        match status {
            monohull_durable::Status::Pending => Status::Pending,
            monohull_durable::Status::Running => Status::Running,
            monohull_durable::Status::Suspended => Status::Suspended,
            monohull_durable::Status::Paused => Status::Paused,
            monohull_durable::Status::Completed => Status::Completed,
            monohull_durable::Status::Failed => Status::Failed,
            monohull_durable::Status::Cancelled => Status::Cancelled,
        }
    }
}

impl Status {
    /// All of them.
    pub(crate) const ALL: [Status; 7] = [
        Status::Pending,
        Status::Running,
        Status::Suspended,
        Status::Paused,
        Status::Completed,
        Status::Failed,
        Status::Cancelled,
    ];

    /// Whether the status is final.
    pub(crate) const fn is_final(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    /// Its name, as in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Status::Running => "running",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            Status::Pending => "pending",
            Status::Suspended => "suspended",
            Status::Paused => "paused",
            Status::Completed => "completed",
        }
    }
}

/// Whether the client waits for the answer on the same connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    Sync,
    Async,
}

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

/// The fields of an invocation that do not depend on its outcome.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    call_id: String,
    trace: Trace,
    workflow: String,
    /// Milliseconds since 1970.
    accepted_ms: u64,
    /// Of the output slots that have one.
    content_types: Vec<(String, String)>,
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
    points: Vec<Point>,
    lines: Vec<LogLine>,
    lines_dropped: u64,
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
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: Status,
    pub(crate) duration_us: u64,
    /// The report of the workflow's process, if there is one. Printed lines are stored apart.
    pub(crate) report: Option<RunReport>,
    /// The output slots, by name.
    pub(crate) result: Result<Vec<(String, Content)>, ApiError>,
}

/// An invocation's document. Its report, which may be long, is serialized in place.
pub(crate) struct Shown {
    rest: Map<String, Value>,
    end: Option<Arc<End>>,
}

impl Shown {
    /// With more fields.
    pub(crate) fn with(mut self, more: Map<String, Value>) -> Shown {
        self.rest.extend(more);
        self
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        for (name, value) in &self.rest {
            map.serialize_entry(name, value)?;
        }
        if let Some(end) = &self.end {
            map.serialize_entry("report", &end.report)?;
        }
        map.end()
    }
}

/// One invocation.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Names it in this server.
    pub(crate) id: String,
    /// Names it for the client.
    pub(crate) call_id: String,
    pub(crate) trace: Trace,
    /// The name of its workflow.
    pub(crate) workflow: String,
    /// What the bytes of output slots are, where the workflow says it.
    content_types: Vec<(String, String)>,
    pub(crate) mode: Mode,
    /// When it was accepted: milliseconds since 1970.
    accepted_ms: u64,
    /// The same in ns, as far as it is known.
    accepted_ns: u64,
    /// The same on the clock that does not jump. Of an earlier server's, when this one read it.
    pub(crate) begin: Instant,
    pub(crate) begin_ns: u64,
    /// It is in the ledger.
    pub(crate) is_durable: bool,
    /// From its acceptance to `begin`.
    before_us: u64,
    inner: Mutex<Inner>,
    /// Its report is so long that nothing is made of it where others wait.
    long: AtomicBool,
    /// Others wait for this until it has been counted.
    permit: Mutex<Option<LargeMessagePermit>>,
    changed: Notify,
    cancel: Notify,
}

#[derive(Debug)]
struct Inner {
    status: Status,
    points: Vec<Point>,
    lines: Vec<LogLine>,
    line_bytes: usize,
    lines_dropped: u64,
    end: Option<Arc<End>>,
    /// Its end outlives this server.
    recorded: bool,
}

impl Invocation {
    pub(crate) fn new(accepted: Moment, call_id: Option<String>, trace: Trace, plan: &Plan, mode: Mode) -> Invocation {
        let id = random_id();
        let typed = plan.outputs.iter().filter_map(|output| Some((output.slot.clone(), output.content_type.clone()?)));
        let head = Head {
            call_id: call_id.unwrap_or_else(|| id.clone()),
            trace,
            workflow: plan.name.clone(),
            accepted_ms: ms_since_1970(accepted.world),
            content_types: typed.collect(),
        };
        let mut invocation = Invocation::of(id, head, mode, accepted, false);
        invocation.accepted_ns = ns_since_1970(accepted.world);
        invocation.lock().points.push(Point { name: "accepted".into(), at_us: 0 });
        invocation
    }

    /// Gives one that is not known yet another id.
    pub(crate) fn call_by(&mut self, id: &str) {
        if self.call_id == self.id {
            self.call_id = id.to_owned();
        }
        self.id = id.to_owned();
    }

    /// An asynchronous one that an earlier server accepted.
    pub(crate) fn recalled(id: String, head: Head) -> Invocation {
        Invocation::of(id, head, Mode::Async, Moment::now(), false)
    }

    /// A durable one that goes on now, or that its row tells of.
    pub(crate) fn durable(id: String, head: Head, status: Status) -> Invocation {
        let now = Moment::now();
        let before_us = ms_since_1970(now.world).saturating_sub(head.accepted_ms).saturating_mul(1000);
        let invocation = Invocation { before_us, ..Invocation::of(id, head, Mode::Async, now, true) };
        invocation.lock().status = status;
        invocation
    }

    fn of(id: String, head: Head, mode: Mode, accepted: Moment, is_durable: bool) -> Invocation {
        let Head { call_id, trace, workflow, accepted_ms, content_types } = head;
        Invocation {
            id,
            call_id,
            trace,
            workflow,
            content_types,
            mode,
            accepted_ms,
            accepted_ns: accepted_ms.saturating_mul(1_000_000),
            begin: accepted.begin,
            begin_ns: accepted.ns,
            is_durable,
            before_us: 0,
            inner: Mutex::new(Inner {
                status: Status::Pending,
                points: Vec::new(),
                lines: Vec::new(),
                line_bytes: 0,
                lines_dropped: 0,
                end: None,
                recorded: false,
            }),
            long: AtomicBool::new(false),
            permit: Mutex::default(),
            changed: Notify::new(),
            cancel: Notify::new(),
        }
    }

    /// What it is.
    pub(crate) fn head(&self) -> Head {
        Head {
            call_id: self.call_id.clone(),
            trace: self.trace.clone(),
            workflow: self.workflow.clone(),
            accepted_ms: self.accepted_ms,
            content_types: self.content_types.clone(),
        }
    }

    /// What was recorded so far.
    pub(crate) fn printed(&self) -> Printed {
        let points = self.points();
        let (lines, lines_dropped) = self.lines();
        Printed { points, lines, lines_dropped }
    }

    /// Restores what an earlier server recorded.
    pub(crate) fn print(&self, printed: Printed) {
        let mut inner = self.lock();
        inner.line_bytes = printed.lines.iter().map(LogLine::size).sum();
        Printed { points: inner.points, lines: inner.lines, lines_dropped: inner.lines_dropped } = printed;
    }

    /// The permit to write a long report; there is one, as each needs memory for a copy of its text.
    pub(crate) async fn report_permit(&self) -> Option<SemaphorePermit<'static>> {
        static PERMIT: Semaphore = Semaphore::const_new(1);
        // The semaphore is never closed.
        if self.is_long() { PERMIT.acquire().await.ok() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is one statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed_us(&self) -> u64 {
        self.before_us + self.begin.elapsed().as_micros() as u64
    }

    pub(crate) fn status(&self) -> Status {
        self.lock().status
    }

    /// A worker process runs it from now on.
    pub(crate) fn set_running(&self) {
        self.lock().status = Status::Running;
        self.changed.notify_waiters();
    }

    /// Records the present point in time.
    pub(crate) fn point(&self, name: &'static str) {
        let at_us = self.elapsed_us();
        self.lock().points.push(Point { name: name.into(), at_us });
    }

    /// Records a point in time that its process has reported, unless the name is too long.
    pub(crate) fn point_at(&self, name: String, at_ns: u64) {
        if name.len() > POINT_NAME_MAX {
            return;
        }
        let at_us = self.before_us + at_ns.saturating_sub(self.begin_ns) / 1000;
        let mut inner = self.lock();
        // Both sides record some points; the first one counts.
        if inner.points.len() < POINTS_MAX && !inner.points.iter().any(|point| point.name == name) {
            inner.points.push(Point { name: name.into(), at_us });
        }
    }

    /// Keeps a line, as long as there is room.
    pub(crate) fn line(&self, step: String, instance: u32, stream: Stream, text: String) {
        let at_us = self.elapsed_us();
        let mut inner = self.lock();
        let line = LogLine { at_us, step, instance, stream, text };
        let bytes = line.size();
        if inner.line_bytes + bytes > LINES_MAX {
            inner.lines_dropped += 1;
            return;
        }
        inner.line_bytes += bytes;
        inner.lines.push(line);
        drop(inner);
        self.changed.notify_waiters();
    }

    /// What came of it, now.
    pub(crate) fn ending(
        &self,
        status: Status,
        report: Option<RunReport>,
        result: Result<Vec<(String, Content)>, ApiError>,
    ) -> Arc<End> {
        Arc::new(End { status, duration_us: self.elapsed_us(), report, result })
    }

    /// It has ended as its row tells.
    pub(crate) fn end_as_told(
        &self,
        status: Status,
        duration_us: u64,
        report: Option<RunReport>,
        result: Result<Vec<(String, Content)>, ApiError>,
    ) {
        self.end(Arc::new(End { status, duration_us, report, result }), true);
    }

    /// Ends it; later ends are passed over. `recorded` says whether its end outlives this server.
    pub(crate) fn end(&self, end: Arc<End>, recorded: bool) {
        let mut inner = self.lock();
        if inner.end.is_none() {
            inner.status = end.status;
            inner.end = Some(end);
            inner.recorded = recorded;
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Its report is long. If others wait until something has been made of it, this is what they wait for.
    pub(crate) fn set_long(&self, permit: Option<LargeMessagePermit>) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        self.long.store(true, Ordering::Relaxed);
    }

    /// Whatever has to be made of its report has been made, and what is too much forgotten.
    pub(crate) fn release_permit(&self) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether its report takes a while to write, or to count.
    pub(crate) fn is_long(&self) -> bool {
        self.long.load(Ordering::Relaxed)
    }

    /// Requests that it stops.
    pub(crate) fn cancel(&self) {
        self.cancel.notify_one();
    }

    /// Returns when a stop was requested.
    pub(crate) async fn cancelled(&self) {
        self.cancel.notified().await;
    }

    pub(crate) fn ended(&self) -> Option<Arc<End>> {
        self.lock().end.clone()
    }

    /// Waits for its end.
    pub(crate) async fn wait(&self) -> Arc<End> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            if let Some(end) = self.ended() {
                return end;
            }
            changed.await;
        }
    }

    /// The lines from number `from` on; waits until there are some. `None` when there will be no more.
    pub(crate) async fn lines_after(&self, from: usize) -> Option<Vec<LogLine>> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let inner = self.lock();
                if inner.lines.len() > from {
                    return Some(inner.lines[from..].to_vec());
                }
                if inner.end.is_some() {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// The lines there are, and how many there was no room for.
    pub(crate) fn lines(&self) -> (Vec<LogLine>, u64) {
        let inner = self.lock();
        (inner.lines.clone(), inner.lines_dropped)
    }

    /// When it was accepted (ns since 1970).
    pub(crate) fn accepted_ns(&self) -> u64 {
        self.accepted_ns
    }

    /// Its timeline, in order. Two processes record points, and those of the worker arrive later.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points = self.lock().points.clone();
        points.sort_by_key(|point| point.at_us);
        points
    }

    /// Bytes it takes to remember it, about.
    pub(crate) fn size(&self) -> u64 {
        let inner = self.lock();
        let report = inner.end.as_ref().and_then(|end| end.report.as_ref()).map_or(0, size::of_report);
        let result = inner.end.as_ref().map_or(0, |end| match &end.result {
            Ok(outputs) => outputs.iter().map(|(_, content)| content.len()).sum(),
            Err(refusal) => refusal.error.message.len() as u64,
        });
        let points: usize = inner.points.iter().map(|point| point.name.len() + OVERHEAD).sum();
        (size_of::<Invocation>() + points + inner.line_bytes + report) as u64 + result
    }

    /// A line of a list.
    pub(crate) fn summary(&self) -> Map<String, Value> {
        let inner = self.lock();
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        put("id", json!(self.id));
        put("call_id", json!(self.call_id));
        put("workflow", json!(self.workflow));
        put("mode", json!(self.mode));
        put("status", json!(inner.status));
        put("accepted_ms", json!(self.accepted_ms));
        put("traceparent", json!(self.trace.to_string()));
        put("durable", json!(self.is_durable));
        if let Some(end) = &inner.end {
            put("duration_us", json!(end.duration_us));
            if self.mode == Mode::Async && !self.is_durable {
                put("recorded", json!(inner.recorded));
            }
            if let Err(refusal) = &end.result {
                put("http_status", json!(refusal.status.as_u16()));
                put("error_kind", json!(refusal.error.kind));
            }
        }
        shown
    }

    /// The whole document, to be written as JSON.
    pub(crate) fn show(&self) -> Shown {
        let mut shown = self.summary();
        shown.insert("points".to_owned(), json!(self.points()));
        let inner = self.lock();
        shown.insert("lines".to_owned(), json!(inner.lines.len()));
        shown.insert("lines_dropped".to_owned(), json!(inner.lines_dropped));
        let end = inner.end.clone();
        drop(inner);
        let Some(end) = end else { return Shown { rest: shown, end: None } };
        match &end.result {
            Ok(outputs) => {
                let slots = outputs.iter().map(|(name, content)| (name.clone(), self.show_output(name, content)));
                shown.insert("result".to_owned(), slots.collect());
            }
            Err(refusal) => {
                // The report stands beside the error here.
                shown.insert("error".to_owned(), json!(refusal.error));
                shown.insert("error_status".to_owned(), json!(refusal.status.as_u16()));
            }
        }
        Shown { rest: shown, end: Some(end) }
    }

    /// A small output as it is, a large one by its address.
    fn show_output(&self, name: &str, content: &Content) -> Value {
        let mut shown = json!({ "bytes": content.len(), "content_type": self.content_type(name) });
        let path = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        shown["href"] = format!("/invocations/{}/outputs/{path}", self.id).into();
        if let Content::Small(bytes) = content {
            match std::str::from_utf8(bytes) {
                Ok(text) => shown["text"] = text.into(),
                Err(_) => shown["base64"] = BASE64.encode(bytes).into(),
            }
        }
        shown
    }

    /// What an output slot's bytes are.
    pub(crate) fn content_type(&self, slot: &str) -> &str {
        let typed = self.content_types.iter().find(|(name, _)| name == slot);
        typed.map_or("application/octet-stream", |(_, content_type)| content_type)
    }
}

impl LogLine {
    /// Bytes it takes, about.
    fn size(&self) -> usize {
        self.text.len() + self.step.len() + OVERHEAD
    }
}
