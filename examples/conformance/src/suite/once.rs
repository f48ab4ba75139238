//! `Once`, `OnceLock`, `LazyLock`.

use super::check;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{LazyLock, Once, OnceLock};
use std::thread;
use std::time::Duration;

static TABLE: LazyLock<Vec<u32>> = LazyLock::new(|| (0..10).map(|n| 1 << n).collect());
static NAME: OnceLock<String> = OnceLock::new();

pub(super) fn all() {
    static START: Once = Once::new();
    let (runs, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                START.call_once(|| {
                    thread::sleep(Duration::from_millis(2));
                    runs.fetch_add(1, SeqCst);
                });
                if runs.load(SeqCst) == 0 {
                    late.fetch_add(1, SeqCst);
                }
            });
        }
    });
    check!("once", (runs.into_inner(), late.into_inner(), START.is_completed(), format!("{START:?}")));
    check!("once_again", {
        let mut ran = false;
        START.call_once(|| ran = true);
        START.call_once_force(|_| ran = true);
        START.wait();
        ran
    });
    check!("once_force", {
        let once = Once::new();
        let mut poisoned = None;
        once.call_once_force(|state| poisoned = Some(state.is_poisoned()));
        (poisoned, once.is_completed())
    });
    check!("once_waits", {
        let once = Once::new();
        thread::scope(|s| {
            let waits = s.spawn(|| {
                once.wait();
                once.is_completed()
            });
            thread::sleep(Duration::from_millis(2));
            once.call_once(|| ());
            waits.join().ok()
        })
    });
    let cell = OnceLock::new();
    check!("lock_empty", (cell.get(), format!("{cell:?}")));
    check!("lock_set", (cell.set(1), cell.set(2), cell.get(), *cell.get_or_init(|| 3), format!("{cell:?}")));
    check!("lock_mut", {
        let mut cell = cell;
        *cell.get_mut().unwrap() += 10;
        (cell.take(), cell.get().copied(), cell.take(), cell.set(4), cell.into_inner())
    });
    check!(
        "lock_traits",
        (OnceLock::from(1) == OnceLock::from(1), OnceLock::<u8>::default().clone().get(), OnceLock::from(2).clone())
    );
    check!("lock_of_threads", {
        thread::scope(|s| {
            for n in 0..5 {
                s.spawn(move || NAME.get_or_init(|| if n < 5 { "one of five".into() } else { String::new() }).len());
            }
        });
        NAME.get()
    });
    check!("lock_wait", {
        let cell = OnceLock::new();
        thread::scope(|s| {
            let waits = s.spawn(|| *cell.wait());
            thread::sleep(Duration::from_millis(2));
            cell.set(8).ok();
            waits.join().ok()
        })
    });
    check!("lock_drops", {
        let value = std::sync::Arc::new(1);
        drop(OnceLock::from(value.clone()));
        std::sync::Arc::strong_count(&value)
    });
    let lazy = LazyLock::new(|| 6 * 7);
    check!("lazy_debug", (format!("{lazy:?}"), *lazy, format!("{lazy:?}"), *LazyLock::force(&lazy)));
    check!("lazy_static", (TABLE[9], TABLE.len(), thread::spawn(|| TABLE[3]).join().ok()));
    check!("lazy_runs_once", {
        let runs = AtomicUsize::new(0);
        let lazy = LazyLock::new(|| runs.fetch_add(1, SeqCst));
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| *lazy);
            }
        });
        runs.load(SeqCst)
    });
    check!("lazy_mut", {
        let mut lazy = LazyLock::new(|| vec![1]);
        LazyLock::force_mut(&mut lazy).push(2);
        lazy.push(3);
        lazy.clone()
    });
    check!("lazy_default", *LazyLock::<u8>::default());
}
