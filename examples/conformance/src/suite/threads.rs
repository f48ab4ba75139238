//! `std::thread`.

use super::check;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

const MOMENT: Duration = Duration::from_millis(3);

pub(super) fn all() {
    starting();
    scopes();
    parking();
}

fn starting() {
    check!("join_gives_the_result", (thread::spawn(|| 6 * 7).join().ok(), thread::spawn(String::new).join().ok()));
    check!(
        "names",
        (thread::current().name().map(str::to_owned), thread::spawn(|| thread::current().name().is_none()).join().ok())
    );
    let named = Builder::new().name("worker".into()).spawn(|| thread::current().name().map(str::to_owned)).unwrap();
    check!("builder_names", (named.thread().name().map(str::to_owned), named.join().ok()));
    check!(
        "builder_stack_size",
        Builder::new()
            .stack_size(64 * 1024)
            .spawn(|| [1u8; 1000].iter().map(|b| u32::from(*b)).sum::<u32>())
            .unwrap()
            .join()
            .ok()
    );
    check!("builder_debug", format!("{:?}", Builder::new()).starts_with("Builder"));
    check!("ids_differ", {
        let ids: HashSet<_> = (0..20).map(|_| thread::spawn(|| thread::current().id()).join().unwrap()).collect();
        (ids.len(), ids.contains(&thread::current().id()))
    });
    check!("id_is_the_handles", {
        let handle = thread::spawn(|| thread::current().id());
        let id = handle.thread().id();
        handle.join().is_ok_and(|theirs| theirs == id)
    });
    check!("id_debug", format!("{:?}", thread::current().id()).starts_with("ThreadId("));
    check!("thread_debug", format!("{:?}", thread::current()).starts_with("Thread { id: ThreadId("));
    check!("is_finished", {
        let go = Arc::new(AtomicBool::new(false));
        let theirs = go.clone();
        let handle = thread::spawn(move || {
            while !theirs.load(SeqCst) {
                thread::yield_now();
            }
        });
        let early = handle.is_finished();
        go.store(true, SeqCst);
        while !handle.is_finished() {
            thread::yield_now();
        }
        (early, handle.join().is_ok())
    });
    check!("detached_threads_go_on", {
        let (sender, receiver) = std::sync::mpsc::channel();
        drop(thread::spawn(move || sender.send("alive")));
        receiver.recv()
    });
    check!("moved_values_are_dropped", {
        let value = Arc::new(());
        let theirs = value.clone();
        thread::spawn(move || drop(theirs)).join().ok();
        Arc::strong_count(&value)
    });
    check!("results_are_dropped", {
        let value = Arc::new(());
        let theirs = value.clone();
        drop(thread::spawn(move || theirs));
        while Arc::strong_count(&value) > 1 {
            thread::yield_now();
        }
        Arc::strong_count(&value)
    });
    check!(
        "nested",
        thread::spawn(|| thread::spawn(|| thread::spawn(|| 3).join().unwrap() + 1).join().unwrap() + 1).join().ok()
    );
    check!(
        "many",
        (0..100)
            .map(|n| thread::spawn(move || n))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|h| h.join().unwrap())
            .sum::<i32>()
    );
    check!("parallelism", thread::available_parallelism().is_ok_and(|n| n.get() >= 1));
    check!("not_panicking", thread::panicking());
    check!("handles_are_sent", {
        let inner = thread::spawn(|| 5);
        thread::spawn(move || inner.join().unwrap()).join().ok()
    });
}

fn scopes() {
    let text = String::from("one hull and many bulkheads");
    let mut lengths = vec![0; 5];
    thread::scope(|scope| {
        for (word, length) in text.split(' ').zip(&mut lengths) {
            scope.spawn(move || *length = word.len());
        }
    });
    check!("scope_borrows", &lengths);
    check!("scope_joins", thread::scope(|s| s.spawn(|| text.split(' ').max_by_key(|w| w.len())).join().ok()));
    check!("scope_waits_for_all", {
        let n = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    thread::sleep(MOMENT);
                    n.fetch_add(1, SeqCst);
                });
            }
        });
        n.into_inner()
    });
    check!("scope_in_scope", {
        let n = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                thread::scope(|t| {
                    t.spawn(|| n.fetch_add(1, SeqCst));
                })
            });
            s.spawn(|| n.fetch_add(10, SeqCst));
        });
        n.into_inner()
    });
    check!("scope_spawns_from_its_threads", {
        let n = AtomicUsize::new(0);
        thread::scope(|s| {
            s.spawn(|| {
                s.spawn(|| n.fetch_add(1, SeqCst));
            });
        });
        n.into_inner()
    });
    check!(
        "scope_builder",
        thread::scope(|s| Builder::new()
            .name("scoped".into())
            .spawn_scoped(s, || thread::current().name().map(str::to_owned))
            .unwrap()
            .join()
            .ok())
    );
    check!(
        "scope_handle",
        thread::scope(|s| {
            let h = s.spawn(|| 1);
            let id = h.thread().id();
            while !h.is_finished() {
                thread::yield_now();
            }
            (id == thread::current().id(), h.join().ok())
        })
    );
    check!("scope_returns", thread::scope(|_| "value"));
}

fn parking() {
    let ready = Arc::new(AtomicBool::new(false));
    let theirs = ready.clone();
    let parked = thread::spawn(move || {
        while !theirs.load(SeqCst) {
            thread::park();
        }
        "woken"
    });
    thread::sleep(MOMENT);
    ready.store(true, SeqCst);
    parked.thread().unpark();
    check!("park", parked.join().ok());
    check!("token_is_kept", {
        thread::current().unpark();
        thread::current().unpark();
        thread::park();
        "back"
    });
    check!("token_is_used_up", {
        let start = Instant::now();
        thread::park_timeout(MOMENT);
        start.elapsed() >= MOMENT
    });
    check!("park_timeout_with_token", {
        thread::current().unpark();
        let start = Instant::now();
        thread::park_timeout(Duration::from_secs(60));
        start.elapsed() < Duration::from_secs(30)
    });
    check!("unpark_from_another", {
        let me = thread::current();
        let other = thread::spawn(move || me.unpark());
        thread::park();
        other.join().is_ok()
    });
    check!("yield", thread::yield_now());
}
