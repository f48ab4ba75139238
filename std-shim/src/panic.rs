//! Panics, as in `std::panic` of a program that is built to abort: the hook runs, and then the instance ends.
//!
//! Nothing unwinds in an image, so a panic is never caught: [`catch_unwind`] is there for programs that guard code which
//! does not panic.

use crate::any::Any;
use crate::boxed::Box;
use crate::fmt;
use crate::string::String;
use crate::sync::RwLock;
use crate::{rt, thread};

pub use core::panic::*;

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send + 'static>;

static HOOK: RwLock<Option<Hook>> = RwLock::new(None);

/// The argument of a hook.
pub struct PanicHookInfo<'a> {
    payload: &'a (dyn Any + Send),
    location: &'a Location<'a>,
}

impl<'a> PanicHookInfo<'a> {
    pub(crate) fn new(payload: &'a (dyn Any + Send), location: &'a Location<'a>) -> PanicHookInfo<'a> {
        PanicHookInfo { payload, location }
    }

    /// What the panic carries: a `&'static str` or a `String` for `panic!`.
    pub fn payload(&self) -> &(dyn Any + Send) {
        self.payload
    }

    /// The text the panic carries, if it is one.
    pub fn payload_as_str(&self) -> Option<&str> {
        text(self.payload)
    }

    /// Where it happened.
    pub fn location(&self) -> Option<&Location<'_>> {
        Some(self.location)
    }
}

impl fmt::Display for PanicHookInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked at {}:", self.location)?;
        self.payload_as_str().map_or(Ok(()), |text| write!(f, "\n{text}"))
    }
}

impl fmt::Debug for PanicHookInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicHookInfo").field("location", &self.location).finish_non_exhaustive()
    }
}

/// A payload's text.
pub(crate) fn text(payload: &(dyn Any + Send)) -> Option<&str> {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

/// Registers `hook` to run before a panic ends the instance.
pub fn set_hook(hook: Hook) {
    let old = HOOK.write().map(|mut current| current.replace(hook));
    drop(old);
}

/// Takes the hook back. The default hook does nothing: the report has the text of the panic.
pub fn take_hook() -> Hook {
    let old = HOOK.write().ok().and_then(|mut current| current.take());
    old.unwrap_or_else(|| Box::new(|_| ()))
}

/// Runs the hook. False if none is set, or while it is being changed.
pub(crate) fn call_hook(info: impl FnOnce(&dyn Fn(&PanicHookInfo<'_>))) {
    if let Ok(hook) = HOOK.try_read()
        && let Some(hook) = &*hook
    {
        info(hook);
    }
}

/// Runs `f`. A panic in it is not caught: it ends the instance.
pub fn catch_unwind<F: FnOnce() -> R + UnwindSafe, R>(f: F) -> thread::Result<R> {
    Ok(f())
}

/// Ends the instance with a panic that carries `message`.
#[track_caller]
pub fn panic_any<M: Any + Send + 'static>(message: M) -> ! {
    let payload: Box<dyn Any + Send> = Box::new(message);
    rt::panic_with(&*payload, Some(Location::caller()))
}

/// Ends the instance with a panic that carries `payload`; the hook does not run again.
pub fn resume_unwind(payload: Box<dyn Any + Send>) -> ! {
    rt::panic_with(&*payload, None)
}
