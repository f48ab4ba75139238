//! Waiting for the first of several things of any kind.
//!
//! ```text
//!   select! { a = event("paid") => …, b = callback.answer() => …, c = &child => …, _ = after(day) => … }
//!                      │                     │                       │               │
//!                      ▼                     ▼                       ▼               ▼
//!               paid            callback-… callback-…:rejected   child:ID       the first deadline
//!               └──────────── one wait for an event of these names ───────────────┘
//! ```
//!
//! So the system knows of one wait alone, and takes one event at most. Nothing has to be given back by the branches that lose.

use super::{Answer, Answered, Child, Event, EventError, NEVER, Outcome, clock, deadline, nanoseconds, sleep, take};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::time::Duration;
use monohull_abi::Errno;
use monohull_abi::callback::Told;
use monohull_abi::types::Clock;

/// Waits for the first of several things, and does what its branch says.
///
/// A branch has a pattern, what is waited for, and what follows:
///
/// | what is waited for | what the pattern gets |
/// | --- | --- |
/// | [`event(name)`](super::event) | the content: `Vec<u8>` |
/// | [`callback.answer()`](super::Callback::answer), with its timeout and heartbeat if it has them | [`Answered`] |
/// | [`&child`](super::Child) | [`Outcome`] |
/// | [`after(time)`](super::after), [`until(time)`](super::until) | `()` |
///
/// ```no_run
/// # use core::time::Duration;
/// # use monohull::durable;
/// # fn ship() -> Result<&'static str, durable::EventError> { Ok("shipped") }
/// # fn f(child: &durable::Child, week: Duration) -> Result<(), durable::EventError> {
/// let came = durable::select! {
///     receipt = durable::event("paid") => format!("paid with {} bytes", receipt.len()),
///     _ = durable::event("cancelled") => return Ok(()),
///     outcome = child => format!("the check has ended: {}", outcome.message()),
///     () = durable::after(week) => {
///         ship()?.to_string()
///     }
/// }?;
/// # Ok(())
/// # }
/// ```
///
/// The value is a `Result` with what the branch gives, or the [`EventError`](super::EventError) of the wait. What follows is part of the
/// function around it: `?`, `return` and `break` mean what they mean there.
///
/// **One branch wins, and the others take nothing.** Of several events that are there, that which was sent first is taken; the others stay for
/// whatever waits for them next. An event that is there counts even if a time is up. Of two times that are up, that of the upper branch counts.
/// `after(Duration::ZERO)` is what there is if nothing else is there.
///
/// All branches together have at most 16 events, of which an answer takes two, or three with a heartbeat. An [`event`](super::event) in a branch has
/// no timeout of its own: that would be a branch that wins without an event. The error is [`Errno::Invalid`](monohull_abi::Errno::Invalid) for both.
#[doc(inline)]
pub use crate::__durable_select as select;

/// What `durable::select` names.
#[doc(hidden)]
#[macro_export]
macro_rules! __durable_select {
    (@read [$($read:tt)*] $pattern:pat = $wait:expr => $then:block $(,)? $($rest:tt)*) => {
        $crate::__durable_select!(@read [$($read)* ($pattern, $wait, $then)] $($rest)*)
    };
    (@read [$($read:tt)*] $pattern:pat = $wait:expr => $then:expr, $($rest:tt)*) => {
        $crate::__durable_select!(@read [$($read)* ($pattern, $wait, $then)] $($rest)*)
    };
    (@read [$($read:tt)*] $pattern:pat = $wait:expr => $then:expr) => {
        $crate::__durable_select!(@read [$($read)* ($pattern, $wait, $then)])
    };
    (@read [$(($pattern:pat, $wait:expr, $then:expr))+]) => {
        match $crate::durable::select::first($crate::__durable_select!(@waits $($wait,)+)) {
            ::core::result::Result::Ok(came) => {
                ::core::result::Result::Ok($crate::__durable_select!(@came came; $(($pattern, $then))+))
            }
            ::core::result::Result::Err(error) => ::core::result::Result::Err(error),
        }
    };
    (@waits) => { $crate::durable::select::NoMore };
    (@waits $wait:expr, $($rest:tt)*) => {
        $crate::durable::select::Or::new($wait, $crate::__durable_select!(@waits $($rest)*))
    };
    (@came $came:ident;) => { match $came {} };
    (@came $came:ident; ($pattern:pat, $then:expr) $($rest:tt)*) => {
        match $came {
            $crate::durable::select::Which::This($pattern) => $then,
            $crate::durable::select::Which::Other(came) => $crate::__durable_select!(@came came; $($rest)*),
        }
    };
    ($pattern:pat = $($rest:tt)+) => { $crate::__durable_select!(@read [] $pattern = $($rest)+) };
}

/// A time from now, as a branch of [`select!`](select); alone it is [`sleep`].
pub fn after(time: Duration) -> Time {
    Time(Until::Monotonic(deadline(Some(time))))
}

/// A time by the wall clock, given as what has passed since the start of 1970 (UTC), as a branch of [`select!`](select); alone it is
/// [`sleep_until`](super::sleep_until).
pub fn until(since_1970: Duration) -> Time {
    Time(Until::Wall(nanoseconds(since_1970)))
}

/// What [`after`] and [`until`] give.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `select!` waits for it"]
pub struct Time(Until);

#[derive(Clone, Copy, Debug)]
enum Until {
    Monotonic(u64),
    Wall(u64),
}

/// What a branch of [`select!`](select) waits for.
pub trait Wait {
    /// What its pattern gets.
    type Output;
    #[doc(hidden)]
    type Waiting: Waiting<Output = Self::Output>;
    #[doc(hidden)]
    fn begin(self) -> Self::Waiting;
}

/// Something that is waited for: events of some names, and a time.
#[doc(hidden)]
pub trait Waiting {
    type Output;
    /// Adds the names.
    fn names(&mut self, to: &mut Vec<String>) -> Result<(), EventError>;
    /// When its time is up, by the monotonic clock.
    fn deadline(&self) -> u64;
    /// An event has come, by its number among the names. `None` if there is more to wait for.
    fn event(&mut self, which: usize, content: Vec<u8>) -> Result<Option<Self::Output>, EventError>;
    /// What comes of it if its time is up now.
    fn time(&self, now: u64) -> Option<Self::Output>;
}

/// Waits for the first of these.
#[doc(hidden)]
pub fn first<W: Waiting>(mut wait: W) -> Result<W::Output, EventError> {
    let mut names = Vec::new();
    wait.names(&mut names)?;
    let names: Vec<&str> = names.iter().map(|name| &**name).collect();
    loop {
        let deadline = wait.deadline();
        let came = if names.is_empty() {
            sleep(Duration::from_nanos(deadline.saturating_sub(clock(Clock::Monotonic))));
            None
        } else {
            take(&names, deadline)?
        };
        let output = match came {
            Some((which, content)) => wait.event(which, content)?,
            None => wait.time(clock(Clock::Monotonic)),
        };
        if let Some(output) = output {
            return Ok(output);
        }
    }
}

/// A branch, and those below it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Or<W, R> {
    first: W,
    /// How many names it has.
    count: usize,
    rest: R,
}

/// Below the last branch.
#[doc(hidden)]
#[derive(Debug)]
pub struct NoMore;

/// Which branch it was.
#[doc(hidden)]
#[derive(Debug)]
pub enum Which<T, R> {
    This(T),
    Other(R),
}

impl<W: Waiting, R> Or<W, R> {
    #[doc(hidden)]
    pub fn new(wait: impl Wait<Waiting = W>, rest: R) -> Or<W, R> {
        Or { first: wait.begin(), count: 0, rest }
    }
}

impl<W: Waiting, R: Waiting> Waiting for Or<W, R> {
    type Output = Which<W::Output, R::Output>;

    fn names(&mut self, to: &mut Vec<String>) -> Result<(), EventError> {
        let before = to.len();
        self.first.names(to)?;
        self.count = to.len() - before;
        self.rest.names(to)
    }

    fn deadline(&self) -> u64 {
        self.first.deadline().min(self.rest.deadline())
    }

    fn event(&mut self, which: usize, content: Vec<u8>) -> Result<Option<Self::Output>, EventError> {
        match which.checked_sub(self.count) {
            None => Ok(self.first.event(which, content)?.map(Which::This)),
            Some(which) => Ok(self.rest.event(which, content)?.map(Which::Other)),
        }
    }

    fn time(&self, now: u64) -> Option<Self::Output> {
        match self.first.time(now) {
            Some(output) => Some(Which::This(output)),
            None => self.rest.time(now).map(Which::Other),
        }
    }
}

impl Waiting for NoMore {
    type Output = Infallible;

    fn names(&mut self, _: &mut Vec<String>) -> Result<(), EventError> {
        Ok(())
    }

    fn deadline(&self) -> u64 {
        NEVER
    }

    fn event(&mut self, _: usize, _: Vec<u8>) -> Result<Option<Infallible>, EventError> {
        Ok(None)
    }

    fn time(&self, _: u64) -> Option<Infallible> {
        None
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct WaitingEvent<'n> {
    name: &'n str,
    has_timeout: bool,
}

impl<'n> Wait for Event<'n> {
    type Output = Vec<u8>;
    type Waiting = WaitingEvent<'n>;

    fn begin(self) -> WaitingEvent<'n> {
        WaitingEvent { name: self.name, has_timeout: self.timeout.is_some() }
    }
}

impl Waiting for WaitingEvent<'_> {
    type Output = Vec<u8>;

    fn names(&mut self, to: &mut Vec<String>) -> Result<(), EventError> {
        if self.has_timeout {
            let message = alloc::format!("event `{}`: a branch of `select!` has no timeout: `after` is one", self.name);
            return Err(EventError { errno: Errno::Invalid, message });
        }
        to.push(self.name.to_string());
        Ok(())
    }

    fn deadline(&self) -> u64 {
        NEVER
    }

    fn event(&mut self, _: usize, content: Vec<u8>) -> Result<Option<Vec<u8>>, EventError> {
        Ok(Some(content))
    }

    fn time(&self, _: u64) -> Option<Vec<u8>> {
        None
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct WaitingAnswer<'c> {
    answer: Answer<'c>,
    end: u64,
    /// When the client has been silent for too long.
    silence: u64,
}

impl<'c> Wait for Answer<'c> {
    type Output = Answered;
    type Waiting = WaitingAnswer<'c>;

    fn begin(self) -> WaitingAnswer<'c> {
        WaitingAnswer { answer: self, end: deadline(self.timeout), silence: deadline(self.heartbeat) }
    }
}

impl Waiting for WaitingAnswer<'_> {
    type Output = Answered;

    fn names(&mut self, to: &mut Vec<String>) -> Result<(), EventError> {
        let told = [Told::Completed, Told::Rejected, Told::Heartbeat];
        // Without a heartbeat none is waited for, and a client that sends one is told so.
        let told = if self.answer.heartbeat.is_some() { &told[..] } else { &told[..2] };
        to.extend(told.iter().map(|told| alloc::format!("{}{}", self.answer.token, told.ending())));
        Ok(())
    }

    fn deadline(&self) -> u64 {
        self.end.min(self.silence)
    }

    fn event(&mut self, which: usize, content: Vec<u8>) -> Result<Option<Answered>, EventError> {
        Ok(match which {
            0 => Some(Answered::Completed(content)),
            1 => Some(Answered::Rejected(content)),
            _ => {
                self.silence = deadline(self.answer.heartbeat);
                None
            }
        })
    }

    fn time(&self, now: u64) -> Option<Answered> {
        match () {
            () if self.end != NEVER && now >= self.end => Some(Answered::TimedOut),
            () if self.silence != NEVER && now >= self.silence => Some(Answered::Silent),
            () => None,
        }
    }
}

impl<'c> Wait for &'c Child {
    type Output = Outcome;
    type Waiting = &'c Child;

    fn begin(self) -> &'c Child {
        self
    }
}

impl Waiting for &Child {
    type Output = Outcome;

    fn names(&mut self, to: &mut Vec<String>) -> Result<(), EventError> {
        to.push(self.event_name().to_string());
        Ok(())
    }

    fn deadline(&self) -> u64 {
        NEVER
    }

    fn event(&mut self, _: usize, content: Vec<u8>) -> Result<Option<Outcome>, EventError> {
        self.outcome(&content).map(Some)
    }

    fn time(&self, _: u64) -> Option<Outcome> {
        None
    }
}

impl Wait for Time {
    type Output = ();
    type Waiting = Time;

    fn begin(self) -> Time {
        self
    }
}

impl Waiting for Time {
    type Output = ();

    fn names(&mut self, _: &mut Vec<String>) -> Result<(), EventError> {
        Ok(())
    }

    fn deadline(&self) -> u64 {
        match self.0 {
            Until::Monotonic(at) => at,
            // The clock may be set meanwhile: `time` looks again.
            Until::Wall(at) => {
                let left = at.saturating_sub(clock(Clock::Realtime));
                clock(Clock::Monotonic).saturating_add(left).min(NEVER - 1)
            }
        }
    }

    fn event(&mut self, _: usize, _: Vec<u8>) -> Result<Option<()>, EventError> {
        Ok(None)
    }

    fn time(&self, now: u64) -> Option<()> {
        let is_up = match self.0 {
            Until::Monotonic(at) => now >= at,
            Until::Wall(at) => clock(Clock::Realtime) >= at,
        };
        is_up.then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durable::{Ending, callback, event, select, start};
    use crate::slot::host::{census, now, pass, send};
    use std::format;

    #[test]
    fn the_branch_whose_event_was_sent_first_wins_and_the_others_take_nothing() {
        send("b", b"1");
        send("a", b"2");
        let one = || {
            select! {
                a = event("a") => format!("a {}", a.len()),
                b = event("b") => { format!("b {}", b[0] as char) }
                _ = after(Duration::from_secs(1)) => "late".to_string(),
            }
        };
        let buffers = census().0;
        assert_eq!(one().as_deref(), Ok("b 1"));
        assert_eq!(event("a").try_recv(), Ok(Some(b"2".to_vec())), "it is still there");
        assert_eq!((one().as_deref(), census().0), (Ok("late"), buffers - 2));
        send("b", b"3");
        assert_eq!(one().as_deref(), Ok("b 3"), "a wait that was lost takes nothing later");
    }

    #[test]
    fn each_kind_has_its_own_output() {
        let (letter, child) = (callback(), start("check", "one", b"").expect("started"));
        let wait = || {
            let answer = letter.answer().timeout(Duration::from_nanos(900)).heartbeat(Duration::from_nanos(300));
            select! {
                outcome = &child => format!("{:?} {}", outcome.ending(), outcome.message()),
                answer = answer => format!("{answer:?}"),
                () = after(Duration::from_nanos(2000)) => unreachable!(),
            }
        };
        send("child:one", b"\x01\x03\0\0\0bad");
        assert_eq!(wait(), Ok(format!("{:?} bad", Ending::Failed)));
        send(&format!("{}:heartbeat", letter.token()), b"");
        send(&format!("{}:rejected", letter.token()), b"no");
        assert_eq!(wait(), Ok(format!("{:?}", Answered::Rejected(b"no".to_vec()))));
        let before = now();
        assert_eq!((wait(), now() - before), (Ok("Silent".to_string()), 300));
        send("child:one", b"?");
        let unread = wait().expect_err("it is none");
        assert_eq!(unread.message(), "what was told of child `one` cannot be read");
    }

    #[test]
    fn what_follows_is_part_of_the_function() {
        fn numbers() -> Result<u32, EventError> {
            let mut sum = 0;
            loop {
                sum += select! {
                    number = event("number") => u32::from(number[0]),
                    _ = event("end") => break Ok(sum),
                    () = after(Duration::from_nanos(10)) => return Ok(sum + 100),
                }?;
            }
        }
        send("number", b"\x03");
        send("number", b"\x04");
        send("end", b"");
        assert_eq!(numbers(), Ok(7));
        send("number", b"\x05");
        assert_eq!(numbers(), Ok(105));
    }

    #[test]
    fn the_first_time_counts_and_times_need_no_event() {
        pass(1_000);
        let first = |wall: u64| {
            select! {
                () = after(Duration::from_nanos(500)) => "after",
                () = until(Duration::from_nanos(wall)) => "until",
            }
        };
        let start = now();
        assert_eq!((first(start + 9_000), now()), (Ok("after"), start + 500));
        assert_eq!((first(start + 600), now()), (Ok("until"), start + 600));
        assert_eq!(first(0), Ok("until"), "that time is over");
        send("x", b"");
        let is_there = || select!(_ = event("x") => true, () = after(Duration::ZERO) => false);
        assert_eq!((is_there(), is_there()), (Ok(true), Ok(false)));
    }

    #[test]
    fn an_event_of_a_branch_has_no_timeout() {
        let refused = select!(_ = event("paid").timeout(Duration::from_secs(1)) => ());
        let error = refused.expect_err("a timeout");
        assert_eq!(error.errno(), Errno::Invalid);
        assert!(error.message().starts_with("event `paid`: a branch"), "{error}");
        let unnamed = select! { _ = event("") => () };
        assert_eq!(unnamed.expect_err("no name").message(), "the event's name is empty");
    }
}
