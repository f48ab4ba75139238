//! Which processes of sleepers are ended, and when.

use super::*;
use monohull_durable::{Checkpoint, Held as Right};
use std::sync::atomic::{AtomicU64, Ordering};

const IDLE: Duration = Duration::from_secs(60);
/// The wall clock of sweeps (ns since 1970).
const NOW: u64 = 1_000_000_000_000;

/// A process with so much memory, which counts its end.
struct Fake {
    memory: Arc<AtomicU64>,
    ticks: Arc<AtomicU64>,
    is_there: bool,
    ends: Arc<Mutex<Vec<String>>>,
    name: String,
    seen: Option<(Instant, u64)>,
}

impl Process for Fake {
    fn is_there(&self) -> bool {
        self.is_there
    }

    fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    fn processor_ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    fn seen(&mut self) -> &mut Option<(Instant, u64)> {
        &mut self.seen
    }

    fn gauge(&self) -> Gauge {
        let seen = (self.memory(), self.processor_ticks());
        Box::new(move || seen)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ends.lock().expect("no panic").push(std::mem::take(&mut self.name));
    }
}

struct Test {
    residents: Residents<Fake>,
    ticks: Arc<AtomicU64>,
    ends: Arc<Mutex<Vec<String>>>,
    ready: Arc<Ready>,
}

impl Test {
    fn new(low: u64, high: u64, number: usize) -> Test {
        let text = r#"{"name":"w","functions":{"f":{"image":"f.so"}},"steps":[{"name":"s","function":"f"}]}"#;
        let plan = monohull_workflow::load_str(std::path::Path::new("w.json"), text).expect("a workflow");
        let ready = Arc::new(Ready::of_parts(Arc::new(plan), Vec::new(), 1));
        let residents = Residents::new(Some(Residence { low, high, number, idle: IDLE }));
        Test { residents, ticks: Arc::default(), ends: Arc::default(), ready }
    }

    fn put_with(&self, of: WaitOf, memory: Arc<AtomicU64>, is_there: bool) -> Ended {
        self.put_since(of, memory, is_there, Instant::now())
    }

    fn put_since(&self, of: WaitOf, memory: Arc<AtomicU64>, is_there: bool, since: Instant) -> Ended {
        let put = self.residents.put(Resident { since, ..self.resident(of.clone(), memory, is_there) });
        Ended { memory: self.residents.weigh(&of).memory, ..put }
    }

    /// A process that comes to its wait now, which has no time.
    fn resident(&self, of: WaitOf, memory: Arc<AtomicU64>, is_there: bool) -> Resident<Fake> {
        let process = Fake {
            seen: None,
            memory,
            ticks: self.ticks.clone(),
            is_there,
            ends: self.ends.clone(),
            name: of.id.to_string(),
        };
        let now = Instant::now();
        Resident {
            of,
            process,
            ready: self.ready.clone(),
            document: Bytes::new(),
            copy: (0, 0),
            keeps_deadline: true,
            base: None,
            since: now,
            waits_since: now,
            due: None,
        }
    }

    /// Keeps a process that came to its wait so long ago.
    fn put_before(&self, name: &str, ago: Duration, due: Option<u64>) {
        let waits_since = Instant::now().checked_sub(ago).expect("the host has run for longer");
        let resident = self.resident(wait(name), Arc::new(1.into()), true);
        assert_eq!(self.residents.put(Resident { waits_since, due, ..resident }), Ended::default());
    }

    fn put(&self, name: &str, memory: u64) -> Ended {
        self.put_with(wait(name), Arc::new(memory.into()), true)
    }

    fn ends(&self) -> Vec<String> {
        std::mem::take(&mut *self.ends.lock().expect("no panic"))
    }
}

fn wait(name: &str) -> WaitOf {
    let (id, checkpoint) = (name.parse().expect("an id"), format!("{name}.3.checkpoint"));
    WaitOf { id, epoch: 3, generation: 2, checkpoint, start: (*b"started").into() }
}

/// The claim with which the wait ends.
fn claim(name: &str) -> Claim {
    Claim {
        held: Right { id: name.parse().expect("an id"), epoch: 4 },
        workflow: "w".to_owned(),
        generation: 2,
        checkpoint: Some(Checkpoint { file: format!("{name}.3.checkpoint"), bytes: 7 }),
        start: b"started".to_vec(),
        attempt: 1,
        published: BTreeMap::new(),
    }
}

#[test]
fn what_was_not_used_for_longest_ends_first_and_until_the_low_watermark() {
    let test = Test::new(60, 100, 100);
    for name in ["a", "b", "c", "d"] {
        assert_eq!(test.put(name, 25), Ended::default());
    }
    assert_eq!(test.residents.totals(), (4, 100));
    // It is used once more, and so `b` is the one that was not for longest.
    let (taken, _) = test.residents.take(&claim("a"));
    drop(taken.expect("it is there"));
    assert_eq!((test.ends(), test.put("a", 25)), (vec!["a".to_owned()], Ended::default()));
    assert_eq!(test.put("e", 1), Ended { memory: 2, ..Ended::default() });
    assert_eq!((test.ends(), test.residents.totals()), (vec!["b".to_owned(), "c".to_owned()], (3, 51)));
    // One alone that has too much.
    assert_eq!(test.put("f", 200).memory, 4);
    assert_eq!((test.ends().last().map(String::as_str), test.residents.totals()), (Some("f"), (0, 0)));
}

#[test]
fn fifty_sleepers_stay_below_the_watermark() {
    let test = Test::new(200, 300, 100);
    let ended: u64 = (0..50).map(|number| test.put(&format!("s{number}"), 20)).map(|ended| ended.memory).sum();
    let (number, bytes) = test.residents.totals();
    assert!(bytes <= 300 && number + ended == 50, "{number} {bytes} {ended}");
    let order: Vec<_> = (0..ended).map(|number| format!("s{number}")).collect();
    assert_eq!(test.ends(), order);
}

#[test]
fn memory_that_has_been_freed_meanwhile_does_not_count() {
    let test = Test::new(10, 20, 100);
    let memory = Arc::new(AtomicU64::new(15));
    test.put_with(wait("a"), memory.clone(), true);
    memory.store(5, Ordering::Relaxed);
    assert_eq!((test.put("b", 15), test.residents.totals()), (Ended::default(), (2, 20)));
}

#[test]
fn there_are_no_more_than_may_be() {
    let test = Test::new(100, 100, 2);
    assert_eq!(["a", "b", "c"].map(|name| test.put(name, 1).number), [0, 0, 1]);
    assert_eq!(test.ends(), ["a"]);
    // Another wait of the same invocation takes the place of the first.
    assert_eq!(test.put("b", 1), Ended { changed: 1, ..Ended::default() });
    assert_eq!((test.ends(), test.residents.totals()), (vec!["b".to_owned()], (2, 2)));
    let off: Residents<Fake> = Residents::new(None);
    assert!(!off.is_on());
    let test = Test { residents: off, ..test };
    assert_eq!((test.put("a", 1).number, test.ends()), (1, vec!["a".to_owned()]));
}

/// A process is handed to nothing but the wait that it stays with.
#[test]
fn a_process_goes_on_with_its_own_wait_alone() {
    let test = Test::new(100, 100, 10);
    test.put("a", 1);
    let (taken, ended) = test.residents.take(&claim("a"));
    assert_eq!((taken.map(|taken| taken.of), ended), (Some(wait("a")), Ended::default()));
    let changes: [fn(&mut Claim); 6] = [
        // It was claimed meanwhile.
        |claim| claim.held.epoch += 1,
        // A claim from before.
        |claim| claim.held.epoch -= 1,
        // It was taken back.
        |claim| claim.generation += 1,
        |claim| claim.checkpoint.as_mut().expect("one").file.push('x'),
        |claim| claim.checkpoint = None,
        // Another one of the same name.
        |claim| claim.start.push(0),
    ];
    for change in changes {
        test.put("a", 1);
        test.ends();
        let mut other = claim("a");
        change(&mut other);
        let (taken, ended) = test.residents.take(&other);
        assert!(taken.is_none() && ended == Ended { changed: 1, ..Ended::default() }, "{other:?}");
        assert_eq!((test.ends(), test.residents.totals()), (vec!["a".to_owned()], (0, 0)));
    }
    test.put("a", 1);
    assert!(test.residents.take(&claim("b")).0.is_none());
    assert_eq!(test.residents.totals().0, 1, "it is another's");
}

#[test]
fn one_that_does_not_stand_still_is_ended() {
    let test = Test::new(100, 100, 10);
    test.ticks.store(1000, Ordering::Relaxed);
    test.put("a", 1);
    test.ticks.store(1000 + TICKS_MAX, Ordering::Relaxed);
    assert_eq!(test.residents.sweep(NOW), Ended::default());
    test.put("b", 1);
    test.ticks.store(1001 + TICKS_MAX, Ordering::Relaxed);
    assert_eq!(test.residents.sweep(NOW), Ended { died: 1, ..Ended::default() });
    assert_eq!((test.ends(), test.residents.totals()), (vec!["a".to_owned()], (1, 1)));
}

#[test]
fn one_that_goes_on_again_at_once_is_looked_at_by_the_next_sweep() {
    let test = Test::new(10, 100, 10);
    let memory = Arc::new(AtomicU64::new(50));
    test.put_with(wait("a"), memory.clone(), true);
    memory.store(200, Ordering::Relaxed);
    let (again, _) = test.residents.take(&claim("a"));
    assert_eq!(test.residents.put(again.expect("it is there")), Ended::default());
    assert_eq!(test.residents.weigh(&wait("a")), Ended::default());
    assert_eq!((test.residents.totals(), test.ends()), ((1, 50), vec![]), "as it was a moment ago");
    assert_eq!(test.residents.sweep(NOW), Ended { memory: 1, ..Ended::default() });
    assert_eq!((test.residents.totals(), test.ends()), ((0, 0), vec!["a".to_owned()]));
}

#[test]
fn memory_as_it_was_a_moment_ago_is_looked_at_before_processes_are_ended_for_it() {
    let again = |test: &Test| {
        let (taken, _) = test.residents.take(&claim("a"));
        assert_eq!(test.residents.put(taken.expect("it is there")), Ended::default());
        test.residents.weigh(&wait("a"))
    };
    // That of another one.
    let test = Test::new(10, 100, 10);
    let memory = Arc::new(AtomicU64::new(50));
    test.put_with(wait("a"), memory.clone(), true);
    memory.store(5, Ordering::Relaxed);
    assert_eq!((again(&test), test.residents.totals()), (Ended::default(), (1, 50)));
    assert_eq!((test.put("b", 60), test.residents.totals()), (Ended::default(), (2, 65)));
    // What was seen then counts from now on.
    assert_eq!((again(&test), test.residents.totals()), (Ended::default(), (2, 65)));
    // Its own.
    let test = Test::new(10, 100, 10);
    memory.store(50, Ordering::Relaxed);
    test.put_with(wait("a"), memory.clone(), true);
    test.put("b", 40);
    let (taken, _) = test.residents.take(&claim("a"));
    test.put("c", 20);
    memory.store(5, Ordering::Relaxed);
    assert_eq!(test.residents.put(taken.expect("it is there")), Ended::default());
    assert_eq!((test.residents.weigh(&wait("a")), test.residents.totals()), (Ended::default(), (3, 65)));
    assert_eq!(test.ends(), Vec::<String>::new());
}

#[test]
fn one_that_has_stayed_for_long_is_ended_by_a_sweep() {
    let test = Test::new(100, 100, 10);
    let late = NOW + 2 * IDLE.as_nanos() as u64;
    test.put_before("event", IDLE, None);
    test.put_before("timer", IDLE, Some(late));
    test.put_before("new", IDLE / 2, None);
    assert_eq!(test.residents.sweep(NOW), Ended { idle: 2, ..Ended::default() });
    assert_eq!((test.ends(), test.residents.totals()), (vec!["event".to_owned(), "timer".to_owned()], (1, 1)));
    assert!(test.residents.take(&claim("event")).0.is_none(), "it is restored");
    // It stays for as long at each of its waits.
    test.put("new", 1);
    test.ends();
    assert_eq!((test.residents.sweep(NOW), test.ends()), (Ended::default(), vec![]));
}

#[test]
fn one_that_is_due_soon_stays_until_then() {
    let test = Test::new(100, 100, 10);
    let soon = NOW + IDLE.as_nanos() as u64;
    test.put_before("soon", IDLE, Some(soon));
    test.put_before("later", IDLE, Some(soon + 1));
    test.put_before("overdue", IDLE, Some(NOW - 1));
    assert_eq!(test.residents.sweep(NOW), Ended { idle: 1, ..Ended::default() });
    assert_eq!((test.ends(), test.residents.totals().0), (vec!["later".to_owned()], 2));
    // An event may make it go on before.
    assert!(test.residents.take(&claim("soon")).0.is_some());
}

#[test]
fn one_that_has_died_or_whose_invocation_changes_is_given_up() {
    let test = Test::new(100, 100, 10);
    test.put_with(wait("a"), Arc::default(), false);
    assert_eq!(test.residents.take(&claim("a")).1, Ended { died: 1, ..Ended::default() });
    test.put_with(wait("a"), Arc::default(), false);
    test.put("b", 1);
    assert_eq!((test.residents.sweep(NOW).died, test.residents.totals()), (1, (1, 1)));
    assert_eq!(test.residents.end(&wait("c").id), Ended::default());
    let later = WaitOf { generation: 3, ..wait("b") };
    assert_eq!(test.residents.end_of(&later), Ended::default(), "it has come to another wait");
    assert_eq!(test.residents.end_of(&wait("b")).changed, 1);
    test.put("b", 1);
    assert_eq!(test.residents.end(&wait("b").id).changed, 1);
    test.put("b", 1);
    assert_eq!((test.residents.clear().changed, test.residents.totals()), (1, (0, 0)));
    test.put("b", 1);
    assert_eq!(test.residents.totals(), (1, 1));
}

#[test]
fn what_has_begun_before_all_were_ended_does_not_stay() {
    let test = Test::new(10, 100, 10);
    let put = |name: &str, since| test.put_since(wait(name), Arc::new(1.into()), true, since);
    let before = Instant::now();
    assert!(!test.residents.is_outdated(before));
    assert_eq!(put("a", before), Ended::default());
    assert_eq!(test.residents.clear().changed, 1);
    assert!(test.residents.is_outdated(before));
    assert_eq!((put("b", before).changed, test.residents.totals().0), (1, 0));
    assert_eq!(test.ends(), ["a", "b"]);
    let after = Instant::now();
    assert_eq!((put("c", after), test.residents.totals().0), (Ended::default(), 1));
}
