//! Waiting for what happens outside: [events](event) and [times](sleep_until).
//!
//! These are ordinary blocking calls, at any depth, in any thread. While all of a workflow only waits it may be suspended: it is a file then,
//! and no process. It goes on in the call, with its memory as it was.
//!
//! ```no_run
//! use core::time::Duration;
//! use monohull::durable;
//! # fn remind() {}
//!
//! # fn approved() -> Result<bool, durable::EventError> {
//! let day = Duration::from_secs(24 * 60 * 60);
//! for _ in 0..3 {
//!     if let Some(answer) = durable::event("approved").timeout(day).wait()? {
//!         return Ok(answer == b"yes");
//!     }
//!     remind();
//! }
//! # Ok(false)
//! # }
//! ```

#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use monohull_abi::types::{Clock, SlotView};
use monohull_abi::{Errno, number};

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

/// Why there is no event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventError {
    errno: Errno,
    message: String,
}

impl EventError {
    /// The kind of error: [`Errno::NotPermitted`] if this run receives no events, [`Errno::Invalid`] for a name that no event can have,
    /// [`Errno::OutOfMemory`], …
    pub fn errno(&self) -> Errno {
        self.errno
    }

    /// What happened; names the event.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for EventError {}

/// Events of a name, which are sent to the workflow from outside.
///
/// Each is taken once, in the order in which they were sent. One that was sent before it is waited for is kept.
pub fn event(name: &str) -> Event<'_> {
    Event { name, timeout: None }
}

/// What [`event`] gives: it waits for one.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `wait` and `try_recv` take an event"]
pub struct Event<'n> {
    name: &'n str,
    timeout: Option<Duration>,
}

impl Event<'_> {
    /// Waits no longer than this.
    pub fn timeout(self, timeout: Duration) -> Self {
        Event { timeout: Some(timeout), ..self }
    }

    /// Takes the next event, and waits until there is one. `None` after the timeout.
    pub fn wait(self) -> Result<Option<Vec<u8>>, EventError> {
        let after = |timeout: Duration| clock(Clock::Monotonic).saturating_add(nanoseconds(timeout));
        self.take(self.timeout.map_or(NEVER, after))
    }

    /// Takes the next event if it is there.
    pub fn try_recv(self) -> Result<Option<Vec<u8>>, EventError> {
        self.take(0)
    }

    fn take(self, deadline: u64) -> Result<Option<Vec<u8>>, EventError> {
        let mut view = SlotView::default();
        let (name, out) = (self.name, (&raw mut view) as u64);
        match sys::call(number::EVENT_WAIT, [name.as_ptr() as u64, name.len() as u64, out, deadline]) {
            Ok(_) => Ok(Some(copied(view))),
            Err(Errno::TimedOut) => Ok(None),
            Err(errno) => Err(error(name, errno)),
        }
    }
}

/// The bytes of a buffer, which is freed.
#[allow(unsafe_code, reason = "the address of a buffer comes as a number")]
fn copied(view: SlotView) -> Vec<u8> {
    // SAFETY: the system has given this instance the buffer, with so many bytes in use, and nothing else knows of it.
    let bytes = unsafe { core::slice::from_raw_parts(view.address as *const u8, view.count as usize) }.to_vec();
    // Refused only if there is nothing to free.
    let _ = sys::call(number::SLOT_FREE, [view.address]);
    bytes
}

#[cold]
fn error(name: &str, errno: Errno) -> EventError {
    let explained = sys::last_error_message();
    let message = if explained.is_empty() { alloc::format!("event `{name}`: {errno}") } else { explained };
    EventError { errno, message }
}

/// Sleeps for at least this long, be it years.
pub fn sleep(time: Duration) {
    // Refused only for a sleep without end in which nothing else can happen.
    let _ = sys::call(number::NANOSLEEP, [nanoseconds(time)]);
}

/// Sleeps until a time by the wall clock, given as what has passed since the start of 1970 (UTC).
pub fn sleep_until(since_1970: Duration) {
    loop {
        let left = nanoseconds(since_1970).saturating_sub(clock(Clock::Realtime));
        if left == 0 {
            return;
        }
        // The clock may be set meanwhile.
        sleep(Duration::from_nanos(left));
    }
}

fn clock(clock: Clock) -> u64 {
    sys::call(number::CLOCK_GETTIME, [clock as u64]).unwrap_or(0)
}

fn nanoseconds(time: Duration) -> u64 {
    // All ones would mean never.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host::{census, pass, send};

    #[test]
    fn events_are_taken_in_their_order_and_their_buffers_freed() {
        send("paid", b"1");
        send("other", b"");
        send("paid", b"22");
        let buffers = census().0;
        assert_eq!(event("paid").wait(), Ok(Some(b"1".to_vec())));
        assert_eq!(event("paid").try_recv(), Ok(Some(b"22".to_vec())));
        assert_eq!(event("paid").try_recv(), Ok(None));
        assert_eq!(event("other").wait(), Ok(Some(Vec::new())));
        assert_eq!(census().0, buffers - 3);
    }

    #[test]
    fn a_timeout_ends_a_wait_and_is_counted_from_now() {
        pass(7_000);
        assert_eq!(event("paid").timeout(Duration::from_nanos(500)).wait(), Ok(None));
        assert_eq!(sys::call(number::CLOCK_GETTIME, [0]), Ok(7_500));
        send("paid", b"x");
        assert_eq!(event("paid").timeout(Duration::MAX).wait(), Ok(Some(b"x".to_vec())));
    }

    #[test]
    fn an_error_says_what_the_system_says() {
        let error = event("").wait().unwrap_err();
        assert_eq!((error.errno(), error.message()), (Errno::Invalid, "the event's name is empty"));
        let silent = event("refused").wait().unwrap_err();
        assert!(silent.message().starts_with("event `refused`: "), "{silent}");
    }

    #[test]
    fn a_sleep_until_a_time_goes_on_until_then() {
        pass(1_000);
        sleep(Duration::from_nanos(5));
        sleep_until(Duration::from_nanos(900));
        assert_eq!(sys::call(number::CLOCK_GETTIME, [1]), Ok(1_005), "that time is over");
        sleep_until(Duration::from_nanos(4_000));
        assert!(sys::call(number::CLOCK_GETTIME, [1]).unwrap() >= 4_000);
    }
}
