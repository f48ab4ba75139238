//! `Mutex`, `RwLock`, `Condvar`, `Barrier`.

use super::check;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, Mutex, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

const MOMENT: Duration = Duration::from_millis(4);

pub(super) fn all() {
    mutexes();
    read_write_locks();
    condition_variables();
    barriers();
}

fn mutexes() {
    let mutex = Mutex::new(vec![1]);
    mutex.lock().unwrap().push(2);
    check!("mutex", (mutex.lock().unwrap().len(), &mutex, mutex.is_poisoned()));
    let guard = mutex.lock().unwrap();
    check!(
        "mutex_held",
        (mutex.try_lock().map(drop).map_err(|e| e.to_string()), format!("{mutex:?}"), format!("{guard:?}"))
    );
    check!("mutex_held_debug", format!("{:?}", mutex.try_lock().map(drop)));
    drop(guard);
    check!("mutex_free_again", mutex.try_lock().map(|guard| guard.len()).ok());
    check!("mutex_inner", {
        let mut mutex = mutex;
        mutex.get_mut().unwrap().clear();
        mutex.into_inner()
    });
    check!(
        "mutex_made",
        (Mutex::from(3).into_inner(), Mutex::<u8>::default().into_inner(), Mutex::new("d").lock().unwrap().to_string())
    );
    check!("mutex_of_unsized", {
        let mutex: Box<Mutex<[i32]>> = Box::new(Mutex::new([1, 2]));
        mutex.lock().unwrap()[0] = 5;
        (mutex.lock().unwrap().deref().to_vec(), format!("{:?}", mutex))
    });
    check!("mutex_clear_poison", {
        let mutex = Mutex::new(0);
        mutex.clear_poison();
        mutex.is_poisoned()
    });
    check!("mutex_counts", {
        let n = Mutex::new(0u64);
        thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..2000).for_each(|_| *n.lock().unwrap() += 1));
            }
        });
        n.into_inner()
    });
    check!("mutex_across_await_of_threads", {
        let m = Arc::new(Mutex::new(1));
        let guard = m.lock().unwrap();
        let theirs = m.clone();
        let waits = thread::spawn(move || *theirs.lock().unwrap());
        thread::sleep(MOMENT);
        drop(guard);
        waits.join().ok()
    });
    static GLOBAL: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    check!("mutex_in_static", {
        GLOBAL.lock().unwrap().push("x");
        GLOBAL.lock().unwrap().clone()
    });
    let mut error = PoisonError::new(7);
    check!(
        "poison_error",
        (error.to_string(), format!("{error:?}"), *error.get_ref(), *error.get_mut(), error.into_inner())
    );
    check!(
        "try_lock_error",
        [TryLockError::from(PoisonError::new(())), TryLockError::WouldBlock].map(|e| (e.to_string(), format!("{e:?}")))
    );
}

fn read_write_locks() {
    let lock = RwLock::new(5);
    {
        let (a, b) = (lock.read().unwrap(), lock.read().unwrap());
        check!(
            "rwlock_shared",
            (
                *a + *b,
                lock.try_read().map(|g| *g).ok(),
                lock.try_write().map(drop).map_err(|e| e.to_string()),
                format!("{a:?}")
            )
        );
    }
    {
        let mut guard = lock.write().unwrap();
        *guard += 1;
        check!("rwlock_alone", (*guard, lock.try_read().map(drop).map_err(|e| e.to_string()), format!("{lock:?}")));
        let guard = RwLockWriteGuard::downgrade(guard);
        check!("rwlock_downgrade", (*guard, lock.try_read().is_ok(), lock.try_write().is_err()));
    }
    check!("rwlock_debug", (format!("{lock:?}"), lock.is_poisoned(), RwLock::<u8>::default()));
    check!("rwlock_inner", {
        let mut lock = lock;
        *lock.get_mut().unwrap() = 9;
        lock.into_inner()
    });
    check!("rwlock_guards_display", {
        let lock = RwLock::new("text");
        let shared = lock.read().unwrap().to_string();
        (shared, lock.write().unwrap().to_string())
    });
    check!("rwlock_writers_and_readers", {
        let pair = RwLock::new((0u64, 0u64));
        let torn = AtomicBool::new(false);
        thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    (0..1000).for_each(|_| {
                        let mut p = pair.write().unwrap();
                        p.0 += 1;
                        p.1 += 1;
                    })
                });
                s.spawn(|| {
                    (0..1000).for_each(|_| {
                        let p = pair.read().unwrap();
                        if p.0 != p.1 {
                            torn.store(true, SeqCst);
                        }
                    })
                });
            }
        });
        (pair.into_inner().ok(), torn.into_inner())
    });
    check!("rwlock_readers_are_many", {
        let lock = RwLock::new(1);
        let meet = Barrier::new(3);
        thread::scope(|s| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        let g = lock.read().unwrap();
                        meet.wait();
                        *g
                    })
                })
                .collect();
            readers.into_iter().map(|r| r.join().unwrap_or(0)).sum::<i32>()
        })
    });
}

fn condition_variables() {
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let theirs = pair.clone();
    let other = thread::spawn(move || {
        for _ in 0..100 {
            let mut n = theirs.1.wait_while(theirs.0.lock().unwrap(), |n| *n % 2 == 0).unwrap();
            *n += 1;
            theirs.1.notify_one();
        }
    });
    for _ in 0..100 {
        let mut n = pair.1.wait_while(pair.0.lock().unwrap(), |n| *n % 2 == 1).unwrap();
        *n += 1;
        pair.1.notify_one();
    }
    check!("condvar_ping_pong", (other.join().is_ok(), *pair.0.lock().unwrap()));
    let (lock, unnotified) = (Mutex::new(3), Condvar::new());
    check!("condvar_times_out", {
        let start = Instant::now();
        let (guard, result) = unnotified.wait_timeout(lock.lock().unwrap(), MOMENT).unwrap();
        (*guard, result.timed_out(), start.elapsed() >= MOMENT, format!("{result:?}"))
    });
    check!("condvar_timeout_while", {
        let (guard, result) = unnotified.wait_timeout_while(lock.lock().unwrap(), MOMENT, |n| *n == 3).unwrap();
        (*guard, result.timed_out())
    });
    check!("condvar_timeout_while_not", {
        let (guard, result) = unnotified.wait_timeout_while(lock.lock().unwrap(), MOMENT, |n| *n != 3).unwrap();
        (*guard, result.timed_out())
    });
    check!("condvar_wakes_all", {
        let (gate, woken) = ((Mutex::new(false), Condvar::new()), AtomicUsize::new(0));
        thread::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open));
                    woken.fetch_add(1, SeqCst);
                });
            }
            thread::sleep(MOMENT);
            *gate.0.lock().unwrap() = true;
            gate.1.notify_all();
        });
        woken.into_inner()
    });
    check!("condvar_wait", {
        let (m, c) = (Mutex::new(false), Condvar::new());
        thread::scope(|s| {
            s.spawn(|| {
                *m.lock().unwrap() = true;
                c.notify_one();
            });
            let mut done = m.lock().unwrap();
            while !*done {
                done = c.wait(done).unwrap();
            }
            *done
        })
    });
    check!("condvar_debug", format!("{:?}", Condvar::new()));
}

fn barriers() {
    let (barrier, leaders, arrived) = (Barrier::new(4), AtomicUsize::new(0), AtomicUsize::new(0));
    let early = AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for round in 1..=10 {
                    arrived.fetch_add(1, SeqCst);
                    leaders.fetch_add(usize::from(barrier.wait().is_leader()), SeqCst);
                    if arrived.load(SeqCst) < round * 4 {
                        early.store(true, SeqCst);
                    }
                }
            });
        }
    });
    check!("barrier", (leaders.into_inner(), early.into_inner()));
    check!(
        "barrier_of_one",
        (format!("{:?}", Barrier::new(1).wait()), Barrier::new(0).wait().is_leader(), format!("{:?}", Barrier::new(2)))
    );
}
