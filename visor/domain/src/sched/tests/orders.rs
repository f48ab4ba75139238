//! All orders in which a handler and a waker can meet, by loom. The handler checks what it waits for, and registers its
//! wait, under the lock of that; so however they meet, the thread ends up ready or on its carrier, never parked for good.

use super::*;
use loom::sync::{Arc, Mutex};
use loom::thread;

struct Shared {
    /// What a module has under its own lock: whether the slot is filled.
    filled: Mutex<bool>,
    scheduler: Mutex<Scheduler<()>>,
}

impl Shared {
    fn fill_and_wake(&self) {
        *self.filled.lock().expect("filled") = true;
        self.scheduler.lock().expect("scheduler").wake(KEY, u64::MAX, None, 1).continues_here();
    }
}

fn shared() -> (Arc<Shared>, Running) {
    let (mut scheduler, _) = with_threads(1);
    let running = take_next(&mut scheduler, 0);
    (Arc::new(Shared { filled: Mutex::new(false), scheduler: Mutex::new(scheduler) }), running)
}

/// One carrier's side of a call that waits until the slot is filled. False if the thread has parked.
fn serve(shared: &Shared, mut running: Running) -> bool {
    loop {
        {
            let filled = shared.filled.lock().expect("filled");
            if *filled {
                return true;
            }
            let mut scheduler = shared.scheduler.lock().expect("scheduler");
            let _ = scheduler.wait(running.thread, KEY, NEVER);
        }
        let mut scheduler = shared.scheduler.lock().expect("scheduler");
        match scheduler.park(running.thread, running.frame, 1) {
            Ok(()) => return false,
            Err(woken) => running = woken,
        }
    }
}

#[test]
fn a_wake_up_reaches_a_thread_that_is_about_to_park() {
    loom::model(|| {
        let (shared, running) = shared();
        let waker = {
            let shared = shared.clone();
            thread::spawn(move || shared.fill_and_wake())
        };
        let served = serve(&shared, running);
        waker.join().expect("the waker");
        let next = shared.scheduler.lock().expect("scheduler").next(0);
        assert_eq!(next.is_some(), !served, "served on its carrier, or ready to be");
    });
}

#[test]
fn an_instance_that_ends_meanwhile_is_over_once() {
    loom::model(|| {
        let (shared, running) = shared();
        let others: Vec<_> = [true, false]
            .into_iter()
            .map(|wakes| {
                let shared = shared.clone();
                thread::spawn(move || {
                    if wakes {
                        shared.fill_and_wake();
                        return false;
                    }
                    let mut scheduler = shared.scheduler.lock().expect("scheduler");
                    assert!(scheduler.end(INSTANCE, Ok(())));
                    while scheduler.retire_some(INSTANCE) {}
                    scheduler.is_over(INSTANCE) && scheduler.remove(INSTANCE).is_some()
                })
            })
            .collect();
        // The run loop checks for the end under the lock before it parks.
        let mut over = false;
        {
            let filled = shared.filled.lock().expect("filled");
            let mut scheduler = shared.scheduler.lock().expect("scheduler");
            if !*filled {
                let _ = scheduler.wait(running.thread, KEY, NEVER);
            }
            drop(filled);
            drop(scheduler);
            scheduler = shared.scheduler.lock().expect("scheduler");
            let ended = scheduler.instance(INSTANCE).is_none_or(|instance| instance.ending.is_some());
            if ended || scheduler.threads[running.thread].state == State::Running {
                scheduler.end_running(running.thread, running.frame, 1);
                over = scheduler.is_over(INSTANCE) && scheduler.remove(INSTANCE).is_some();
            } else if let Err(woken) = scheduler.park(running.thread, running.frame, 1) {
                // It goes on, and ends by itself.
                scheduler.end_running(woken.thread, woken.frame, 1);
            }
        }
        let ends: usize = others.into_iter().map(|other| usize::from(other.join().expect("a thread"))).sum();
        assert_eq!(ends + usize::from(over), 1, "reclaimed once");
    });
}
