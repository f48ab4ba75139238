//! Limits of what clients may occupy.

use std::time::Duration;

/// How slow a client may be. Without bounds, clients that send a byte now and then hold every connection there is.
#[derive(Clone, Debug)]
pub struct ClientLimits {
    /// For a request's head, and between two requests. Default: 30 s.
    pub head: Duration,
    /// How long nothing need arrive or be taken: of a body, or of an answer. Default: 10 s.
    pub pause: Duration,
    /// Bytes per second a body must come at, once that time is over. Default: 16 KiB, less than any modem.
    pub rate: u64,
    /// How long a client that has closed its sending side, and may have gone away, is still answered. Default: 1 s.
    pub farewell: Duration,
    /// Connections at the same time; more wait in the kernel. Default: 1024.
    pub connections: usize,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            head: Duration::from_secs(30),
            pause: Duration::from_secs(10),
            rate: 16 << 10,
            farewell: Duration::from_secs(1),
            connections: 1024,
        }
    }
}
