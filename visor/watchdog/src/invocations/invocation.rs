//! One invocation, from the request to what is remembered of it.
//!
//! ```text
//! pending ─▶ running ─▶ completed | failed | cancelled | suspended: it goes on as a durable one, from the ledger
//!    └──────────┴─────────────────────────────┘
//! ```
//!
//! Of an invocation that the ledger has there is one of these while a process runs it, from a commit to the next, and one is made of its row
//! for those who ask about it.
//!
//! The task that runs it writes here; others read here at the same time: the client that waits, clients that
//! follow its lines, and the page.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::clock::{Moment, ms_since_1970, ns_since_1970};
use crate::http::content::Content;
use crate::http::error::ApiError;
use crate::http::trace::Trace;
use crate::ids::random_id;
use crate::invocations::lines::Lines;
use crate::invocations::record::{End, Head, LogLine, OVERHEAD, Point, Printed};
use crate::invocations::report::Report;
use crate::invocations::status::{Mode, Status};
use crate::invocations::workers::LargeMessagePermit;
use monohull_report::Stream;
use monohull_workflow::Plan;

/// The most points of a timeline.
const POINTS_MAX: usize = 1024;
/// The longest name of a point. A worker's own are shorter.
const POINT_NAME_MAX: usize = 64;

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
    pub(super) content_types: Vec<(String, String)>,
    pub(crate) mode: Mode,
    /// When it was accepted: milliseconds since 1970.
    pub(super) accepted_ms: u64,
    /// The same in ns, as far as it is known.
    accepted_ns: u64,
    /// The same on the clock that does not jump. Of an earlier server's, when this one read it.
    pub(crate) begin: Instant,
    /// When all of its request was there. Its time begins here: how long a body takes to come is up to the client, and limited elsewhere.
    pub(crate) received: Instant,
    pub(crate) begin_ns: u64,
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
pub(super) struct Inner {
    pub(super) status: Status,
    points: Vec<Point>,
    pub(super) lines: Lines,
    pub(super) end: Option<Arc<End>>,
    is_cancelled: bool,
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
        let mut invocation = Invocation::of(id, head, mode, accepted);
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

    /// One that goes on now, or that its row tells of.
    pub(crate) fn durable(id: String, head: Head, status: Status) -> Invocation {
        let now = Moment::now();
        let before_us = ms_since_1970(now.world).saturating_sub(head.accepted_ms).saturating_mul(1000);
        let invocation = Invocation { before_us, ..Invocation::of(id, head, Mode::Async, now) };
        invocation.lock().status = status;
        invocation
    }

    fn of(id: String, head: Head, mode: Mode, accepted: Moment) -> Invocation {
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
            received: Instant::now(),
            begin_ns: accepted.ns,
            before_us: 0,
            inner: Mutex::new(Inner {
                status: Status::Pending,
                points: Vec::new(),
                lines: Lines::default(),
                end: None,
                is_cancelled: false,
            }),
            long: AtomicBool::new(false),
            permit: Mutex::default(),
            changed: Notify::new(),
            cancel: Notify::new(),
        }
    }

    /// Whether it is in the ledger from its start.
    pub(crate) fn is_durable(&self) -> bool {
        self.mode == Mode::Async
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

    /// Restores what its row has.
    pub(crate) fn print(&self, printed: Printed) {
        let mut inner = self.lock();
        inner.points = printed.points;
        inner.lines = Lines::restored(printed.lines, printed.lines_dropped);
    }

    /// The permit to write a long report; there is one, as each needs memory for a copy of its text.
    pub(crate) async fn report_permit(&self) -> Option<SemaphorePermit<'static>> {
        static PERMIT: Semaphore = Semaphore::const_new(1);
        // The semaphore is never closed.
        if self.is_long() { PERMIT.acquire().await.ok() } else { None }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // No change ends in its midst.
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
        let at_us = self.at_us(at_ns);
        add_point(&mut self.lock().points, name, at_us);
    }

    /// Microseconds from its acceptance to a point in time.
    fn at_us(&self, at_ns: u64) -> u64 {
        self.before_us + at_ns.saturating_sub(self.begin_ns) / 1000
    }

    /// Keeps a line, as long as there is room.
    pub(crate) fn line(&self, step: String, instance: u32, stream: Stream, text: String) {
        let at_us = self.elapsed_us();
        let is_kept = self.lock().lines.add(LogLine { at_us, step, instance, stream, text });
        if is_kept {
            self.changed.notify_waiters();
        }
    }

    /// What came of it, now.
    pub(crate) fn ending(
        &self,
        status: Status,
        report: Option<Report>,
        result: Result<Vec<(String, Content)>, ApiError>,
    ) -> Arc<End> {
        Arc::new(End { status, duration_us: self.elapsed_us(), report, result, stored: Vec::new() })
    }

    /// It has ended, which its row tells. One that was found to run before is shown as running, and its row is found by those that ask again.
    pub(crate) fn end_in_row(&self) {
        self.end(self.ending(Status::Running, None, Ok(Vec::new())));
    }

    /// Ends it; later ends are passed over.
    pub(crate) fn end(&self, end: Arc<End>) {
        let mut inner = self.lock();
        if inner.end.is_none() {
            inner.status = end.status;
            inner.lines.end();
            inner.end = Some(end);
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

    /// Requests that it stops, at the end of the server.
    pub(crate) fn stop(&self) {
        self.cancel.notify_one();
    }

    /// Requests that it stops, for good. How it had ended by then, if it had.
    pub(crate) fn cancel(&self) -> Option<Arc<End>> {
        let mut inner = self.lock();
        inner.is_cancelled = true;
        let end = inner.end.clone();
        drop(inner);
        self.stop();
        end
    }

    /// Whether it was requested to stop for good.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.lock().is_cancelled
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

    /// The lines from number `from` on, as many as are sent at a time; waits until there are some. `None` when there will be no more.
    pub(crate) async fn lines_after(&self, from: usize) -> Option<Vec<LogLine>> {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let inner = self.lock();
                if let Some(lines @ [_, ..]) = inner.lines.kept().get(from..) {
                    return Some(LogLine::piece_of(lines).to_vec());
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
        (inner.lines.kept().to_vec(), inner.lines.dropped())
    }

    /// When it was accepted (ns since 1970).
    pub(crate) fn accepted_ns(&self) -> u64 {
        self.accepted_ns
    }

    /// Its timeline, in order. Two processes record points, and those of the worker arrive later.
    pub(crate) fn points(&self) -> Vec<Point> {
        self.points_with(self.ended().as_deref())
    }

    /// The same with those of the report of an end that is not told yet.
    pub(crate) fn points_with(&self, end: Option<&End>) -> Vec<Point> {
        let mut points = self.lock().points.clone();
        let packed = end.iter().filter_map(|end| end.report.as_ref()).flat_map(Report::timeline);
        for point in packed.filter(|point| point.name.len() <= POINT_NAME_MAX) {
            add_point(&mut points, point.name, self.at_us(point.at_ns));
        }
        points.sort_by_key(|point| point.at_us);
        points
    }

    /// Bytes it takes to remember it with this end, about.
    pub(crate) fn size(&self, end: &End) -> u64 {
        let inner = self.lock();
        let report = end.report.as_ref().map_or(0, Report::size);
        let result = match &end.result {
            Ok(outputs) => outputs.iter().map(|(_, content)| content.len()).sum(),
            Err(refusal) => refusal.error.message.len() as u64,
        };
        let points: usize = inner.points.iter().map(|point| point.name.len() + OVERHEAD).sum();
        (size_of::<Invocation>() + points + inner.lines.bytes() + report) as u64 + result
    }
}

/// Both sides record some points; the first one counts.
fn add_point(points: &mut Vec<Point>, name: String, at_us: u64) {
    if points.len() < POINTS_MAX && !points.iter().any(|point| point.name == name) {
        points.push(Point { name: name.into(), at_us });
    }
}
