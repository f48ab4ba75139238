//! Threads that may borrow from the function that starts them.

use super::spawn::{Builder, JoinInner};
use super::{Result, Thread};
use crate::sync::Arc;
use crate::{fmt, io, sys};
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The threads of one scope that have not let go of what they borrow.
pub(super) struct Running(AtomicU32);

/// Where scoped threads are started.
pub struct Scope<'scope, 'env: 'scope> {
    running: Arc<Running>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Waits for a scoped thread.
pub struct ScopedJoinHandle<'scope, T>(JoinInner<'scope, T>);

impl Running {
    pub(super) fn one_more(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn one_less(&self) {
        if self.0.fetch_sub(1, Release) == 1 {
            sys::futex_wake(&self.0, 1);
        }
    }

    fn wait_for_all(&self) {
        loop {
            match self.0.load(Acquire) {
                0 => return,
                some => sys::futex_wait(&self.0, some, None),
            };
        }
    }
}

/// Runs `f`, then waits for all threads it has started in the scope.
pub fn scope<'env, F, T>(f: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope { running: Arc::new(Running(AtomicU32::new(0))), scope: PhantomData, env: PhantomData };
    let result = f(&scope);
    scope.running.wait_for_all();
    result
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread in this scope.
    ///
    /// # Panics
    /// If the host refuses.
    pub fn spawn<F, T>(&'scope self, f: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        Builder::new().spawn_scoped(self, f).expect("failed to spawn thread")
    }
}

impl Builder {
    /// Starts a thread in a scope.
    #[allow(unsafe_code, reason = "the scope's promise is made here")]
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        f: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        // SAFETY: `scope` does not return before `running` counts none (a panic in between ends the instance), and
        // the count goes down after the closure and its unclaimed result have been dropped.
        unsafe { self.start(f, Some(scope.running.clone())) }.map(ScopedJoinHandle)
    }
}

impl<T> ScopedJoinHandle<'_, T> {
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

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("running", &self.running.0).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle").finish_non_exhaustive()
    }
}
