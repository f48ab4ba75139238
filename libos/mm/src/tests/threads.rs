//! Several threads at once, as carriers are.

use super::*;
use std::format;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Instances work side by side, publish buffers and end. None reads anything but zeros and what its producer wrote, and in the end
/// nothing is left.
#[test]
fn instances_work_and_end_side_by_side() {
    /// Each has a cell of its own, of which there are 256.
    const ROUNDS: usize = 80;
    const INSTANCES: u32 = 3;
    const NAMES: usize = 20;
    let mm = Mm::start();
    let handed_on = AtomicU64::new(0);
    let name_of = |random: &mut Random| format!("{}", random.below(NAMES));
    let work = |cell: u32| {
        let _part = mm.take_part();
        let mut random = Random(cell.into());
        for round in 0..ROUNDS {
            let instance = cell + INSTANCES * round as u32;
            let mark = instance.to_ne_bytes();
            let mut held: Vec<(u64, [u8; 4])> = Vec::new();
            for _ in 0..150 {
                match random.below(6) {
                    0 if !held.is_empty() => {
                        let (address, mark) = held.swap_remove(random.below(held.len()));
                        assert_eq!(mm.peek(address, 4), mark);
                        assert_eq!(mm.free(instance, address), 0);
                    }
                    1 if !held.is_empty() => {
                        let (address, mark) = held.swap_remove(random.below(held.len()));
                        let moved = mm.resize(instance, address, PAGE * (1 + random.below(6) as u64)) as u64;
                        assert_eq!(mm.peek(moved, 4), mark);
                        held.push((moved, mark));
                    }
                    2 if !held.is_empty() => {
                        let (address, mark) = held.swap_remove(random.below(held.len()));
                        match mm.publish(instance, &name_of(&mut random), address, 4, BYTES) {
                            0 => {}
                            refused => {
                                assert_eq!(refused, Errno::Exists.to_value(), "another has filled it");
                                held.push((address, mark));
                            }
                        }
                    }
                    3 => {
                        if let Ok(view) = mm.take(instance, &name_of(&mut random), BYTES) {
                            let mark = mm.peek(view.address, 4).try_into().unwrap();
                            assert!(mm.owns(instance, view.address, view.capacity));
                            held.push((view.address, mark));
                            handed_on.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    _ => {
                        let address = mm.alloc(instance, PAGE * (1 + random.below(3) as u64));
                        assert_eq!(mm.peek(address, 4), [0; 4]);
                        mm.poke(address, &mark);
                        held.push((address, mark));
                    }
                }
            }
            mm.end(instance, if random.below(2) == 0 { Ending::Done } else { Ending::Failed });
            assert_eq!(mm.charged(instance), 0);
        }
    };
    thread::scope(|scope| (1..=INSTANCES).for_each(|cell| _ = scope.spawn(move || work(cell))));
    assert!(handed_on.into_inner() > 0, "otherwise this shows nothing");
    // What was left in slots goes with the instance that takes it.
    for name in 0..NAMES {
        _ = mm.take(250, &format!("{name}"), BYTES);
    }
    mm.end(250, Ending::Done);
    let stats = mm.stats(A);
    assert_eq!((stats.arena_buffers, stats.arena_bytes), (0, 0));
}

/// A carrier that has to wait for another sleeps: it does not use up the processor that the other may need.
#[test]
fn a_thread_that_waits_for_the_table_sleeps() {
    let mm = Mm::start();
    let (number, asleep) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut waiter = None;
        let mut while_locked = || {
            let (mm, number) = (&mm, &number);
            waiter = Some(scope.spawn(move || {
                let link = std::fs::read_link("/proc/thread-self").unwrap();
                number.store(link.file_name().unwrap().to_str().unwrap().parse().unwrap(), Ordering::Relaxed);
                let _part = mm.take_part();
                mm.alloc(B, PAGE)
            }));
            for _ in 0..1000 {
                let stat = std::fs::read_to_string(format!("/proc/self/task/{}/stat", number.load(Ordering::Relaxed)));
                let sleeps = stat.is_ok_and(|stat| stat.rsplit(')').next().unwrap().starts_with(" S"));
                if sleeps {
                    asleep.store(true, Ordering::Relaxed);
                    return;
                }
                thread::sleep(core::time::Duration::from_millis(2));
            }
        };
        // The table is locked while pages get the key of their new holder.
        mm.meanwhile(&mut while_locked, || mm.alloc(A, PAGE));
    });
    assert!(asleep.into_inner(), "it spins");
}
