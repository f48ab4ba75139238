//! The invocations in this server's memory: all that run, and those that have ended and that nothing else tells of, within bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::invocations::invocation::Invocation;
use crate::invocations::record::End;
use crate::settings::Keep;

/// What is remembered.
pub(crate) struct History {
    keep: Keep,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<String, Arc<Invocation>>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<Ended>,
    bytes: u64,
}

struct Ended {
    invocation: Arc<Invocation>,
    at: Instant,
    bytes: u64,
}

impl History {
    pub(crate) fn new(keep: Keep) -> History {
        History { keep, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an invocation that begins. How many can run or wait is bounded elsewhere.
    pub(crate) fn begin(&self, invocation: Arc<Invocation>) {
        self.lock().known.insert(invocation.id.clone(), invocation);
    }

    /// Forgets an invocation that runs no longer, and that its row tells of.
    pub(crate) fn leave(&self, invocation: &Arc<Invocation>) {
        let mut inner = self.lock();
        // It may go on already, as another one.
        if inner.known.get(&invocation.id).is_some_and(|known| Arc::ptr_eq(known, invocation)) {
            inner.known.remove(&invocation.id);
        }
    }

    /// Counts an invocation that ends like this, and forgets what is then too much.
    pub(crate) fn end(&self, invocation: &Arc<Invocation>, end: &End) {
        let bytes = invocation.size(end);
        let mut inner = self.lock();
        inner.bytes += bytes;
        inner.ended.push_back(Ended { invocation: invocation.clone(), at: Instant::now(), bytes });
        inner.forget(&self.keep);
    }

    /// Forgets what has been kept for long enough.
    pub(crate) fn sweep(&self) {
        self.lock().forget(&self.keep);
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Invocation>> {
        self.lock().known.get(id).cloned()
    }

    /// All of them, in no order.
    pub(crate) fn all(&self) -> Vec<Arc<Invocation>> {
        self.lock().known.values().cloned().collect()
    }

    /// Stops everything that runs or waits.
    pub(crate) fn cancel_all(&self) {
        self.lock().known.values().filter(|invocation| !invocation.status().is_final()).for_each(|i| i.stop());
    }

    /// Number and bytes of what is remembered of the past.
    pub(crate) fn kept(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.ended.len(), inner.bytes)
    }
}

impl Inner {
    fn forget(&mut self, keep: &Keep) {
        while let Some(oldest) = self.ended.front() {
            let old = oldest.at.elapsed() > keep.time;
            if !old && self.ended.len() <= keep.number && self.bytes <= keep.bytes {
                break;
            }
            if let Some(oldest) = self.ended.pop_front() {
                self.bytes -= oldest.bytes;
                self.known.remove(&oldest.invocation.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::http::error::ApiError;
    use crate::http::trace::Trace;
    use crate::invocations::status::{Mode, Status};
    use hyper::HeaderMap;
    use monohull_workflow as workflow;
    use std::path::Path;
    use std::time::Duration;

    const NO_OP: &str = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;

    fn invocation() -> Arc<Invocation> {
        let plan = workflow::load_str(Path::new("w.json"), NO_OP).expect("a workflow");
        Arc::new(Invocation::new(Moment::now(), None, Trace::of(&HeaderMap::new()), &plan, Mode::Sync))
    }

    fn run(history: &History, text: &str) -> String {
        let invocation = invocation();
        history.begin(invocation.clone());
        invocation.line("s".to_owned(), 0, monohull_report::Stream::Stdout, text.to_owned());
        let end = invocation.ending(Status::Completed, None, Ok(Vec::new()));
        history.end(&invocation, &end);
        invocation.end(end);
        invocation.id.clone()
    }

    #[test]
    fn the_oldest_goes_first_and_what_runs_stays() {
        let history = History::new(Keep { number: 2, bytes: 1 << 20, time: Duration::from_secs(3600) });
        let running = invocation();
        history.begin(running.clone());
        let ids: Vec<String> = (0..4).map(|_| run(&history, "")).collect();
        let found: Vec<bool> = ids.iter().map(|id| history.find(id).is_some()).collect();
        assert_eq!(found, [false, false, true, true]);
        assert!(history.find(&running.id).is_some());
        assert_eq!(history.all().len(), 3);
    }

    /// A worker chooses what its report says.
    #[test]
    fn the_size_of_a_report_is_counted() {
        let long = "x".repeat(100_000);
        let error = serde_json::json!({ "kind": "panic", "blame": "function", "message": long });
        let report = serde_json::json!({
            "workflow": "w", "status": "failed", "isolation": "process", "cold_start_us": 0, "duration_us": 0,
            "steps": [], "modules": [long], "output": {}, "error": error,
        });
        let invocation = invocation();
        let report: monohull_report::RunReport = serde_json::from_value(report).expect("a report");
        let size =
            invocation.size(&invocation.ending(Status::Failed, Some(report.into()), Err(ApiError::monohull(""))));
        assert!(size > 200_000, "{size}");
    }

    #[test]
    fn what_is_many_and_short_in_a_report_is_counted_as_the_memory_it_takes() {
        let report = serde_json::json!({
            "workflow": "w", "status": "done", "isolation": "process", "cold_start_us": 0, "duration_us": 0,
            "steps": [], "modules": vec![""; 10_000], "output": {}, "error": null,
        });
        let invocation = invocation();
        let report: monohull_report::RunReport = serde_json::from_value(report).expect("a report");
        let size = invocation.size(&invocation.ending(Status::Completed, Some(report.into()), Ok(Vec::new())));
        assert!(size > 10_000 * size_of::<String>() as u64, "{size}");
    }

    #[test]
    fn bytes_and_time_bound_it_too() {
        let history = History::new(Keep { number: 100, bytes: 8 << 10, time: Duration::from_secs(3600) });
        for _ in 0..20 {
            run(&history, &"x".repeat(2000));
        }
        let (number, bytes) = history.kept();
        assert!((1..=4).contains(&number) && bytes <= 8 << 10, "{number} {bytes}");

        let history = History::new(Keep { number: 100, bytes: 1 << 20, time: Duration::ZERO });
        let id = run(&history, "");
        history.sweep();
        assert!(history.find(&id).is_none());
        assert_eq!(history.kept(), (0, 0));
    }
}
