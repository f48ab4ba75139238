//! Points in time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When a request was accepted, on all clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) world: SystemTime,
    pub(crate) begin: Instant,
    pub(crate) ns: u64,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { world: SystemTime::now(), begin: Instant::now(), ns: monohull_domain::host_time::monotonic_ns() }
    }
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Nanoseconds since 1970.
pub(crate) fn ns_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// Milliseconds since 1970.
pub(crate) fn ms_since_1970(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}
