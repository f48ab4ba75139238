//! Starting threads and waiting for their results.
//!
//! The new thread begins at one fixed entry of the image with the address of a box in `rax`, which holds the closure:
//!
//! ```text
//!   spawn ── box ──▶ THREAD_SPAWN ──▶ monohull_std_thread ──▶ body ──▶ header given up ──▶ THREAD_EXIT
//!                        │ number                               │ result
//!   join  ◀── THREAD_JOIN ◀─────────────────────── packet ◀─────┘
//! ```
#![allow(unsafe_code, reason = "a closure crosses to the new thread as the address of a box")]

use super::{MAIN_ID, Result, Thread, become_thread, end_of_thread};
use crate::boxed::Box;
use crate::num::NonZeroU64;
use crate::string::String;
use crate::sync::Arc;
use crate::{fmt, io, sys};
use core::cell::UnsafeCell;
use core::mem::transmute;
use core::sync::atomic::{AtomicU64, Ordering};
use monohull_abi::Errno;
use monohull_abi::types::Info;

/// Options for a new thread.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_size: usize,
}

/// Waits for a thread; dropping it lets the thread go on alone.
pub struct JoinHandle<T>(pub(super) JoinInner<'static, T>);

/// A started thread and the place of its result.
pub(super) struct JoinInner<'scope, T> {
    number: u64,
    pub(super) thread: Thread,
    packet: Arc<Packet<'scope, T>>,
}

/// The result of a thread. The thread writes it and ends; only then it is read.
struct Packet<'scope, T> {
    result: UnsafeCell<Option<T>>,
    scope: Option<Arc<super::scoped::Running>>,
    _scope: core::marker::PhantomData<&'scope ()>,
}

// SAFETY: `result` moves from the thread that writes it to the one that has joined it.
unsafe impl<T: Send> Sync for Packet<'_, T> {}

impl<T> Drop for Packet<'_, T> {
    fn drop(&mut self) {
        // The result of a thread that was not joined is dropped while the scope still waits, for it may borrow from there.
        *self.result.get_mut() = None;
        if let Some(scope) = &self.scope {
            scope.one_less();
        }
    }
}

/// What the entry finds in `rax`.
struct Start {
    thread: Thread,
    body: Box<dyn FnOnce() + Send>,
}

/// Starts a thread.
///
/// # Panics
/// If the host refuses; see [`Builder::spawn`].
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new().spawn(body).expect("failed to spawn thread")
}

impl Builder {
    /// No name, the usual stack.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// Names the thread, for panic messages.
    pub fn name(mut self, name: String) -> Builder {
        self.name = Some(name);
        self
    }

    /// Asks for a stack of at least `bytes`. All stacks of an instance are of one size, which the workflow file sets, so
    /// this only makes `spawn` fail where that is less.
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = bytes;
        self
    }

    /// Starts the thread.
    pub fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: nothing is borrowed: both types are `'static`.
        unsafe { self.start(body, None) }.map(JoinHandle)
    }

    /// # Safety
    /// The caller keeps what `body` and `T` borrow alive until the thread has ended, or until `scope` counts none.
    pub(super) unsafe fn start<'scope, F, T>(
        self,
        body: F,
        scope: Option<Arc<super::scoped::Running>>,
    ) -> io::Result<JoinInner<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        if self.stack_size > 0 && self.stack_size as u64 > sys::info(Info::StackSize) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the workflow's stacks are smaller than that"));
        }
        static NEXT: AtomicU64 = AtomicU64::new(MAIN_ID.get() + 1);
        let id = NonZeroU64::new(NEXT.fetch_add(1, Ordering::Relaxed)).unwrap_or(NonZeroU64::MAX);
        let thread = Thread::new(self.name, id);
        if let Some(scope) = &scope {
            scope.one_more();
        }
        let packet =
            Arc::new(Packet { result: UnsafeCell::new(None), scope, _scope: core::marker::PhantomData::<&'scope ()> });
        let theirs = packet.clone();
        let body: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || {
            let result = body();
            // SAFETY: a joining thread reads it after this thread has ended; until then it is ours.
            unsafe { *theirs.result.get() = Some(result) };
        });
        // SAFETY: only the lifetime changes, which the caller answers for.
        let body = unsafe { transmute::<Box<dyn FnOnce() + Send + 'scope>, Box<dyn FnOnce() + Send + 'static>>(body) };
        let start = Box::into_raw(Box::new(Start { thread: thread.clone(), body }));
        match begin(start as u64) {
            Ok(number) => Ok(JoinInner { number, thread, packet }),
            Err(errno) => {
                // SAFETY: the box was made above, and no thread has got it.
                drop(unsafe { Box::from_raw(start) });
                let error = io::Error::explained(errno);
                // An instance has its most threads: Linux has EAGAIN for that.
                Err(if errno == Errno::TooMany { error.of_kind(io::ErrorKind::WouldBlock) } else { error })
            }
        }
    }
}

/// Has a thread call [`run`] with this word; returns its number.
#[cfg(not(any(test, panic = "unwind")))]
fn begin(word: u64) -> core::result::Result<u64, Errno> {
    monohull_trampoline::thread_entry!(
        /// Every thread but the main one begins here.
        pub(crate) fn monohull_std_thread => enter
    );

    extern "C" fn enter(word: u64) -> ! {
        run(word);
        sys::thread_exit()
    }

    sys::thread_spawn(monohull_std_thread as *const () as u64, word)
}

/// The same in a unit test, whose threads are the host's.
#[cfg(any(test, panic = "unwind"))]
fn begin(word: u64) -> core::result::Result<u64, Errno> {
    sys::host::spawn(move || run(word))
}

/// What a thread does from its beginning to its end.
fn run(word: u64) {
    // SAFETY: the word is what `start` passed to `begin`: a box that is now ours.
    let Start { thread, body } = *unsafe { Box::from_raw(word as *mut Start) };
    become_thread(thread);
    body();
    end_of_thread();
}

impl<T> JoinInner<'_, T> {
    pub(super) fn join(self) -> Result<T> {
        sys::thread_join(self.number);
        // SAFETY: the thread has ended, and this handle is the only one.
        let result = unsafe { (*self.packet.result.get()).take() };
        Ok(result.expect("a thread that has ended has left its result"))
    }

    pub(super) fn is_finished(&self) -> bool {
        Arc::strong_count(&self.packet) == 1
    }
}

impl<T> JoinHandle<T> {
    /// Waits for the thread to end, and returns its result.
    pub fn join(self) -> Result<T> {
        self.0.join()
    }

    /// The thread.
    pub fn thread(&self) -> &Thread {
        &self.0.thread
    }

    /// Whether its closure has returned.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}
