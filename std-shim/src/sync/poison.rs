//! The results of locking. Always `Ok`, but for a lock that is held when `try_lock` asks.

use crate::fmt;

/// The lock was poisoned. Never made by this crate, except on request.
pub struct PoisonError<T> {
    data: T,
}

/// Why `try_lock` did not get the lock.
pub enum TryLockError<T> {
    /// The lock was poisoned.
    Poisoned(PoisonError<T>),
    /// It is locked.
    WouldBlock,
}

/// What locking returns.
pub type LockResult<T> = Result<T, PoisonError<T>>;
/// What trying to lock returns.
pub type TryLockResult<T> = Result<T, TryLockError<T>>;

impl<T> PoisonError<T> {
    /// An error around a guard.
    pub fn new(data: T) -> PoisonError<T> {
        PoisonError { data }
    }

    /// The guard.
    pub fn into_inner(self) -> T {
        self.data
    }

    /// The guard.
    pub fn get_ref(&self) -> &T {
        &self.data
    }

    /// The guard.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

impl<T> fmt::Debug for PoisonError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoisonError").finish_non_exhaustive()
    }
}

impl<T> fmt::Display for PoisonError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("poisoned lock: another task failed inside")
    }
}

impl<T> core::error::Error for PoisonError<T> {}

impl<T> From<PoisonError<T>> for TryLockError<T> {
    fn from(error: PoisonError<T>) -> TryLockError<T> {
        TryLockError::Poisoned(error)
    }
}

impl<T> fmt::Debug for TryLockError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            TryLockError::Poisoned(_) => "Poisoned(..)",
            TryLockError::WouldBlock => "WouldBlock",
        };
        // std prints it in quotes.
        fmt::Debug::fmt(name, f)
    }
}

impl<T> fmt::Display for TryLockError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryLockError::Poisoned(_) => "poisoned lock: another task failed inside",
            TryLockError::WouldBlock => "try_lock failed because the operation would block",
        })
    }
}

impl<T> core::error::Error for TryLockError<T> {}
