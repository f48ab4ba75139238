//! Threads of this function, as in `std::thread`.
//!
//! They run in parallel on as many carriers as the workflow has, and cost a stack and a few hundred bytes
//! each: what waits is parked. A panic in any of them ends the instance, so `join` returns `Ok` or not at all.

mod handle;
mod local;
mod locals;
mod scoped;
mod spawn;

pub(crate) use handle::Inner;
pub use handle::{Thread, ThreadId};
pub use local::{AccessError, LocalKey};
pub(crate) use locals::Locals;
pub use scoped::{Scope, ScopedJoinHandle, scope};
pub use spawn::{Builder, JoinHandle, spawn};

use crate::num::{NonZero, NonZeroU64};
use crate::rt::header::with_header;
use crate::string::String;
use crate::sync::Arc;
use crate::time::{Duration, Instant};
use crate::{any, boxed, io, sys};
use core::ptr::null;
use core::sync::atomic::Ordering::Acquire;
use local::drop_locals;
use monohull_abi::types::Info;

/// What `join` returns. Never an `Err`: a panic ends the instance.
pub type Result<T> = core::result::Result<T, boxed::Box<dyn any::Any + Send + 'static>>;

/// The identity of the main thread.
const MAIN_ID: NonZeroU64 = NonZeroU64::MIN;

/// The calling thread.
pub fn current() -> Thread {
    with_inner(|inner| {
        inner.cloned().unwrap_or_else(|| {
            let main = Thread::new(Some(String::from("main")), MAIN_ID);
            become_thread(main.clone());
            main
        })
    })
}

/// Runs `with` on the calling thread's data; `None` on the main thread before the first access.
#[allow(unsafe_code, reason = "the thread header keeps an Arc as a raw pointer")]
fn with_inner<R>(with: impl FnOnce(Option<&Thread>) -> R) -> R {
    let inner = with_header(|header| header.thread.get());
    if inner.is_null() {
        return with(None);
    }
    // SAFETY: the header holds a pointer from `Arc::into_raw` until `drop_thread`, and only this thread changes it; the
    // count that belongs to the header is not given up here.
    let thread = core::mem::ManuallyDrop::new(Thread(unsafe { Arc::from_raw(inner) }));
    with(Some(&thread))
}

/// Makes `thread` the calling thread's identity.
fn become_thread(thread: Thread) {
    with_header(|header| header.thread.set(Arc::into_raw(thread.0)));
}

/// Runs `with` on the calling thread's name, without allocating.
pub(crate) fn with_current_name<R>(with: impl FnOnce(Option<&str>) -> R) -> R {
    with_inner(|thread| with(thread.map_or(Some("main"), Thread::name)))
}

/// Gives up what the calling thread holds in its header: thread-locals, identity, free blocks.
#[allow(unsafe_code, reason = "the thread header keeps an Arc as a raw pointer")]
pub(crate) fn end_of_thread() {
    drop_locals();
    let inner = with_header(|header| header.thread.replace(null()));
    if !inner.is_null() {
        // SAFETY: from `Arc::into_raw` in `become_thread`, and out of the header since the line before.
        drop(unsafe { Arc::from_raw(inner) });
    }
    crate::rt::drop_cache();
}

/// Waits until this thread is unparked. May return earlier.
pub fn park() {
    let thread = current();
    while thread.0.token.swap(0, Acquire) == 0 {
        sys::futex_wait(&thread.0.token, 0, None);
    }
}

/// Waits until this thread is unparked, at most for `timeout`.
pub fn park_timeout(timeout: Duration) {
    let thread = current();
    if thread.0.token.swap(0, Acquire) == 0 {
        sys::futex_wait(&thread.0.token, 0, Some(timeout));
        thread.0.token.swap(0, Acquire);
    }
}

/// Parks for at least `time`.
pub fn sleep(time: Duration) {
    sys::sleep(time);
}

/// Parks until `deadline`.
pub fn sleep_until(deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        sys::sleep(left);
    }
}

/// Lets another thread run.
pub fn yield_now() {
    sys::yield_now();
}

/// Always false to the code that could ask: a panic ends the instance.
pub fn panicking() -> bool {
    false
}

/// How many threads really run in parallel.
pub fn available_parallelism() -> io::Result<NonZero<usize>> {
    let parallelism = sys::info(Info::Parallelism) as usize;
    NonZero::new(parallelism).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}
