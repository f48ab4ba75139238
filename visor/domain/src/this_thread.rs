//! What the calling thread does: which carrier it is, and the instance whose hostcall it serves.

use super::instance::Instance;
use super::preemption;
use monohull_abi::module::{Call, SYSTEM_INSTANCE};
use std::cell::Cell;

/// The index of a thread that is no carrier.
const NO_CARRIER: usize = usize::MAX;

thread_local! {
    /// The carrier the thread is.
    static CARRIER: Cell<usize> = const { Cell::new(NO_CARRIER) };
    /// The instance whose thread it runs; null in between.
    static INSTANCE: Cell<*const Instance> = const { Cell::new(std::ptr::null()) };
}

/// The index of the carrier the calling thread is; an index of no carrier if it is not one.
pub(crate) fn carrier() -> usize {
    CARRIER.get()
}

/// Makes the calling thread this carrier.
pub(crate) fn become_carrier(index: usize) {
    CARRIER.set(index);
}

/// The calling thread is no carrier any more.
pub(crate) fn end_carrier() {
    CARRIER.set(NO_CARRIER);
}

/// The instance whose thread's call is being served on this thread, if it is a function's call.
pub(crate) fn instance<'i>(call: &Call) -> Option<&'i Instance> {
    if call.instance == SYSTEM_INSTANCE {
        return None;
    }
    served_instance().filter(|instance| instance.id == call.instance)
}

/// The instance whose threads run on this thread, for services that modules use without naming the call.
pub(crate) fn served_instance<'i>() -> Option<&'i Instance> {
    // SAFETY: `enter_instance` on this very thread has set it, and its caller keeps the instance until it sets it anew, which
    // is not before the handler that calls this has returned.
    unsafe { INSTANCE.get().as_ref() }
}

/// From here on the calling thread serves calls of this instance.
///
/// # Safety
/// The instance lives until [`exit_instance`], or the next call of this, on the same thread.
pub(crate) unsafe fn enter_instance(instance: &Instance) {
    INSTANCE.set(instance);
}

/// From here on it serves calls of none.
pub(crate) fn exit_instance() {
    INSTANCE.set(std::ptr::null());
}

/// Whether the call that is being served on this thread is to stop half-way: its instance, or the run, has to end. Operations
/// that take more than some milliseconds check this now and then.
pub(crate) fn is_interrupted() -> bool {
    preemption::is_interrupted(CARRIER.get())
}
