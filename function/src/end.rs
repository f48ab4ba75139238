//! Ending the instance as failed. What was printed before is not to be lost, and only the std beneath knows where it is.

use crate::sys;
use alloc::format;
use core::fmt;
use core::sync::atomic::{AtomicPtr, Ordering};
use monohull_abi::types::AbortKind;

/// A `fn()` of the std beneath, which flushes its output; null if it has none.
static BEFORE_END: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// For the std beneath: has this called before the instance is ended here.
pub fn set_before_end(flush: fn()) {
    BEFORE_END.store(flush as *mut (), Ordering::Relaxed);
}

/// Ends the instance as failed.
pub fn fail(kind: AbortKind, error: fmt::Arguments<'_>) -> ! {
    let text = format!("{error}");
    flush();
    sys::fail(kind, &text)
}

/// Flushes the output of the std beneath.
pub(crate) fn flush() {
    let flush = BEFORE_END.load(Ordering::Relaxed);
    if !flush.is_null() {
        // SAFETY: only `set_before_end` stores there, and it stores a `fn()`.
        unsafe { core::mem::transmute::<*mut (), fn()>(flush)() }
    }
    #[cfg(feature = "std")]
    let _ = std::io::Write::flush(&mut std::io::stdout());
}
