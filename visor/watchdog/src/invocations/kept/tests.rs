//! Which processes that wait are used again, and when the others end.

use super::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Weak;

/// A process that is none; it has ended when it is dropped.
struct Fake {
    pid: i32,
    served: u64,
    workflow: Weak<Ready>,
    is_waiting: Rc<Cell<bool>>,
}

impl Kept for Fake {
    fn pid(&self) -> i32 {
        self.pid
    }

    fn served(&self) -> u64 {
        self.served
    }

    fn version(&self) -> usize {
        self.workflow.as_ptr().addr()
    }

    fn serves(&self, workflow: &Arc<Ready>) -> bool {
        std::ptr::eq(self.workflow.as_ptr(), Arc::as_ptr(workflow))
    }

    fn is_needed(&self) -> bool {
        self.workflow.strong_count() > 0
    }

    fn is_waiting(&self) -> bool {
        self.is_waiting.get()
    }
}

fn version() -> Arc<Ready> {
    let text = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"steps":[{"name":"s","function":"f"}]}"#;
    let plan = monohull_workflow::load_str(std::path::Path::new("w.json"), text).expect("a workflow");
    Arc::new(Ready::of_parts(Arc::new(plan), Vec::new(), 1))
}

/// One that has just been reset. What it shares is held by two as long as it is there.
fn fake(pid: i32, workflow: &Arc<Ready>) -> (Fake, Rc<Cell<bool>>) {
    let is_waiting = Rc::new(Cell::new(true));
    (Fake { pid, served: 1, workflow: Arc::downgrade(workflow), is_waiting: is_waiting.clone() }, is_waiting)
}

/// Whether its process has ended.
fn has_ended(is_waiting: &Rc<Cell<bool>>) -> bool {
    Rc::strong_count(is_waiting) == 1
}

/// None is retired before it has waited for as long as this.
const IDLE_LEAST: Duration = IDLE_MAX.checked_sub(Duration::from_secs(IDLE_MAX.as_secs() / SPREAD)).expect("less");

/// Those that began together end one after the other, and none has more invocations than there may be, or waits for longer.
#[test]
fn processes_are_retired_at_different_times_within_the_limits() {
    let kept = KeptWorkers::<Fake>::new(1);
    let last = |pid| (0..INVOCATIONS_MAX).find(|served| !kept.may_stay(pid, *served)).expect("it ends") + 1;
    let served: Vec<u64> = (1..=100).map(last).collect();
    let least = INVOCATIONS_MAX - INVOCATIONS_MAX / SPREAD;
    assert!(served.iter().all(|count| (least..=INVOCATIONS_MAX).contains(count)), "{served:?}");
    assert_eq!(last(1), last(1), "it is the same for the same process");
    let different: std::collections::HashSet<_> = served.iter().collect();
    assert!(different.len() > 50, "{served:?}");
    let idle = IDLE_MAX.as_millis() as u64;
    let earlier: Vec<u64> = (1..=100).map(|pid| kept.spread(pid, 7, idle)).collect();
    assert!(earlier.iter().all(|less| *less < idle / SPREAD), "{earlier:?}");
}

#[test]
fn the_workflow_that_has_most_gives_one_up_and_of_that_the_one_unused_for_longest() {
    for (all, first) in
        [("", None), ("a", Some(0)), ("abbb", Some(1)), ("babcb", Some(0)), ("cabba", Some(1)), ("abcd", Some(0))]
    {
        assert_eq!(first_of_most(all.chars()), first, "{all}");
    }
}

#[test]
fn one_that_has_waited_for_too_long_ends_when_it_is_swept() {
    let (kept, workflow, begin) = (KeptWorkers::new(100), version(), Instant::now());
    let mut all = Vec::new();
    for pid in 1..=50 {
        let (run, is_waiting) = fake(pid, &workflow);
        kept.put_at(run, begin);
        all.push(is_waiting);
    }
    let (late, is_late) = fake(51, &workflow);
    kept.put_at(late, begin + IDLE_MAX);
    kept.sweep_at(begin + IDLE_LEAST);
    assert_eq!(kept.len(), 51, "none has waited for long enough");
    // They do not end all at once.
    let mut ends = Vec::new();
    for second in IDLE_LEAST.as_secs()..=IDLE_MAX.as_secs() {
        kept.sweep_at(begin + Duration::from_secs(second));
        ends.push(all.iter().filter(|process| has_ended(process)).count());
    }
    assert!(ends.iter().any(|count| (1..all.len()).contains(count)), "{ends:?}");
    assert!(all.iter().all(has_ended), "{ends:?}");
    assert_eq!((kept.len(), has_ended(&is_late)), (1, false));
    kept.sweep_at(begin + 2 * IDLE_MAX);
    assert_eq!((kept.len(), has_ended(&is_late)), (0, true));
}

/// Between two sweeps as well.
#[test]
fn one_that_has_waited_for_too_long_is_not_taken_and_ends() {
    let (kept, workflow, begin) = (KeptWorkers::new(10), version(), Instant::now());
    let (early, is_early) = fake(1, &workflow);
    kept.put_at(early, begin);
    let taken = kept.take_at(&workflow, begin + IDLE_LEAST).expect("it may wait for so long");
    assert_eq!(taken.pid, 1);
    // It waits anew when it has served another invocation.
    kept.put_at(taken, begin + IDLE_MAX);
    let (second, is_second) = fake(2, &workflow);
    kept.put_at(second, begin);
    let taken = kept.take_at(&workflow, begin + IDLE_MAX).expect("one has waited for less");
    assert_eq!((taken.pid, has_ended(&is_second)), (1, true));
    kept.put_at(taken, begin + IDLE_MAX);
    assert!(kept.take_at(&workflow, begin + 2 * IDLE_MAX).is_none());
    assert_eq!((kept.len(), has_ended(&is_early)), (0, true));
}

#[test]
fn one_without_a_workflow_or_that_speaks_ends_when_it_is_swept_and_one_that_speaks_is_not_taken() {
    let (kept, workflow, old, now) = (KeptWorkers::new(10), version(), version(), Instant::now());
    let put = |pid, workflow: &Arc<Ready>| {
        let (run, is_waiting) = fake(pid, workflow);
        kept.put_at(run, now);
        is_waiting
    };
    let [stays, speaks, of_old] = [put(1, &workflow), put(2, &workflow), put(3, &old)];
    drop(old);
    speaks.set(false);
    kept.sweep_at(now);
    assert_eq!([&stays, &speaks, &of_old].map(has_ended), [false, true, true]);
    let speaks = put(4, &workflow);
    speaks.set(false);
    let taken = kept.take_at(&workflow, now).expect("the other one is silent");
    assert_eq!((taken.pid, has_ended(&speaks), kept.len()), (1, true, 0));
}

/// Of several that serve a workflow the one that was used last is taken, and never one of another.
#[test]
fn the_one_that_was_used_last_is_taken() {
    let (kept, workflow, other, now) = (KeptWorkers::new(10), version(), version(), Instant::now());
    for (pid, workflow) in [(1, &workflow), (2, &workflow), (3, &other)] {
        kept.put_at(fake(pid, workflow).0, now);
    }
    let taken = |workflow| kept.take_at(workflow, now).map(|run| run.pid);
    assert_eq!([taken(&workflow), taken(&workflow), taken(&workflow)], [Some(2), Some(1), None]);
    assert_eq!(taken(&other), Some(3));
}
