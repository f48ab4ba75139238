//! What stands for a thread: its identity, its name, and the token that `unpark` leaves for `park`.

use crate::num::NonZeroU64;
use crate::string::String;
use crate::sync::Arc;
use crate::{fmt, sys};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Release;

/// Identifies a thread for as long as the instance lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ThreadId(NonZeroU64);

/// A handle to a thread.
#[derive(Clone)]
pub struct Thread(pub(super) Arc<Inner>);

/// What a thread's handles share.
pub(crate) struct Inner {
    name: Option<String>,
    id: ThreadId,
    /// 1 if an `unpark` has not been used up yet.
    pub(super) token: AtomicU32,
}

impl Thread {
    pub(super) fn new(name: Option<String>, id: NonZeroU64) -> Thread {
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
