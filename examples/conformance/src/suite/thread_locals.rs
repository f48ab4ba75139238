//! `thread_local!`.

use super::check;
use std::cell::{Cell, RefCell};
use std::sync::mpsc::{self, Sender};
use std::thread;

thread_local! {
    static COUNT: Cell<u32> = const { Cell::new(10) };
    static NAMES: RefCell<Vec<&'static str>> = RefCell::new(vec!["first"]);
    static GUARD: RefCell<Option<Goodbye>> = const { RefCell::new(None) };
    static OTHER: RefCell<Option<Goodbye>> = const { RefCell::new(None) };
    pub(super) static PUBLIC: String = "by name".to_owned();
}

thread_local!(static ALONE: Cell<i8> = const { Cell::new(-1) });

/// Reports when it is dropped, and whether another variable can still be reached then.
struct Goodbye(Sender<String>, &'static str);

impl Drop for Goodbye {
    fn drop(&mut self) {
        let _ = self.0.send(format!("{} {}", self.1, COUNT.try_with(Cell::get).is_ok()));
    }
}

/// What a thread says that runs `body`.
fn on_a_thread(body: impl FnOnce(Sender<String>) + Send + 'static) -> Vec<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || body(sender)).join().unwrap();
    receiver.iter().collect()
}

pub(super) fn all() {
    check!("initial_values", (COUNT.get(), NAMES.with_borrow(Vec::clone), ALONE.get(), PUBLIC.with(String::clone)));
    check!("cell_methods", {
        COUNT.set(3);
        (COUNT.replace(4), COUNT.get(), COUNT.take(), COUNT.get())
    });
    check!("ref_cell_methods", {
        NAMES.with_borrow_mut(|n| n.push("second"));
        (NAMES.replace(vec!["third"]), NAMES.take(), NAMES.with_borrow(Vec::len))
    });
    check!("of_another_thread", {
        COUNT.set(77);
        (
            thread::spawn(|| {
                COUNT.set(COUNT.get() + 1);
                COUNT.get()
            })
            .join()
            .ok(),
            COUNT.get(),
        )
    });
    check!(
        "set_before_first_use",
        thread::spawn(|| {
            NAMES.set(vec!["set"]);
            NAMES.with_borrow(Vec::clone)
        })
        .join()
        .ok()
    );
    check!("dropped_with_the_thread", on_a_thread(|sender| GUARD.set(Some(Goodbye(sender, "guard")))));
    check!("dropped_once_each", {
        let mut all = on_a_thread(|sender| {
            OTHER.set(Some(Goodbye(sender.clone(), "other")));
            GUARD.set(Some(Goodbye(sender, "guard")));
        });
        all.sort();
        all
    });
    check!(
        "replaced_values_are_dropped_at_once",
        on_a_thread(|sender| {
            GUARD.set(Some(Goodbye(sender.clone(), "old")));
            GUARD.set(Some(Goodbye(sender.clone(), "new")));
            let _ = sender.send("between".into());
        })
    );
    check!("with_and_try_with", (COUNT.with(Cell::get), ALONE.try_with(Cell::get)));
    check!(
        "in_scoped_threads",
        thread::scope(|s| {
            s.spawn(|| COUNT.set(1)).join().ok();
            COUNT.get()
        })
    );
    check!("initialised_lazily", {
        thread_local!(static LAZY: Cell<u32> = { COUNT.set(99); Cell::new(COUNT.get() + 1) });
        let before = COUNT.get();
        (before, LAZY.get(), COUNT.get())
    });
    check!("debug", format!("{COUNT:?}"));
}
