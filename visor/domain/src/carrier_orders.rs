//! All orders in which a carrier that binds an instance and the end of that instance can meet, by loom.
//!
//! ```text
//!   Carrier::bind_instance, run loop          Shared::end, under the scheduler's lock
//!   bound = instance                          stop = true
//!   fence ────────────────── pair ─────────── fence
//!   stop? ── no ──▶ enters user code          bound to the instance? ── yes ──▶ preempts
//! ```
//!
//! The promise: a carrier that enters user code of an instance that ends is preempted after it has bound the instance. The model has
//! the statements of `carrier.rs`, `preemption.rs`, `lifecycle.rs` and `run.rs` with their orderings. Without the fences both sides may miss the
//! other's store, which the last test shows.

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// What `CarrierState::stop` stands for: the instance that is bound.
const NONE: usize = 0;
const INSTANCE: usize = 1;

struct Model {
    fenced: bool,
    bound: AtomicUsize,
    preempt_sent: AtomicBool,
    stop: AtomicBool,
    scheduler: Mutex<()>,
}

impl Model {
    fn new(fenced: bool, bound: usize) -> Arc<Model> {
        Arc::new(Model {
            fenced,
            bound: AtomicUsize::new(bound),
            preempt_sent: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            scheduler: Mutex::new(()),
        })
    }

    fn fence(&self) {
        if self.fenced {
            fence(Ordering::SeqCst);
        }
    }

    /// `Carrier::bind_instance`, and the check of the run loop before it enters. Whether it enters.
    fn bind_and_enter(&self) -> bool {
        // What was sent before this is cancelled.
        self.preempt_sent.swap(false, Ordering::AcqRel);
        self.bound.store(INSTANCE, Ordering::Release);
        self.fence();
        !self.stop.load(Ordering::Relaxed)
    }

    /// `Carrier::unbind_instance`, as the run loop calls it.
    fn unbind(&self) {
        let _scheduler = self.scheduler.lock().expect("scheduler");
        self.bound.store(NONE, Ordering::Release);
    }

    /// `Shared::end`.
    fn end(&self) {
        let _scheduler = self.scheduler.lock().expect("scheduler");
        self.stop.store(true, Ordering::Release);
        self.fence();
        if self.bound.load(Ordering::Acquire) == INSTANCE {
            self.preempt_sent.swap(true, Ordering::AcqRel);
        }
    }

    /// The instance ends while `carrier` runs; `carrier` is whether it has entered in the end.
    fn check(fenced: bool, bound: usize, carrier: impl FnOnce(&Model) -> bool) {
        let model = Model::new(fenced, bound);
        let ender = {
            let model = model.clone();
            thread::spawn(move || model.end())
        };
        let entered = carrier(&model);
        ender.join().expect("the end");
        assert!(!entered || model.preempt_sent.load(Ordering::Relaxed), "it would run for ever");
    }
}

#[test]
fn a_carrier_that_binds_an_instance_in_its_end_does_not_enter_or_is_preempted() {
    loom::model(|| Model::check(true, NONE, Model::bind_and_enter));
}

/// A preemption for the first time it was bound must not stand for one for the second.
#[test]
fn the_same_holds_for_an_instance_that_is_bound_again() {
    loom::model(|| {
        Model::check(true, INSTANCE, |model| {
            model.unbind();
            model.bind_and_enter()
        });
    });
}

#[test]
#[should_panic(expected = "it would run for ever")]
fn without_the_fences_an_instance_could_run_for_ever() {
    loom::model(|| Model::check(false, NONE, Model::bind_and_enter));
}
