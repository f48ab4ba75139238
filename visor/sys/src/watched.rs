//! A descriptor that a tokio runtime watches.
//!
//! `tokio::io::unix::AsyncFd` asks its caller to promise that the descriptor stays the same and open while it is
//! registered. A [`Watched`] keeps that promise: it owns the descriptor and hands out no other access to it.

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

/// A descriptor that is watched for being readable.
#[derive(Debug)]
pub struct Watched(AsyncFd<OwnedFd>);

impl Watched {
    /// Has the runtime of the calling task watch a descriptor. Where the descriptor has another owner besides, a duplicate
    /// serves as well: `epoll(7)` watches the open file.
    pub fn new(descriptor: OwnedFd) -> io::Result<Watched> {
        // SAFETY: `OwnedFd` is one open descriptor as long as it exists. It is private here and never replaced, taken out or
        // forgotten, so it is the same one until the `AsyncFd` is dropped.
        let watched = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
        Ok(Watched(watched?))
    }

    /// Waits until the descriptor is readable. `clear_ready` of the guard has the next call wait anew.
    pub async fn readable(&self) -> io::Result<AsyncFdReadyGuard<'_, OwnedFd>> {
        self.0.readable().await
    }
}
