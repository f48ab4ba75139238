//! The invocations this server remembers: all that run, and those that have ended, within bounds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::invocations::invocation::Invocation;
use crate::invocations::status::Mode;
use crate::settings::Keep;

/// What is remembered.
pub(crate) struct History {
    keep: Keep,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    known: HashMap<String, Arc<Invocation>>,
    /// Asynchronous ones that have ended, the oldest first. Their results are nowhere else.
    owed: VecDeque<Ended>,
    /// Synchronous ones. They go first where there is no room for all.
    answered: VecDeque<Ended>,
    bytes: u64,
}

struct Ended {
    invocation: Arc<Invocation>,
    at: Instant,
    /// How old its end was then.
    age: Duration,
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

    /// Forgets a durable invocation that runs no longer: its row tells of it.
    pub(crate) fn leave(&self, invocation: &Arc<Invocation>) {
        let mut inner = self.lock();
        // It may go on already, as another one.
        if inner.known.get(&invocation.id).is_some_and(|known| Arc::ptr_eq(known, invocation)) {
            inner.known.remove(&invocation.id);
        }
    }

    /// Counts an invocation that has ended, and forgets what is then too much. Gives the ids of asynchronous ones among that.
    #[must_use = "what is forgotten has a record"]
    pub(crate) fn end(&self, invocation: &Arc<Invocation>) -> Vec<String> {
        self.recall(invocation, Duration::ZERO)
    }

    /// The same with one that ended a while ago; those that ended first come first.
    #[must_use = "what is forgotten has a record"]
    pub(crate) fn recall(&self, invocation: &Arc<Invocation>, age: Duration) -> Vec<String> {
        let bytes = invocation.size();
        let mut inner = self.lock();
        inner.known.entry(invocation.id.clone()).or_insert_with(|| invocation.clone());
        inner.bytes += bytes;
        let ended = Ended { invocation: invocation.clone(), at: Instant::now(), age, bytes };
        match invocation.mode {
            Mode::Async => inner.owed.push_back(ended),
            Mode::Sync => inner.answered.push_back(ended),
        }
        inner.forget(&self.keep)
    }

    /// Forgets what has been kept for long enough; the ids of asynchronous ones among that.
    #[must_use = "what is forgotten has a record"]
    pub(crate) fn sweep(&self) -> Vec<String> {
        self.lock().forget(&self.keep)
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
        self.lock().known.values().filter(|invocation| !invocation.status().is_final()).for_each(|i| i.cancel());
    }

    /// Number and bytes of what is remembered of the past.
    pub(crate) fn kept(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.owed.len() + inner.answered.len(), inner.bytes)
    }
}

impl Inner {
    fn forget(&mut self, keep: &Keep) -> Vec<String> {
        let mut forgotten = Vec::new();
        for ended in [&mut self.answered, &mut self.owed] {
            while let Some(oldest) = ended.front() {
                let old = oldest.age.saturating_add(oldest.at.elapsed()) > keep.time;
                if !old && ended.len() <= keep.number && self.bytes <= keep.bytes {
                    break;
                }
                if let Some(oldest) = ended.pop_front() {
                    self.bytes -= oldest.bytes;
                    self.known.remove(&oldest.invocation.id);
                    if oldest.invocation.mode == Mode::Async {
                        forgotten.push(oldest.invocation.id.clone());
                    }
                }
            }
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::http::error::ApiError;
    use crate::http::trace::Trace;
    use crate::invocations::status::Status;
    use hyper::HeaderMap;
    use monohull_workflow as workflow;
    use std::path::Path;
    use std::time::Duration;

    const NO_OP: &str = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;

    fn invocation() -> Arc<Invocation> {
        invocation_in(Mode::Async)
    }

    fn invocation_in(mode: Mode) -> Arc<Invocation> {
        let plan = workflow::load_str(Path::new("w.json"), NO_OP).expect("a workflow");
        Arc::new(Invocation::new(Moment::now(), None, Trace::of(&HeaderMap::new()), &plan, mode))
    }

    fn run(history: &History, text: &str) -> String {
        let invocation = invocation();
        history.begin(invocation.clone());
        invocation.line("s".to_owned(), 0, monohull_report::Stream::Stdout, text.to_owned());
        invocation.end(invocation.ending(Status::Completed, None, Ok(Vec::new())), true);
        let _ = history.end(&invocation);
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
        invocation.end(invocation.ending(Status::Failed, Some(report.into()), Err(ApiError::monohull(""))), true);
        assert!(invocation.size() > 200_000, "{}", invocation.size());
    }

    #[test]
    fn what_is_many_and_short_in_a_report_is_counted_as_the_memory_it_takes() {
        let report = serde_json::json!({
            "workflow": "w", "status": "done", "isolation": "process", "cold_start_us": 0, "duration_us": 0,
            "steps": [], "modules": vec![""; 10_000], "output": {}, "error": null,
        });
        let invocation = invocation();
        let report: monohull_report::RunReport = serde_json::from_value(report).expect("a report");
        invocation.end(invocation.ending(Status::Completed, Some(report.into()), Ok(Vec::new())), true);
        assert!(invocation.size() > 10_000 * size_of::<String>() as u64, "{}", invocation.size());
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
        let _ = history.sweep();
        assert!(history.find(&id).is_none());
        assert_eq!(history.kept(), (0, 0));
    }

    #[test]
    fn what_was_answered_goes_before_what_is_owed() {
        let history = History::new(Keep { number: 4, bytes: 64 << 10, time: Duration::from_secs(3600) });
        let run = |mode, text: &str| {
            let invocation = invocation_in(mode);
            history.begin(invocation.clone());
            invocation.line("s".to_owned(), 0, monohull_report::Stream::Stdout, text.to_owned());
            invocation.end(invocation.ending(Status::Completed, None, Ok(Vec::new())), true);
            (invocation.id.clone(), history.end(&invocation))
        };
        let (owed, _) = run(Mode::Async, "");
        for text in ["", "", "", "", "", "", &"x".repeat(100 << 10)] {
            assert!(run(Mode::Sync, text).1.is_empty(), "no record goes for one that has none");
        }
        assert!(history.find(&owed).is_some());
        assert_eq!(history.kept().0, 1, "the large one went, and those before it");
        let (newest, _) = run(Mode::Sync, "");
        let mut ids: Vec<_> = history.all().iter().map(|invocation| invocation.id.clone()).collect();
        ids.sort_by_key(|id| *id != newest);
        assert_eq!(ids, [newest, owed]);
    }

    #[test]
    fn what_ended_before_this_server_began_is_as_old_as_it_is() {
        let history = History::new(Keep { number: 100, bytes: 1 << 20, time: Duration::from_secs(3600) });
        let ended = |age: u64| {
            let invocation = invocation();
            invocation.end(invocation.ending(Status::Completed, None, Ok(Vec::new())), true);
            (invocation.id.clone(), history.recall(&invocation, Duration::from_secs(age)))
        };
        let (old, forgotten) = ended(3601);
        assert_eq!(forgotten, [old]);
        let (young, forgotten) = ended(3000);
        assert!(forgotten.is_empty() && history.find(&young).is_some());
        assert_eq!(history.kept().0, 1);
    }
}
