//! Templates of functions: at most one for each instance that may have one of each version of a workflow, in memory.
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
use monohull_workflow::plan::TEMPLATES_MAX;

/// The most entries, those of 1024 workflows with as many as there may be. One without a template is a reason, or that one is being made.
const ENTRIES_MAX: usize = 1024 * TEMPLATES_MAX;

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

/// Whose a template is: a workflow's, and there the instance's of this cell.
type Of<'w> = (&'w Arc<Ready>, usize);

struct Entry {
    workflow: Weak<Ready>,
    cell: usize,
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

/// What there is of an instance of a workflow.
pub(crate) enum Found {
    /// Nothing: one may be made.
    Nothing,
    /// One is being made, or will be later.
    Making,
    /// One that instances start from.
    Template,
    /// Why there is none.
    Refused(Arc<str>),
}

impl Entry {
    fn is_of_workflow(&self, workflow: &Arc<Ready>) -> bool {
        std::ptr::eq(self.workflow.as_ptr(), Arc::as_ptr(workflow))
    }

    fn is_of(&self, (workflow, cell): Of<'_>) -> bool {
        self.cell == cell && self.is_of_workflow(workflow)
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

    /// Those of this version of a workflow. They are used now.
    pub(crate) fn made(&self, workflow: &Arc<Ready>) -> Vec<Arc<Template>> {
        let mut entries = self.lock();
        if !entries.iter().any(|entry| entry.is_of_workflow(workflow)) {
            return Vec::new();
        }
        used(&mut entries, workflow);
        let own = entries.iter().filter(|entry| entry.is_of_workflow(workflow));
        own.filter_map(|entry| if let State::Made(template) = &entry.state { Some(template.clone()) } else { None })
            .collect()
    }

    /// What there is of an instance of this version of a workflow.
    pub(crate) fn find(&self, of: Of<'_>) -> Found {
        let entries = self.lock();
        match entries.iter().rfind(|entry| entry.is_of(of)).map(|entry| &entry.state) {
            None => Found::Nothing,
            Some(State::Later(at)) if *at <= Instant::now() => Found::Nothing,
            Some(State::Making | State::Later(_)) => Found::Making,
            Some(State::Made(_)) => Found::Template,
            Some(State::Refused(why)) => Found::Refused(why.clone()),
        }
    }

    /// One is to be made; false if that is done already, none is wanted, or too many others are being made.
    pub(crate) fn begin(&self, of: Of<'_>) -> bool {
        let mut entries = self.lock();
        entries.retain(|entry| entry.workflow.strong_count() > 0 && !entry.is_due());
        if self.limit == 0 || entries.iter().any(|entry| entry.is_of(of)) {
            return false;
        }
        if entries.iter().filter(|entry| entry.is_making()).count() >= self.making_max {
            return false;
        }
        entries.push_back(Entry { workflow: Arc::downgrade(of.0), cell: of.1, state: State::Making });
        self.shrink(&mut entries);
        true
    }

    /// The most bytes of one.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// It has been made. One for which there is no room beside the others of its workflow is not kept: each would be made again and again in the place
    /// of another.
    pub(crate) fn put(&self, of: Of<'_>, template: Template) {
        let own: u64 = {
            let entries = self.lock();
            entries.iter().filter(|entry| entry.is_of_workflow(of.0) && !entry.is_of(of)).map(Entry::bytes).sum()
        };
        if own + template.bytes() > self.limit {
            let why = format!("with those of the workflow's other instances it has more than {} bytes", self.limit);
            return self.refuse(of, &why);
        }
        self.set(of, State::Made(Arc::new(template)));
    }

    /// There is none of this instance, in this version of the workflow, for this reason.
    pub(crate) fn refuse(&self, of: Of<'_>, why: &str) {
        self.set(of, State::Refused(why.into()));
    }

    /// Calls waited for the place in which it was made: it is tried again after a pause.
    pub(crate) fn put_off(&self, of: Of<'_>) {
        self.set(of, State::Later(Instant::now() + PAUSE));
    }

    /// None is being made any more, for a reason that has nothing to do with the workflow: it may be tried again.
    pub(crate) fn forget(&self, of: Of<'_>) {
        self.lock().retain(|entry| !entry.is_of(of));
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

    fn set(&self, of: Of<'_>, state: State) {
        let mut entries = self.lock();
        if let Some(index) = entries.iter().position(|entry| entry.is_of(of)) {
            entries[index].state = state;
            // What has just been made is not what goes for it, nor are the others of its workflow.
            used(&mut entries, of.0);
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

/// Those of a workflow are the ones that were used last.
fn used(entries: &mut VecDeque<Entry>, workflow: &Arc<Ready>) {
    let is_own = |entry: &Entry| entry.is_of_workflow(workflow);
    if !entries.iter().rev().skip_while(|entry| is_own(entry)).any(is_own) {
        return;
    }
    let (own, others): (VecDeque<_>, VecDeque<_>) = entries.drain(..).partition(is_own);
    *entries = others;
    entries.extend(own);
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
        assert!(making.iter().all(|workflow| templates.begin((workflow, 0))));
        assert!(!templates.begin((&others[0], 0)), "as many as may be are being made");
        // However many reasons there are: what is being made is not forgotten for them.
        templates.refuse((&making[0], 0), "for a reason");
        for workflow in others {
            assert!(templates.begin((workflow, 0)));
            templates.refuse((workflow, 0), "for a reason");
        }
        assert!(making[1..].iter().all(|workflow| matches!(templates.find((workflow, 0)), Found::Making)));
        let more = [workflow(), workflow()];
        assert!(templates.begin((&more[0], 0)) && !templates.begin((&more[1], 0)));
        templates.forget((&making[1], 0));
        assert!(templates.begin((&more[1], 0)));
    }

    #[test]
    fn one_place_is_left_to_calls_and_what_was_given_up_for_them_is_not_tried_at_once() {
        for (concurrency, most) in [(1, 1), (2, 1), (3, 2), (64, MAKING_MAX)] {
            let templates = Templates::new(1 << 20, concurrency);
            let all: Vec<_> = (0..=most).map(|_| workflow()).collect();
            let begun = all.iter().filter(|workflow| templates.begin((workflow, 0))).count();
            assert_eq!(begun, most, "{concurrency}");
            templates.put_off((&all[0], 0));
            assert!(
                matches!(templates.find((&all[0], 0)), Found::Making) && !templates.begin((&all[0], 0)),
                "it is to be later"
            );
            assert!(templates.begin((&all[most], 0)), "it takes no place");
        }
    }
}
