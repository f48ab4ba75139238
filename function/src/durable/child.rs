//! Children: invocations of other workflows that this one starts, and whose ends it waits for.

use super::{EventError, deadline, event_error, take};
#[cfg(test)]
use crate::slot::host as sys;
#[cfg(not(test))]
use crate::sys;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
pub use monohull_abi::child::Ending;
use monohull_abi::child::{self, CHILD_EVENT, DETACHED};
use monohull_abi::event::INVOCATION_ID_MAX;
use monohull_abi::{Errno, number};

/// Starts an invocation of another workflow as a child of this one: with the next checkpoint of this invocation, or with its end.
///
/// The id is this invocation's own name for it, 1 to 64 letters, digits, `-` and `_`. The same id with the same workflow and input is the same child,
/// however often it is started: so it is started once, whenever a process is killed or an instance started again. The input fills the one input slot
/// of the workflow that its file does not fill; a workflow without one takes an empty input.
///
/// `starts` of the workflow file names the workflows that may be started. Whether one can be is known when it leaves: a child that cannot be started ends
/// as [`Ending::Refused`].
///
/// A child is in the scope of its parent: it is cancelled when the parent has ended, however. [`start_detached`] starts one that is not.
///
/// ```no_run
/// # use monohull::durable;
/// # fn f(pictures: Vec<Vec<u8>>) -> Result<(), durable::EventError> {
/// let mut children = Vec::new();
/// for (number, picture) in pictures.iter().enumerate() {
///     children.push(durable::start("thumbnail", &format!("picture-{number}"), picture)?);
/// }
/// for child in &children {
///     let outcome = child.join()?;
///     match outcome.output("small") {
///         Some(small) => { /* … */ }
///         None => { /* it failed: outcome.message() */ }
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub fn start(workflow: &str, id: &str, input: &[u8]) -> Result<Child, EventError> {
    leave(workflow, id, input, 0)?;
    Ok(Child { name: alloc::format!("{CHILD_EVENT}{id}") })
}

/// Starts an invocation that goes on when this one has ended, and whose end is not told: the id of that invocation.
pub fn start_detached(workflow: &str, id: &str, input: &[u8]) -> Result<String, EventError> {
    leave(workflow, id, input, DETACHED)?;
    Ok(invocation_of(id))
}

fn leave(workflow: &str, id: &str, input: &[u8], flags: u64) -> Result<(), EventError> {
    let text = alloc::format!("{id}\n{workflow}");
    let args = [text.as_ptr() as u64, text.len() as u64, input.as_ptr() as u64, input.len() as u64, flags];
    match sys::call(number::CHILD_START, args) {
        Ok(_) => Ok(()),
        Err(errno) => Err(event_error(errno, &alloc::format!("starting child `{id}` of `{workflow}`"))),
    }
}

fn invocation_of(child: &str) -> String {
    let mut id = [0; INVOCATION_ID_MAX];
    let args = [child.as_ptr() as u64, child.len() as u64, id.as_mut_ptr() as u64, id.len() as u64];
    // The name is one that a child has.
    let len = sys::call(number::CHILD_ID, args).unwrap_or(0) as usize;
    String::from_utf8_lossy(id.get(..len).unwrap_or_default()).into_owned()
}

/// A child that was started ([`start`]).
///
/// In a copy of the workflow it is a child of the copy: another invocation, which is started from its beginning unless the child had ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    /// Of the event that tells its end.
    name: String,
}

impl Child {
    /// What this invocation calls it.
    pub fn id(&self) -> &str {
        &self.name[CHILD_EVENT.len()..]
    }

    /// The id of its invocation, by which it is sent events.
    pub fn invocation_id(&self) -> String {
        invocation_of(self.id())
    }

    /// Waits until it has ended.
    ///
    /// An end is taken once. To have it again, start the same child again.
    pub fn join(&self) -> Result<Outcome, EventError> {
        match self.take(deadline(None))? {
            Some(outcome) => Ok(outcome),
            None => Err(EventError { errno: Errno::TimedOut, message: alloc::format!("child `{}`", self.id()) }),
        }
    }

    /// Waits until it has ended, and no longer than this. `None` after that.
    pub fn join_within(&self, timeout: Duration) -> Result<Option<Outcome>, EventError> {
        self.take(deadline(Some(timeout)))
    }

    fn take(&self, deadline: u64) -> Result<Option<Outcome>, EventError> {
        match take(&[&self.name], deadline)? {
            None => Ok(None),
            Some((_, bytes)) => self.outcome(&bytes).map(Some),
        }
    }

    /// What was told of its end.
    pub(super) fn outcome(&self, bytes: &[u8]) -> Result<Outcome, EventError> {
        Outcome::read(bytes).ok_or_else(|| {
            let message = alloc::format!("what was told of child `{}` cannot be read", self.id());
            EventError { errno: Errno::Io, message }
        })
    }

    /// The name of the event that tells its end, for [`first_of`](super::first_of): its content is read by [`Outcome::read`].
    pub fn event_name(&self) -> &str {
        &self.name
    }

    /// Cancels it, with the next checkpoint. Its end is told nevertheless: as [`Ending::Cancelled`], or as what it was before that.
    pub fn cancel(&self) -> Result<(), EventError> {
        let id = self.id();
        match sys::call(number::CHILD_CANCEL, [id.as_ptr() as u64, id.len() as u64]) {
            Ok(_) => Ok(()),
            Err(errno) => Err(event_error(errno, &alloc::format!("cancelling child `{id}`"))),
        }
    }
}

/// How a child has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    ending: Ending,
    message: String,
    outputs: Vec<(String, Vec<u8>)>,
}

impl Outcome {
    /// Reads the content of the event that tells an end; `None` if it is another.
    pub fn read(bytes: &[u8]) -> Option<Outcome> {
        let told = child::Outcome::parse(bytes)?;
        let outputs = told.outputs().map(|(slot, bytes)| (slot.to_string(), bytes.to_vec())).collect();
        Some(Outcome { ending: told.ending, message: told.message.to_string(), outputs })
    }

    /// Whether it ended well, and why not.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Whether it ended well and its outputs are here.
    pub fn is_completed(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// Why it did not end well; may be empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What an output slot has.
    pub fn output(&self, slot: &str) -> Option<&[u8]> {
        self.outputs.iter().find(|(name, _)| name == slot).map(|(_, bytes)| &**bytes)
    }

    /// All outputs, with the names of their slots.
    pub fn outputs(&self) -> &[(String, Vec<u8>)] {
        &self.outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host::{outgoing, send};

    #[test]
    fn a_child_is_started_and_its_end_read() {
        let child = start("thumbnail", "one", b"picture").expect("started");
        assert_eq!((child.id(), child.event_name(), &*child.invocation_id()), ("one", "child:one", "one-invocation"));
        assert_eq!(start_detached("log", "two", b"").as_deref(), Ok("two-invocation"));
        let sent = outgoing();
        assert_eq!(sent[0], ("one\nthumbnail".to_string(), b"picture".to_vec(), 0));
        assert_eq!(sent[1], ("two\nlog".to_string(), Vec::new(), DETACHED));
        assert_eq!(child.join_within(Duration::from_secs(1)), Ok(None));
        send("child:one", b"\0\0\0\0\0\x01\0\0\0s\x02\0\0\x0017");
        let outcome = child.join().expect("it has ended");
        assert!(outcome.is_completed() && outcome.message().is_empty());
        assert_eq!((outcome.output("s"), outcome.output("t")), (Some(&b"17"[..]), None));
        send("child:one", b"\x01\x03\0\0\0bad");
        let outcome = child.join().expect("it has ended");
        assert_eq!((outcome.ending(), outcome.message(), outcome.outputs().len()), (Ending::Failed, "bad", 0));
        send("child:one", b"?");
        assert_eq!(child.join().expect_err("it is none").message(), "what was told of child `one` cannot be read");
        assert_eq!(child.cancel(), Ok(()));
    }

    #[test]
    fn refusals_come_back() {
        let refused = start("thumbnail", "", b"").expect_err("it has no id");
        assert_eq!(refused.message(), "starting child `` of `thumbnail`: the child's id is empty");
    }
}
