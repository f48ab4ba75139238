//! Waiting for what happens outside, and doing what has an effect there.
//!
//! | call | |
//! | --- | --- |
//! | [`event`], [`first_of`] | waits for an event, or for the first of several |
//! | [`CANCEL`] | the event that tells the invocation to end |
//! | [`select!`](select!) | waits for the first of several events, answers, children and times |
//! | [`callback()`] | waits for an answer of a client that knows a secret |
//! | [`sleep`], [`sleep_until`] | waits for a time |
//! | [`step()`] | an effect on the outside: with a key that makes it safe to repeat, and tried again if it fails |
//! | [`scope()`] | undoes finished steps if a later one fails |
//! | [`send`] | an event for another invocation |
//! | [`start`], [`Child::join`] | an invocation of another workflow, and how it has ended |
//! | [`checkpoint`] | a save point with a label, to which the invocation can be taken back |
//! | [`fork`] | copies of this invocation, in which the call returns too |
//! | [`publish`] | a text that is read from outside while the workflow waits |
//! | [`handed_over`] | a text that the version before had published, if the invocation was migrated |
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

mod branch;
mod callback;
mod child;
mod scope;
#[doc(hidden)]
pub mod select;
mod step;

pub use crate::instance::generation;
pub use branch::{Checkpointed, Forked, checkpoint, fork};
pub use callback::{Answer, Answered, Callback, callback};
pub use child::{Child, Ending, Outcome, start, start_detached};
pub use scope::{Scope, scope};
pub use select::{Time, Wait, after, select, until};
pub use step::{Step, step};
pub(crate) use step::{key as step_key, pause as step_pause};

#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use monohull_abi::event::EVENT_SEPARATOR;
use monohull_abi::types::{Clock, InfoString, SlotView};
use monohull_abi::{Errno, handed, number};

/// The name of the event that tells the invocation to end: it is cancelled, or its parent has ended.
///
/// A function that waits for it, beside what it waits for, is told, and may undo what it has done before it returns. Then the invocation is `cancelled`. One that
/// does not wait for it is ended, and no code of it runs any more; so is any that is killed. The event is taken once: cancelling it again ends nothing that is
/// being undone. If it comes while the function computes, the next wait for it has it at once.
///
/// ```no_run
/// # use core::time::Duration;
/// # use monohull::durable::{self, CANCEL};
/// # fn release() {}
/// # fn f(week: Duration) -> Result<(), durable::EventError> {
/// let mut undo = durable::scope();
/// undo.on_failure(release);
/// match durable::first_of(["paid", CANCEL]).timeout(week).wait()? {
///     Some(("paid", receipt)) => undo.commit(),
///     Some((CANCEL, _)) => { /* told to end: the scope undoes */ }
///     _ => { /* not paid */ }
/// }
/// # Ok(())
/// # }
/// ```
pub const CANCEL: &str = monohull_abi::event::CANCEL_EVENT;

/// A deadline that never comes.
const NEVER: u64 = u64::MAX;

/// The last time that a clock shows.
const LAST: u64 = i64::MAX as u64;

/// Why there is no event, or why a text was not published.
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

    /// What happened; names the event or the text.
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
        self.take(deadline(self.timeout))
    }

    /// Takes the next event if it is there.
    pub fn try_recv(self) -> Result<Option<Vec<u8>>, EventError> {
        self.take(0)
    }

    fn take(self, deadline: u64) -> Result<Option<Vec<u8>>, EventError> {
        Ok(take(&[self.name], deadline)?.map(|(_, bytes)| bytes))
    }
}

/// The first of several events, each of which is as [`event`] describes.
///
/// The event that was sent first is taken, and no other. With the timeout this is a wait for events and a time:
///
/// ```no_run
/// # use core::time::Duration;
/// # use monohull::durable;
/// # fn f(day: Duration) -> Result<(), durable::EventError> {
/// match durable::first_of(["paid", "cancelled"]).timeout(day).wait()? {
///     Some(("paid", receipt)) => { /* … */ }
///     Some((_, reason)) => { /* … */ }
///     None => { /* a day has passed */ }
/// }
/// # Ok(())
/// # }
/// ```
pub fn first_of<'n, const N: usize>(names: [&'n str; N]) -> FirstOf<'n, N> {
    FirstOf { names, timeout: None }
}

/// What [`first_of`] gives: it waits for one of them.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `wait` and `try_recv` take an event"]
pub struct FirstOf<'n, const N: usize> {
    names: [&'n str; N],
    timeout: Option<Duration>,
}

impl<'n, const N: usize> FirstOf<'n, N> {
    /// Waits no longer than this.
    pub fn timeout(self, timeout: Duration) -> Self {
        FirstOf { timeout: Some(timeout), ..self }
    }

    /// Takes the event that was sent first, and waits until there is one: its name and content. `None` after the timeout.
    pub fn wait(self) -> Result<Option<(&'n str, Vec<u8>)>, EventError> {
        self.take(deadline(self.timeout))
    }

    /// Takes the event that was sent first, if one of them is there.
    pub fn try_recv(self) -> Result<Option<(&'n str, Vec<u8>)>, EventError> {
        self.take(0)
    }

    fn take(self, deadline: u64) -> Result<Option<(&'n str, Vec<u8>)>, EventError> {
        let found = take(&self.names, deadline)?;
        Ok(found.and_then(|(which, bytes)| Some((*self.names.get(which)?, bytes))))
    }
}

/// Takes the first event of these names: which one, and its content.
fn take(names: &[&str], deadline: u64) -> Result<Option<(usize, Vec<u8>)>, EventError> {
    if let Some(name) = names.iter().find(|name| name.contains(EVENT_SEPARATOR)) {
        let message = alloc::format!("event `{}`: a name has no control characters", name.escape_debug());
        return Err(EventError { errno: Errno::Invalid, message });
    }
    let names = names.join("\n");
    let mut view = SlotView::default();
    let out = (&raw mut view) as u64;
    match sys::call(number::EVENT_WAIT, [names.as_ptr() as u64, names.len() as u64, out, deadline]) {
        Ok(which) => Ok(Some((which as usize, copied(view)))),
        Err(Errno::TimedOut) => Ok(None),
        Err(errno) => Err(error(&names, errno)),
    }
}

/// The same for a function that runs programs of its own, whose names and timeouts come as they run: at most so many nanoseconds, or without end for
/// `u64::MAX`.
pub(crate) fn take_within(names: &[&str], timeout: u64) -> Result<Option<(usize, Vec<u8>)>, EventError> {
    take(
        names,
        match timeout {
            0 | NEVER => timeout,
            _ => deadline(Some(Duration::from_nanos(timeout))),
        },
    )
}

fn deadline(timeout: Option<Duration>) -> u64 {
    timeout.map_or(NEVER, |timeout| clock(Clock::Monotonic).saturating_add(nanoseconds(timeout)))
}

/// The id of the invocation, by which others send it events: that of `run --id`, or the server's.
///
/// It stays the same after a rewind, a kill or a new attempt. A copy is another invocation.
pub fn invocation_id() -> String {
    sys::info_string(InfoString::Invocation)
}

/// Publishes a text, in place of the one before: it is read from outside while the workflow waits, and after its end, without waking it.
///
/// `monohull show ID` has it, and `GET /invocations/ID/state/NAME` of a server. What is published leaves with the next checkpoint, so it
/// belongs to the state in which the workflow waits; a rewind takes it back.
///
/// The name is as for [`event`]. All texts of a workflow with their names have at most 16 KiB, under at most 64 names.
pub fn publish(name: &str, text: &str) -> Result<(), EventError> {
    let args = [name.as_ptr() as u64, name.len() as u64, text.as_ptr() as u64, text.len() as u64];
    match sys::call(number::PUBLISH, args) {
        Ok(_) => Ok(()),
        Err(errno) => Err(event_error(errno, &alloc::format!("publishing `{name}`"))),
    }
}

/// What the version before this one had published under this name, if the invocation was migrated to this one: `monohull migrate`, or
/// `POST /workflows/NAME/migrate` of a server.
///
/// A migrated invocation begins at the beginning of the new version, with the same id, inputs and events. All that it knows of what it has done
/// is what it had published at its last checkpoint. It stays the same until the invocation is migrated again, whatever is published since.
///
/// ```no_run
/// # use monohull::durable;
/// # fn f() -> Result<(), durable::EventError> {
/// let mut count: i64 = durable::handed_over("count").and_then(|text| text.parse().ok()).unwrap_or(0);
/// durable::publish("count", &count.to_string())?;
/// # Ok(())
/// # }
/// ```
pub fn handed_over(name: &str) -> Option<String> {
    handed::find(&sys::info_string(InfoString::HandedOver), name).map(String::from)
}

/// Sends an event to another invocation, by its [id](invocation_id): it leaves with the next checkpoint of this one, or with its end.
///
/// So it is sent once, whenever a process is killed; and not at all if this workflow begins again as a whole before that. An instance that is
/// started again after a failure sends what it has sent before at the same place, with the same content, no second time.
///
/// `sends_to` of the workflow file names the workflows whose invocations may be sent events. Whether there is such an invocation, and whether
/// it takes any, is known only when the event leaves: `monohull show` has those that could not be sent, and so has the page of a server. Up to 256 events and 4 MiB leave at a time.
///
/// ```no_run
/// # use monohull::durable;
/// # fn f(order: &str) -> Result<(), durable::EventError> {
/// durable::send(order, "paid", b"r-4711")?;
/// # Ok(())
/// # }
/// ```
pub fn send(invocation: &str, name: &str, bytes: &[u8]) -> Result<(), EventError> {
    crate::send::send_event(invocation.as_bytes(), name.as_bytes(), bytes)
        .map_err(|errno| event_error(errno, &alloc::format!("sending event `{name}` to `{invocation}`")))
}

/// What went wrong with a call of this kind.
#[cold]
fn event_error(errno: Errno, what: &str) -> EventError {
    let explained = sys::last_error_message();
    let message = if explained.is_empty() { alloc::format!("{errno}") } else { explained };
    EventError { errno, message: alloc::format!("{what}: {message}") }
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
fn error(names: &str, errno: Errno) -> EventError {
    let explained = sys::last_error_message();
    let message = if explained.is_empty() {
        alloc::format!("event `{}`: {errno}", names.replace('\n', "` or `"))
    } else {
        explained
    };
    EventError { errno, message }
}

/// Sleeps for at least this long, be it years. The last time is in April 2262: a longer sleep ends then.
pub fn sleep(time: Duration) {
    // It is not refused.
    let _ = sys::call(number::NANOSLEEP, [nanoseconds(time)]);
}

/// Sleeps until a time by the wall clock, given as what has passed since the start of 1970 (UTC), or until April 2262.
pub fn sleep_until(since_1970: Duration) {
    let until = nanoseconds(since_1970).min(LAST);
    loop {
        let left = until.saturating_sub(clock(Clock::Realtime));
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
    fn the_first_of_several_is_the_one_that_was_sent_first() {
        send("b", b"1");
        send("a", b"2");
        send("c", b"3");
        assert_eq!(first_of(["a", "b"]).wait(), Ok(Some(("b", b"1".to_vec()))));
        assert_eq!(first_of(["a", "b"]).try_recv(), Ok(Some(("a", b"2".to_vec()))));
        assert_eq!(first_of(["a", "b"]).timeout(Duration::from_secs(1)).wait(), Ok(None));
        assert_eq!(event("c").wait(), Ok(Some(b"3".to_vec())), "the others stay");
        let error = first_of(["a\nb", "c"]).wait().unwrap_err();
        assert_eq!(
            (error.errno(), error.message()),
            (Errno::Invalid, "event `a\\nb`: a name has no control characters")
        );
        assert_eq!(event("a\nb").try_recv().unwrap_err(), error);
    }

    #[test]
    fn what_is_published_goes_to_the_system_and_its_refusals_come_back() {
        assert_eq!(publish("count", "17"), Ok(()));
        assert_eq!(crate::slot::host::published("count").as_deref(), Some("17"));
        let refused = publish("", "17").unwrap_err();
        assert_eq!((refused.errno(), refused.message()), (Errno::Invalid, "publishing ``: the name is empty"));
    }

    #[test]
    fn what_was_handed_over_is_found_by_its_name() {
        assert_eq!(handed_over("count").as_deref(), Some("17"));
        assert_eq!(handed_over("cou"), None);
    }

    #[test]
    fn what_is_sent_has_a_number_and_refusals_come_back() {
        assert_eq!(super::send("order-17", "paid", b"1"), Ok(()));
        assert_eq!(super::send("order-17", "paid", b"2"), Ok(()));
        let sent = crate::slot::host::outgoing();
        let texts: Vec<_> = sent.iter().map(|(text, bytes, _)| (text.as_str(), bytes.as_slice())).collect();
        assert_eq!(texts, [("order-17\npaid", &b"1"[..]), ("order-17\npaid", b"2")]);
        assert_eq!(sent[1].2, sent[0].2 + 1);
        let refused = super::send("order-17", "", b"").unwrap_err();
        let message = "sending event `` to `order-17`: the event's name is empty";
        assert_eq!((refused.errno(), refused.message()), (Errno::Invalid, message));
    }

    #[test]
    fn a_token_is_a_name_that_no_other_has() {
        let (one, two) = (callback(), callback());
        assert_eq!(one.url(), alloc::format!("https://ships.example/callbacks/the-invocation/{}", one.token()));
        assert!(one != two && one.token().len() == 41, "{one:?}");
        assert_eq!(one.event().try_recv(), Ok(None));
        send(one.token(), b"yes");
        assert_eq!((two.event().try_recv(), one.event().wait()), (Ok(None), Ok(Some(b"yes".to_vec()))));
    }

    #[test]
    fn a_timeout_ends_a_wait_and_is_counted_from_now() {
        pass(7_000);
        assert_eq!(event("paid").timeout(Duration::from_nanos(500)).wait(), Ok(None));
        assert_eq!(sys::call(number::CLOCK_GETTIME, [0]), Ok(7_500));
        send("paid", b"x");
        assert_eq!(event("paid").timeout(Duration::MAX).wait(), Ok(Some(b"x".to_vec())));
        assert_eq!(take_within(&["paid", "late"], 0), Ok(None));
        assert_eq!(take_within(&["paid", "late"], 500), Ok(None));
        assert_eq!(sys::call(number::CLOCK_GETTIME, [0]), Ok(8_000));
        send("late", b"y");
        assert_eq!(take_within(&["paid", "late"], u64::MAX), Ok(Some((1, b"y".to_vec()))));
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
        pass(LAST - sys::call(number::CLOCK_GETTIME, [1]).unwrap());
        sleep_until(Duration::MAX);
        assert_eq!(sys::call(number::CLOCK_GETTIME, [1]), Ok(LAST), "there is no later time");
    }
}
