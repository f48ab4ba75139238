//! One invocation, from the request to what is remembered of it.
//!
//! ```text
//! queued ─▶ running ─▶ done | failed | cancelled
//!    └────────┴──────────────────────────┘
//! ```
//!
//! Whoever runs it writes here; whoever asks about it reads here, at the same time: the client that waits, clients that
//! follow its lines, and the page.

use std::borrow::Cow;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::body::Content;
use super::error::Refusal;
use super::trace::{Trace, random_id};
use crate::report::{RunReport, Stream};
use crate::workflow::Plan;

/// Bytes of printed lines that are kept of one invocation. Each instance's output is limited by its workflow; this bounds
/// all of them together.
const LINES_MAX: usize = 1 << 20;
/// The most points of a timeline.
const POINTS_MAX: usize = 1024;
/// The longest name of a point. A worker's own are shorter.
const POINT_NAME_MAX: usize = 64;
/// What a line or a point takes beside its text, about.
const OVERHEAD: usize = 96;

/// How far an invocation is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// Others come first.
    Queued,
    /// Its process has it.
    Running,
    /// It did its work.
    Done,
    /// It failed.
    Failed,
    /// Nobody wanted it any more.
    Cancelled,
}

impl Status {
    /// Whether it changes no more.
    pub(super) const fn is_final(self) -> bool {
        matches!(self, Status::Done | Status::Failed | Status::Cancelled)
    }

    /// Its name, as in JSON.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Status::Queued => "queued",
            Status::Running => "running",
            Status::Done => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

/// Whether somebody waits for the answer on the same connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Sync,
    Async,
}

/// A moment on an invocation's timeline.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Point {
    pub(super) name: Cow<'static, str>,
    /// Microseconds since the request was accepted.
    pub(super) at_us: u64,
}

/// A line that a function has printed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LogLine {
    pub(super) at_us: u64,
    pub(super) step: String,
    pub(super) instance: u32,
    pub(super) stream: Stream,
    pub(super) text: String,
}

/// What came of an invocation.
#[derive(Debug)]
pub(super) struct End {
    pub(super) status: Status,
    pub(super) duration_us: u64,
    /// What the workflow's process told, if it told anything. Printed lines are kept apart.
    pub(super) report: Option<RunReport>,
    /// The output slots, by name.
    pub(super) result: Result<Vec<(String, Content)>, Refusal>,
}

/// One invocation.
#[derive(Debug)]
pub(super) struct Invocation {
    /// Names it in this server.
    pub(super) id: String,
    /// Names it for the client.
    pub(super) call_id: String,
    pub(super) trace: Trace,
    pub(super) plan: Arc<Plan>,
    pub(super) mode: Mode,
    /// When it was accepted, on the clock of the world.
    accepted: SystemTime,
    /// The same on the clock that does not jump.
    pub(super) begin: Instant,
    pub(super) begin_ns: u64,
    inner: Mutex<Inner>,
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
}

/// Counts what is written to it.
struct Count(usize);

impl io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// When a request was accepted, on all clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    world: SystemTime,
    pub(super) begin: Instant,
    ns: u64,
}

impl Moment {
    pub(super) fn now() -> Moment {
        Moment { world: SystemTime::now(), begin: Instant::now(), ns: crate::domain::carrier::monotonic_ns() }
    }
}

impl Invocation {
    pub(super) fn new(
        accepted: Moment,
        call_id: Option<String>,
        trace: Trace,
        plan: Arc<Plan>,
        mode: Mode,
    ) -> Invocation {
        let id = random_id();
        Invocation {
            call_id: call_id.unwrap_or_else(|| id.clone()),
            id,
            trace,
            plan,
            mode,
            accepted: accepted.world,
            begin: accepted.begin,
            begin_ns: accepted.ns,
            inner: Mutex::new(Inner {
                status: Status::Queued,
                points: vec![Point { name: "accepted".into(), at_us: 0 }],
                lines: Vec::new(),
                line_bytes: 0,
                lines_dropped: 0,
                end: None,
            }),
            changed: Notify::new(),
            cancel: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Each change is one statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed_us(&self) -> u64 {
        self.begin.elapsed().as_micros() as u64
    }

    pub(super) fn status(&self) -> Status {
        self.lock().status
    }

    /// Its process has it from now on.
    pub(super) fn set_running(&self) {
        self.lock().status = Status::Running;
        self.changed.notify_waiters();
    }

    /// Marks a moment that is now.
    pub(super) fn point(&self, name: &'static str) {
        let at_us = self.elapsed_us();
        self.lock().points.push(Point { name: name.into(), at_us });
    }

    /// Marks a moment that its process has told of, if it is called like one.
    pub(super) fn point_at(&self, name: String, at_ns: u64) {
        if name.len() > POINT_NAME_MAX {
            return;
        }
        let at_us = at_ns.saturating_sub(self.begin_ns) / 1000;
        let mut inner = self.lock();
        // Both sides mark some moments; the first word counts.
        if inner.points.len() < POINTS_MAX && !inner.points.iter().any(|point| point.name == name) {
            inner.points.push(Point { name: name.into(), at_us });
        }
    }

    /// Keeps a line, as long as there is room.
    pub(super) fn line(&self, step: String, instance: u32, stream: Stream, text: String) {
        let at_us = self.elapsed_us();
        let mut inner = self.lock();
        let bytes = text.len() + step.len() + OVERHEAD;
        if inner.line_bytes + bytes > LINES_MAX {
            inner.lines_dropped += 1;
            return;
        }
        inner.line_bytes += bytes;
        inner.lines.push(LogLine { at_us, step, instance, stream, text });
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Ends it; later ends are passed over.
    pub(super) fn end(
        &self,
        status: Status,
        report: Option<RunReport>,
        result: Result<Vec<(String, Content)>, Refusal>,
    ) {
        let end = Arc::new(End { status, duration_us: self.elapsed_us(), report, result });
        let mut inner = self.lock();
        if inner.end.is_none() {
            inner.status = status;
            inner.end = Some(end);
        }
        drop(inner);
        self.changed.notify_waiters();
    }

    /// Asks whoever runs it to stop.
    pub(super) fn cancel(&self) {
        self.cancel.notify_one();
    }

    /// Comes back once somebody wants it stopped.
    pub(super) async fn cancelled(&self) {
        self.cancel.notified().await;
    }

    pub(super) fn ended(&self) -> Option<Arc<End>> {
        self.lock().end.clone()
    }

    /// Waits for its end.
    pub(super) async fn wait(&self) -> Arc<End> {
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
    pub(super) async fn lines_after(&self, from: usize) -> Option<Vec<LogLine>> {
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
    pub(super) fn lines(&self) -> (Vec<LogLine>, u64) {
        let inner = self.lock();
        (inner.lines.clone(), inner.lines_dropped)
    }

    /// Its timeline, in order: two processes write it, and one of them hears of the other's moments later.
    pub(super) fn points(&self) -> Vec<Point> {
        let mut points = self.lock().points.clone();
        points.sort_by_key(|point| point.at_us);
        points
    }

    /// Bytes it takes to remember it, about.
    pub(super) fn size(&self) -> u64 {
        let inner = self.lock();
        // In memory it takes about as much as in JSON, and its strings are a worker's to choose.
        let mut report = Count(0);
        if let Some(told) = inner.end.as_ref().and_then(|end| end.report.as_ref()) {
            // Counting does not fail.
            let _ = serde_json::to_writer(&mut report, told);
        }
        let result = inner.end.as_ref().map_or(0, |end| match &end.result {
            Ok(outputs) => outputs.iter().map(|(_, content)| content.len()).sum(),
            Err(refusal) => refusal.error.message.len() as u64,
        });
        let points: usize = inner.points.iter().map(|point| point.name.len() + OVERHEAD).sum();
        (size_of::<Invocation>() + points + inner.line_bytes + report.0) as u64 + result
    }

    /// A line of a list.
    pub(super) fn summary(&self) -> Map<String, Value> {
        let inner = self.lock();
        let accepted = self.accepted.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
        let mut shown = Map::new();
        let mut put = |name: &str, value: Value| shown.insert(name.to_owned(), value);
        put("id", json!(self.id));
        put("call_id", json!(self.call_id));
        put("workflow", json!(self.plan.name));
        put("mode", json!(self.mode));
        put("status", json!(inner.status));
        put("accepted_ms", json!(accepted));
        put("traceparent", json!(self.trace.to_string()));
        if let Some(end) = &inner.end {
            put("duration_us", json!(end.duration_us));
            if let Err(refusal) = &end.result {
                put("http_status", json!(refusal.status.as_u16()));
                put("error_kind", json!(refusal.error.kind));
            }
        }
        shown
    }

    /// Everything there is to tell, as JSON.
    pub(super) fn show(&self) -> Value {
        let mut shown = self.summary();
        shown.insert("points".to_owned(), json!(self.points()));
        let inner = self.lock();
        shown.insert("lines".to_owned(), json!(inner.lines.len()));
        shown.insert("lines_dropped".to_owned(), json!(inner.lines_dropped));
        let end = inner.end.clone();
        drop(inner);
        let Some(end) = end else { return Value::Object(shown) };
        match &end.result {
            Ok(outputs) => {
                let slots = outputs.iter().map(|(name, content)| (name.clone(), self.show_output(name, content)));
                shown.insert("result".to_owned(), slots.collect());
            }
            Err(refusal) => {
                // The report stands beside the error here.
                shown.insert("error".to_owned(), json!(refusal.error));
            }
        }
        shown.insert("report".to_owned(), json!(end.report));
        Value::Object(shown)
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
    pub(super) fn content_type(&self, slot: &str) -> &str {
        let output = self.plan.outputs.iter().find(|output| output.slot == slot);
        output.and_then(|output| output.content_type.as_deref()).unwrap_or("application/octet-stream")
    }
}
