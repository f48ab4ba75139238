//! Which processes that wait are used again, and when the others end.

use super::*;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

/// A process that is none; it has ended when it is dropped.
struct Fake {
    pid: i32,
    served: u64,
    workflow: Weak<Ready>,
    is_waiting: Rc<Cell<bool>>,
    /// What is known of its memory.
    bytes: u64,
    /// What is seen of it.
    has: Arc<AtomicU64>,
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

    fn bytes(&mut self) -> &mut u64 {
        &mut self.bytes
    }

    fn gauge(&self) -> Gauge {
        let has = self.has.clone();
        Box::new(move || has.load(Ordering::Relaxed))
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
    let (workflow, has) = (Arc::downgrade(workflow), Arc::default());
    (Fake { pid, served: 1, workflow, is_waiting: is_waiting.clone(), bytes: 0, has }, is_waiting)
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
    let kept = KeptWorkers::<Fake>::new(1, 1);
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
fn of_the_workflows_with_more_than_their_share_of_memory_the_one_unused_for_longest_goes() {
    for (all, first) in [
        (&[('a', 101)][..], Some(0)),
        (&[('a', 60), ('b', 61)], Some(0)),
        (&[('a', 10), ('b', 41), ('b', 50)], Some(1)),
        (&[('a', 30), ('b', 30), ('c', 41)], Some(2)),
        (&[('a', 60), ('b', 101)], Some(1)),
        // What has nothing is no gain.
        (&[('a', 0), ('b', 1), ('a', 99), ('a', 1)], Some(2)),
        (&[('a', 0), ('b', 0)], None),
        (&[], None),
    ] {
        assert_eq!(first_above_share(all, 100), first, "{all:?}");
    }
}

/// A row whose processes may have 100 bytes.
fn of_hundred() -> KeptWorkers<Fake> {
    KeptWorkers::new(10, 100)
}

/// One that has so many bytes.
fn heavy(pid: i32, workflow: &Arc<Ready>, bytes: u64) -> (Fake, Rc<Cell<bool>>) {
    let (run, is_waiting) = fake(pid, workflow);
    run.has.store(bytes, Ordering::Relaxed);
    (run, is_waiting)
}

const NONE: Excess = Excess { number: 0, memory: 0 };

#[test]
fn when_they_have_too_much_memory_those_unused_for_longest_end_until_they_have_not() {
    let (kept, workflow) = (of_hundred(), version());
    let all: Vec<_> = (1..=4).map(|pid| heavy(pid, &workflow, 30)).collect();
    let (runs, states): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    assert!(runs.into_iter().all(|run| kept.put(run) == NONE), "nothing is known of their memory");
    assert_eq!(kept.memory(), (0, 100));
    assert_eq!(kept.weigh(), Excess { memory: 1, number: 0 });
    assert_eq!(states.iter().map(has_ended).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!((kept.memory(), kept.weigh(), kept.len()), ((90, 100), NONE, 3));
    // What is known of it goes with a process that is used.
    let used = kept.take(&workflow).expect("the last one");
    assert_eq!((used.pid, kept.memory().0), (4, 60));
    let (other, is_other) = heavy(5, &workflow, 30);
    assert_eq!((kept.put(other), kept.weigh(), kept.memory().0), (NONE, NONE, 90));
    assert_eq!(kept.put(used), Excess { memory: 1, number: 0 });
    assert_eq!(states.iter().map(has_ended).collect::<Vec<_>>(), [true, true, false, false]);
    assert!(!has_ended(&is_other));
    // It is looked at each time that it waits anew.
    let used = kept.take(&workflow).expect("the same");
    used.has.store(10, Ordering::Relaxed);
    assert_eq!((used.pid, kept.put(used), kept.memory().0), (4, NONE, 90));
    assert_eq!((kept.weigh(), kept.memory().0), (NONE, 70));
    kept.sweep();
    assert_eq!(kept.memory().0, 70);
    kept.clear();
    assert_eq!((kept.len(), kept.memory().0), (0, 0));
}

/// Large processes of one workflow do not end what others have, and one that is too large by itself ends alone.
#[test]
fn what_one_workflow_has_ends_nothing_of_others() {
    let (kept, small, large, huge) = (of_hundred(), version(), version(), version());
    let [first, second, third, fourth] =
        [(1, &small, 10), (2, &large, 40), (3, &large, 50), (4, &huge, 101)].map(|(pid, workflow, bytes)| {
            let (run, is_waiting) = heavy(pid, workflow, bytes);
            kept.put(run);
            is_waiting
        });
    assert_eq!(kept.weigh(), Excess { memory: 1, number: 0 });
    assert_eq!([&first, &second, &third, &fourth].map(has_ended), [false, false, false, true]);
    let (run, _state) = heavy(5, &small, 1);
    kept.put(run);
    assert_eq!(kept.weigh(), Excess { memory: 1, number: 0 });
    assert_eq!([&first, &second, &third].map(has_ended), [false, true, false]);
    assert_eq!(kept.memory().0, 61);
}

/// What is seen of a process while it serves an invocation is not what it has when it waits.
#[test]
fn one_that_is_used_while_it_is_looked_at_counts_as_before() {
    let (kept, workflow) = (of_hundred(), version());
    kept.put(heavy(1, &workflow, 20).0);
    let (which, gauge) = { kept.lock().next_unseen() }.expect("it has not been looked at");
    assert!(kept.lock().next_unseen().is_none(), "it is being looked at");
    let mut used = kept.take(&workflow).expect("it waits");
    let bytes = gauge();
    kept.lock().note(which, bytes);
    assert_eq!(*used.bytes(), 0);
    used.served += 1;
    kept.put(used);
    kept.lock().note(which, bytes);
    assert_eq!(kept.memory().0, 0, "it has served another one since");
    assert_eq!((kept.weigh(), kept.memory().0), (NONE, 20));
}

#[test]
fn without_memory_none_stays() {
    let kept = KeptWorkers::<Fake>::new(10, 0);
    assert!(!kept.may_stay(1, 0));
}

#[test]
fn one_that_has_waited_for_too_long_ends_when_it_is_swept() {
    let (kept, workflow, begin) = (KeptWorkers::new(100, u64::MAX), version(), Instant::now());
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
    let (kept, workflow, begin) = (KeptWorkers::new(10, u64::MAX), version(), Instant::now());
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
    let (kept, workflow, old, now) = (KeptWorkers::new(10, u64::MAX), version(), version(), Instant::now());
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
    let (kept, workflow, other, now) = (KeptWorkers::new(10, u64::MAX), version(), version(), Instant::now());
    for (pid, workflow) in [(1, &workflow), (2, &workflow), (3, &other)] {
        kept.put_at(fake(pid, workflow).0, now);
    }
    let taken = |workflow| kept.take_at(workflow, now).map(|run| run.pid);
    assert_eq!([taken(&workflow), taken(&workflow), taken(&workflow)], [Some(2), Some(1), None]);
    assert_eq!(taken(&other), Some(3));
}
