//! What programs wait for that depends on a socket of the system.

use crate::sockets::{READ, Socket, WRITE};
use alloc::sync::Arc;

/// Something that can be done once a socket is ready.
pub(super) trait Readiness: Send + Sync {
    /// The socket, and what it has to be ready for; nothing if there is nothing to wait for.
    fn awaits(&self) -> Option<(Arc<Socket>, u32)>;

    /// The socket is ready: whether this is.
    fn has_come(&self) -> bool {
        true
    }
}

/// Something to read, or the end.
pub(super) struct Readable(pub(super) Arc<Socket>);

impl Readiness for Readable {
    fn awaits(&self) -> Option<(Arc<Socket>, u32)> {
        Some((Arc::clone(&self.0), READ))
    }
}

/// Room for a datagram.
pub(super) struct Writable(pub(super) Arc<Socket>);

impl Readiness for Writable {
    fn awaits(&self) -> Option<(Arc<Socket>, u32)> {
        Some((Arc::clone(&self.0), WRITE))
    }
}
