//! Templates of functions: at most one for each version of a workflow, in memory.
//!
//! ```text
//!   an instance has said that it is ready ─▶ Wanted ─▶ a process makes one ─▶ [ least recently used | … | most recently used ]
//!                                                       ├─▶ Later: calls waited for its place
//!                                                       └─▶ Refused: why     goes first when there are too many, or too many bytes
//! ```
//!
//! A workflow that is changed is another one here, so it has no template until it has one of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use monohull_engine::Ready;
use monohull_worker::Template;

/// The most entries. One without a template is a reason, or that one is being made.
const ENTRIES_MAX: usize = 256;

/// The most that are made at a time. Each takes a process for as long as its function takes to be ready.
const MAKING_MAX: usize = 4;

/// How long it takes until one that was given up for calls is tried again, at least.
const PAUSE: Duration = Duration::from_secs(10);

/// The templates.
pub(crate) struct Templates {
    entries: Mutex<VecDeque<Entry>>,
    /// The most bytes of all together.
    limit: u64,
    /// The most that are made at a time.
    making_max: usize,
}

struct Entry {
    workflow: Weak<Ready>,
    state: State,
}

#[derive(Clone)]
enum State {
    /// A process makes it.
    Making,
    /// It is there.
    Made(Arc<Template>),
    /// It was given up, and is not tried before this time.
    Later(Instant),
    /// There will be none of this version, for this reason.
    Refused(Arc<str>),
}

/// What there is of a workflow.
pub(crate) enum Found {
    /// Nothing: one may be made.
    Nothing,
    /// One is being made, or will be later.
    Making,
    /// One that instances start from.
    Template(Arc<Template>),
    /// Why there is none.
    Refused(Arc<str>),
}

impl Entry {
    fn is_of(&self, workflow: &Arc<Ready>) -> bool {
        std::ptr::eq(self.workflow.as_ptr(), Arc::as_ptr(workflow))
    }

    fn is_making(&self) -> bool {
        matches!(self.state, State::Making)
    }

    /// It was given up, and may be tried again.
    fn is_due(&self) -> bool {
        matches!(self.state, State::Later(at) if at <= Instant::now())
    }

    fn bytes(&self) -> u64 {
        match &self.state {
            State::Made(template) => template.bytes(),
            _ => 0,
        }
    }
}

impl Templates {
    /// None, and at most so many bytes later; 0 bytes for none ever. So many processes may run: one of them is left to calls, if there are more.
    pub(crate) fn new(limit: u64, concurrency: usize) -> Templates {
        Templates { entries: Mutex::default(), limit, making_max: concurrency.saturating_sub(1).clamp(1, MAKING_MAX) }
    }

    /// What there is of this version of a workflow.
    pub(crate) fn find(&self, workflow: &Arc<Ready>) -> Found {
        let mut entries = self.lock();
        let Some(index) = entries.iter().rposition(|entry| entry.is_of(workflow)) else { return Found::Nothing };
        let Some(entry) = entries.remove(index) else { return Found::Nothing };
        let state = entry.state.clone();
        entries.push_back(entry);
        match state {
            State::Later(at) if at <= Instant::now() => Found::Nothing,
            State::Making | State::Later(_) => Found::Making,
            State::Made(template) => Found::Template(template),
            State::Refused(why) => Found::Refused(why),
        }
    }

    /// One is to be made; false if that is done already, none is wanted, or too many others are being made.
    pub(crate) fn begin(&self, workflow: &Arc<Ready>) -> bool {
        let mut entries = self.lock();
        entries.retain(|entry| entry.workflow.strong_count() > 0 && !entry.is_due());
        if self.limit == 0 || entries.iter().any(|entry| entry.is_of(workflow)) {
            return false;
        }
        if entries.iter().filter(|entry| entry.is_making()).count() >= self.making_max {
            return false;
        }
        entries.push_back(Entry { workflow: Arc::downgrade(workflow), state: State::Making });
        self.shrink(&mut entries);
        true
    }

    /// The most bytes of one.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// It has been made.
    pub(crate) fn put(&self, workflow: &Arc<Ready>, template: Template) {
        self.set(workflow, State::Made(Arc::new(template)));
    }

    /// There is none of this version of the workflow, for this reason.
    pub(crate) fn refuse(&self, workflow: &Arc<Ready>, why: &str) {
        self.set(workflow, State::Refused(why.into()));
    }

    /// Calls waited for the place in which it was made: it is tried again after a pause.
    pub(crate) fn put_off(&self, workflow: &Arc<Ready>) {
        self.set(workflow, State::Later(Instant::now() + PAUSE));
    }

    /// None is being made any more, for a reason that has nothing to do with the workflow: it may be tried again.
    pub(crate) fn forget(&self, workflow: &Arc<Ready>) {
        self.lock().retain(|entry| !entry.is_of(workflow));
    }

    /// Drops those whose workflow is gone or has another version.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|entry| entry.workflow.strong_count() > 0);
    }

    /// How many templates there are, and their bytes.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let entries = self.lock();
        let made = entries.iter().filter(|entry| matches!(entry.state, State::Made(_)));
        made.fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.bytes()))
    }

    fn set(&self, workflow: &Arc<Ready>, state: State) {
        let mut entries = self.lock();
        if let Some(entry) = entries.iter_mut().find(|entry| entry.is_of(workflow)) {
            entry.state = state;
            self.shrink(&mut entries);
        }
    }

    /// Drops what was not used for longest until all are within their limits. What is being made stays: it counts until its process has ended.
    fn shrink(&self, entries: &mut VecDeque<Entry>) {
        while entries.len() > ENTRIES_MAX || entries.iter().map(Entry::bytes).sum::<u64>() > self.limit {
            let is_much = entries.len() > ENTRIES_MAX;
            let oldest = entries.iter().position(|entry| entry.bytes() > 0 || is_much && !entry.is_making());
            match oldest {
                Some(index) => drop(entries.remove(index)),
                None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn workflow() -> Arc<Ready> {
        let document = r#"{"name":"w","functions":{"f":{"image":"f"}},"steps":[{"name":"s","function":"f"}]}"#;
        let plan = monohull_workflow::load_str(Path::new("w.json"), document).expect("a workflow");
        Arc::new(Ready::of_parts(Arc::new(plan), Vec::new(), 1))
    }

    #[test]
    fn so_many_are_made_at_a_time_and_each_counts_until_its_process_has_ended() {
        let templates = Templates::new(1 << 20, 100);
        let all: Vec<_> = (0..ENTRIES_MAX + 8).map(|_| workflow()).collect();
        let (making, others) = all.split_at(MAKING_MAX);
        assert!(making.iter().all(|workflow| templates.begin(workflow)));
        assert!(!templates.begin(&others[0]), "as many as may be are being made");
        // However many reasons there are: what is being made is not forgotten for them.
        templates.refuse(&making[0], "for a reason");
        for workflow in others {
            assert!(templates.begin(workflow));
            templates.refuse(workflow, "for a reason");
        }
        assert!(making[1..].iter().all(|workflow| matches!(templates.find(workflow), Found::Making)));
        let more = [workflow(), workflow()];
        assert!(templates.begin(&more[0]) && !templates.begin(&more[1]));
        templates.forget(&making[1]);
        assert!(templates.begin(&more[1]));
    }

    #[test]
    fn one_place_is_left_to_calls_and_what_was_given_up_for_them_is_not_tried_at_once() {
        for (concurrency, most) in [(1, 1), (2, 1), (3, 2), (64, MAKING_MAX)] {
            let templates = Templates::new(1 << 20, concurrency);
            let all: Vec<_> = (0..=most).map(|_| workflow()).collect();
            let begun = all.iter().filter(|workflow| templates.begin(workflow)).count();
            assert_eq!(begun, most, "{concurrency}");
            templates.put_off(&all[0]);
            assert!(matches!(templates.find(&all[0]), Found::Making) && !templates.begin(&all[0]), "it is to be later");
            assert!(templates.begin(&all[most]), "it takes no place");
        }
    }
}
