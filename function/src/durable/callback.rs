//! Waiting for an answer of a client that knows a token.

use super::select::{Wait as _, first};
use super::{Event, EventError, event, invocation_id};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use monohull_abi::callback::{is_token, write_token};
use monohull_abi::number;
use monohull_abi::types::InfoString;

/// Makes a token: the name of an event that cannot be guessed.
///
/// `POST /callbacks/ID/TOKEN` of a server, which is [`url`](Callback::url), completes the wait, while the workflow waits; so does
/// `monohull send ID TOKEN`. `ID` is [`invocation_id`]. The token is the right to do that: with it no other is needed. It is answered once.
///
/// ```no_run
/// # use core::time::Duration;
/// # use monohull::durable::{self, Answered};
/// # fn mail(text: String) {}
/// # fn f(week: Duration) -> Result<(), durable::EventError> {
/// let approval = durable::callback();
/// mail(format!("please answer to {}", approval.url()));
/// match approval.answer().timeout(week).wait()? {
///     Answered::Completed(answer) => { /* … */ }
///     Answered::Rejected(why) => { /* … */ }
///     Answered::TimedOut | Answered::Silent => { /* … */ }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// If the system has no random numbers.
pub fn callback() -> Callback {
    let mut secret = [0u8; 16];
    let (at, len) = (secret.as_mut_ptr() as u64, secret.len() as u64);
    assert_eq!(sys::call(number::GETRANDOM, [at, len]), Ok(len), "the system has no random numbers");
    let mut token = String::new();
    // A string takes all.
    let _ = write_token(&mut token, u128::from_ne_bytes(secret));
    Callback { token }
}

/// What [`callback`] gives.
///
/// A copy of the workflow has the same token, and is another invocation: it is completed by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callback {
    token: String,
}

impl Callback {
    /// That of this token; `None` if it is none.
    pub(crate) fn of(token: &str) -> Option<Callback> {
        is_token(token).then(|| Callback { token: String::from(token) })
    }

    /// What the caller outside has to know.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Where the answer is sent: `https://ships.example/callbacks/ID/TOKEN`, if the server was started with `--public-url https://ships.example`.
    /// Without that, and where there is no server, it is the path alone, `/callbacks/ID/TOKEN`, since a server does not know by which name clients
    /// reach it.
    pub fn url(&self) -> String {
        alloc::format!("{}/callbacks/{}/{}", sys::info_string(InfoString::PublicUrl), invocation_id(), self.token)
    }

    /// The event that is sent to complete the wait. A client that rejects is refused meanwhile.
    pub fn event(&self) -> Event<'_> {
        event(&self.token)
    }

    /// The answer, which may be that there is none: a client may also reject (`POST /callbacks/ID/TOKEN/reject`), and say that it is still at it
    /// (`…/heartbeat`).
    pub fn answer(&self) -> Answer<'_> {
        Answer { token: &self.token, timeout: None, heartbeat: None }
    }
}

/// What [`Callback::answer`] gives: it waits for the answer.
#[derive(Clone, Copy, Debug)]
#[must_use = "only `wait` takes the answer"]
pub struct Answer<'c> {
    pub(super) token: &'c str,
    pub(super) timeout: Option<Duration>,
    pub(super) heartbeat: Option<Duration>,
}

/// How a client has answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered {
    /// With this.
    Completed(Vec<u8>),
    /// There is no answer, and this is why.
    Rejected(Vec<u8>),
    /// Not within the timeout.
    TimedOut,
    /// It has said nothing for as long as it may: it may have died.
    Silent,
}

impl Answer<'_> {
    /// Waits no longer than this, from the call of `wait` on.
    pub fn timeout(self, timeout: Duration) -> Self {
        Answer { timeout: Some(timeout), ..self }
    }

    /// Waits no longer than this for a heartbeat, from the call of `wait` or the heartbeat before it on.
    pub fn heartbeat(self, heartbeat: Duration) -> Self {
        Answer { heartbeat: Some(heartbeat), ..self }
    }

    /// Waits for the answer.
    pub fn wait(self) -> Result<Answered, EventError> {
        first(self.begin())
    }
}
