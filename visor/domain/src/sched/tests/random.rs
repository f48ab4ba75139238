//! Events in any order.

use super::*;

/// For events in any order: a thread is in exactly one place, and a wake-up reaches those that wait.
#[test]
fn no_thread_is_lost_in_any_order_of_events() {
    let rounds = if cfg!(miri) { 3 } else { 200 };
    for seed in 1..=rounds {
        let mut random = Random(seed);
        let mut scheduler: Scheduler<()> = Scheduler::new();
        scheduler.start_carriers(2);
        let mut on_carriers: Vec<Running> = Vec::new();
        let mut alive: HashSet<u32> = HashSet::new();
        let mut waits: HashMap<u32, u64> = HashMap::new();
        let mut now = 1;
        let instances = [INSTANCE, INSTANCE + 1];
        for id in instances {
            let _ = scheduler.insert(id, (), NEVER);
        }
        for _ in 0..400 {
            now += 1;
            let carrier = random.below(2) as usize;
            match random.below(8) {
                0 => {
                    let id = instances[random.below(2) as usize];
                    let thread = scheduler.spawn(id, Some(0), 0, 0).expect("room");
                    scheduler.enqueue(thread);
                    alive.insert(scheduler.number(thread));
                }
                1 | 2 => {
                    if let Some(thread) = scheduler.next(carrier) {
                        let number = scheduler.number(thread);
                        assert!(!waits.contains_key(&number), "a thread that waits is not ready");
                        on_carriers.push(scheduler.mark_running(thread, now));
                    }
                }
                3 | 4 => {
                    if let Some(running) = random.pick(&mut on_carriers) {
                        let key = KEY + random.below(3) * 64;
                        let deadline = if random.below(2) == 0 { NEVER } else { now + random.below(50) };
                        let number = running.frame.thread;
                        let _ = scheduler.wait(running.thread, key, deadline);
                        if random.below(3) == 0 {
                            let Woken(count) = scheduler.wake(key, u64::MAX, Some(7), carrier);
                            waits.retain(|_, other| *other != key);
                            assert!(count >= 1);
                            on_carriers.push(scheduler.park(running.thread, running.frame, now).expect_err("woken"));
                        } else {
                            assert!(scheduler.park(running.thread, running.frame, now).is_ok());
                            waits.insert(number, key);
                        }
                    }
                }
                5 => {
                    let key = KEY + random.below(3) * 64;
                    let waiting = waits.values().filter(|other| **other == key).count() as u64;
                    let Woken(count) = scheduler.wake(key, u64::MAX, None, carrier);
                    assert_eq!(count, waiting);
                    waits.retain(|_, other| *other != key);
                }
                6 => {
                    while scheduler.fire(now).is_some() {}
                    waits.retain(|number, _| {
                        let thread = scheduler.threads.find(*number).expect("it waits, so it is alive");
                        scheduler.threads[thread].state == State::Parked
                    });
                }
                _ => {
                    if let Some(running) = random.pick(&mut on_carriers) {
                        alive.remove(&running.frame.thread);
                        scheduler.end_running(running.thread, running.frame, now);
                    }
                }
            }
            let threads: usize = instances.iter().map(|id| scheduler.threads_of(*id)).sum();
            assert_eq!(threads, alive.len());
        }
        // Everything that waits is woken, and everything that is ready runs.
        for key in 0..3 {
            scheduler.wake(KEY + key * 64, u64::MAX, Some(0), usize::MAX).continues_here();
        }
        while let Some(thread) = scheduler.next(0) {
            on_carriers.push(scheduler.mark_running(thread, now));
        }
        for running in on_carriers {
            assert!(alive.remove(&running.frame.thread));
            scheduler.end_running(running.thread, running.frame, now);
        }
        assert!(alive.is_empty(), "lost: {alive:?}");
    }
}

/// xorshift64: the same events in each run, under Miri as well.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        if from.is_empty() {
            return None;
        }
        let index = self.below(from.len() as u64) as usize;
        Some(from.swap_remove(index))
    }
}
