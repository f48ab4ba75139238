//! What ends an instance whose time is up, or the run's.
//!
//! ```text
//! a signal interrupts trusted code ──▶ must_stop ──┐
//! a signal interrupts user code ───────────────────┼──▶ end_if_late ──▶ time_up
//! a timer is due: idle carrier, or timekeeper ─────┴───────────────────▶ time_up
//! ```
//!
//! The report names what the instance was doing. While a carrier has a thread of it, only that carrier knows: it notes the place when it
//! puts the thread down.

use super::event::Event;
use super::instance::Instance;
use super::preemption;
use super::sched::Running;
use super::shared::{Shared, cancelled};
use super::{fault, this_thread};
use monohull_abi::module::Call;
use monohull_report::failure::{Failure, FailureKind};
use monohull_trampoline::system::FaultInfo;
use monohull_trampoline::system::interrupted::Registers;
use std::sync::atomic::Ordering;

impl Shared {
    /// A signal has interrupted trusted code on this carrier. Ends the instance if its time is up. Whether the instance has to
    /// stop.
    #[cold]
    pub(super) fn must_stop(&self, instance: &Instance) -> bool {
        preemption::clear_attention(this_thread::carrier());
        self.end_if_late(instance);
        instance.stop.load(Ordering::Relaxed)
    }

    /// Ends the instance if its time, or the run's, is up. Whether it was.
    pub(super) fn end_if_late(&self, instance: &Instance) -> bool {
        let now = self.clock.host_now();
        let run_deadline = self.sched.run_deadline();
        // If both have passed, the earlier one counts.
        if now >= instance.deadline && instance.deadline <= run_deadline {
            self.time_up(instance.id);
        } else if now >= run_deadline {
            self.lock().push_event(Event::Deadline);
            self.end(instance, Err(Box::new(cancelled())));
        } else {
            return false;
        }
        true
    }

    /// An instance has ended whose user code was interrupted on this carrier. If its time was up, the report names that place.
    pub(super) fn note_place_of_interrupt(&self, instance: &Instance, fault: &FaultInfo) {
        self.note_place(instance, |failure| fault::add_place_of_interrupt(instance, fault, failure));
    }

    /// The same for a thread that this carrier has between two stretches of user code: after a slice of time, or in a call.
    pub(super) fn note_place_of_thread(&self, instance: &Instance, thread: &Running) {
        self.note_place(instance, |failure| {
            let frames = frames_of(instance, &thread.frame, thread.registers.as_deref());
            fault::add_frames_of_call(instance, &frames, failure);
        });
    }

    /// This carrier has a thread of the instance still, so the instance lives.
    fn note_place(&self, instance: &Instance, add: impl FnOnce(&mut Failure)) {
        let lacks_place =
            self.lock().instance(instance.id).is_some_and(|i| is_timeout_without_place(i.ending.as_ref()));
        if lacks_place {
            let mut place = Failure::new(FailureKind::Timeout, "");
            add(&mut place);
            let mut scheduler = self.lock();
            let ending = scheduler.instance_mut(instance.id).and_then(|i| i.ending.as_mut());
            if let Some(Err(failure)) = ending {
                (failure.ip, failure.backtrace) = (place.ip, place.backtrace);
            }
        }
    }

    /// An instance's time is up.
    pub(super) fn time_up(&self, id: u32) {
        let Some(instance) = self.instance(id) else { return };
        let timeout = instance.config.timeout.unwrap_or_default();
        let mut failure = Failure::new(FailureKind::Timeout, format!("ran longer than {timeout:?}, its timeout"));
        // The stack is read under the lock, so that the thread does not run meanwhile. Symbols are looked up later. If a carrier has a
        // thread, the place is noted when that puts it down.
        let frames = {
            let scheduler = self.lock();
            match scheduler.running_of(id) {
                0 => scheduler.last_place(id).map(|(call, registers)| frames_of(&instance, call, registers)),
                _ => None,
            }
        };
        if let Some(frames) = frames {
            fault::add_frames_of_call(&instance, &frames, &mut failure);
        }
        self.end(&instance, Err(Box::new(failure)));
    }
}

/// The return addresses on the stack of a thread that a carrier does not run, see [`fault::frames_of_call`].
fn frames_of(instance: &Instance, call: &Call, registers: Option<&Registers>) -> Vec<u64> {
    match registers {
        Some(registers) => fault::frames_of_interrupt(instance, registers),
        None => fault::frames_of_call(instance, call),
    }
}

/// Whether an instance was ended because its time was up, and it is not known yet what it did then.
fn is_timeout_without_place(ending: Option<&Result<(), Box<Failure>>>) -> bool {
    matches!(ending, Some(Err(failure)) if failure.kind == FailureKind::Timeout && failure.ip.is_none())
}
