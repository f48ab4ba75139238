//! Hints: what is said between engines, and between the parts of one, so that they look sooner.
//!
//! A hint is said after a commit, and only after it. It names nothing that counts: whether something is due, and whose it is, is in the store. If all of
//! them are lost, what they were about is found at the end of a [`nap`](crate::nap).

use std::future::Future;
use std::pin::Pin;

/// A wait for a hint.
pub type Poked<'h> = Pin<Box<dyn Future<Output = ()> + Send + 'h>>;

/// A way on which hints come. Each may be lost, come late, or come twice.
pub trait Hints: Send + Sync {
    /// Something may be due sooner than it was.
    fn poke(&self);

    /// Returns when there has been a hint since the last one that was waited for, and maybe without one.
    fn poked(&self) -> Poked<'_>;
}

/// All hints are lost.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHints;

impl Hints for NoHints {
    fn poke(&self) {}

    fn poked(&self) -> Poked<'_> {
        Box::pin(std::future::pending())
    }
}
