//! Threads of this function, as in `std::thread`.
//!
//! They run in parallel on as many carriers as the workflow has, and cost a stack and a few hundred bytes
//! each: what waits is parked. A panic in any of them ends the instance, so `join` returns `Ok` or not at all.

mod local;
mod scoped;
mod spawn;

pub use local::{AccessError, LocalKey};
pub(crate) use local::{Locals, drop_locals};
pub use scoped::{Scope, ScopedJoinHandle, scope};
pub use spawn::{Builder, JoinHandle, spawn};

use crate::num::{NonZero, NonZeroU64};
use crate::rt::header::with_header;
use crate::string::String;
use crate::sync::Arc;
use crate::time::{Duration, Instant};
use crate::{any, boxed, fmt, io, sys};
use core::ptr::null;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Release};
use monohull_abi::types::Info;

/// What `join` returns. Never an `Err`: a panic ends the instance.
pub type Result<T> = core::result::Result<T, boxed::Box<dyn any::Any + Send + 'static>>;

/// Identifies a thread for as long as the instance lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId(NonZeroU64);

/// A handle to a thread.
#[derive(Clone)]
pub struct Thread(Arc<Inner>);

/// What a thread's handles share.
pub(crate) struct Inner {
    name: Option<String>,
    id: ThreadId,
    /// 1 if an `unpark` has not been used up yet.
    token: AtomicU32,
}

impl Thread {
    fn new(name: Option<String>, id: NonZeroU64) -> Thread {
        Thread(Arc::new(Inner { name, id: ThreadId(id), token: AtomicU32::new(0) }))
    }

    /// The thread's name; the first one is called `main`.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The thread's identity.
    pub fn id(&self) -> ThreadId {
        self.0.id
    }

    /// Lets the thread's current or next `park` return.
    pub fn unpark(&self) {
        if self.0.token.swap(1, Release) == 0 {
            sys::futex_wake(&self.0.token, 1);
        }
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thread").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

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
