//! Save points of an invocation, and copies of it that it makes itself.

use super::{EventError, deadline, event_error, take};
use crate::branch::{ask_checkpoint, ask_fork};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use monohull_abi::Errno;
use monohull_abi::branch::Forked as Told;
use monohull_abi::event::EVENT_NAME_MAX;

/// How a function has come out of [`checkpoint`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checkpointed {
    /// It has made the save point, and goes on.
    WentOn,
    /// It was taken back there, or is a copy that was made of the save point.
    CameBack,
}

/// How a function has come out of [`fork`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forked {
    /// It is the invocation that has asked. The copies have these ids.
    Original(Vec<String>),
    /// It is the copy of this number, from 1.
    Copy(u32),
}

/// Makes a save point: all that this invocation is now is kept under this label, durably, before the call returns.
///
/// `monohull rewind ID --to LABEL` takes the invocation back there: then the call returns once more, with [`Checkpointed::CameBack`]. So does it in a copy
/// of the save point (`monohull fork ID --at LABEL`).
///
/// The label has 1 to 64 bytes, is no number, and may be used again: the last save point of a label is the one that is meant. The other threads of the workflow
/// go on until they only wait, and the checkpoint is made then.
///
/// ```no_run
/// # use monohull::durable::{self, Checkpointed};
/// # fn pay() {}
/// # fn f() -> Result<(), durable::EventError> {
/// if durable::checkpoint("before the payment")? == Checkpointed::CameBack {
///     println!("once more");
/// }
/// pay();
/// # Ok(())
/// # }
/// # extern crate std;
/// # use std::println;
/// ```
pub fn checkpoint(label: &str) -> Result<Checkpointed, EventError> {
    let what = || alloc::format!("checkpoint `{label}`");
    let mut event = [0; EVENT_NAME_MAX];
    let event = ask_checkpoint(label.as_bytes(), &mut event).map_err(|errno| event_error(errno, &what()))?;
    match told(event)?.first() {
        Some(0) => Ok(Checkpointed::WentOn),
        Some(1) => Ok(Checkpointed::CameBack),
        _ => Err(unreadable(&what())),
    }
}

/// Makes copies of this invocation, 1 to 100: the call returns in each of them too.
///
/// A copy is an invocation of its own, with its own id, events and output files, and the same past. They are made by the transaction that keeps the checkpoint
/// in which this call waits: all of them once, whenever a process is killed. If the invocation is taken back and comes here again, or its instance is started again,
/// the copies are those that there are.
///
/// ```no_run
/// # use monohull::durable::{self, Forked};
/// # fn f() -> Result<(), durable::EventError> {
/// let plan = match durable::fork(2)? {
///     Forked::Original(_) => "a",
///     Forked::Copy(1) => "b",
///     Forked::Copy(_) => "c",
/// };
/// # Ok(())
/// # }
/// ```
pub fn fork(copies: u32) -> Result<Forked, EventError> {
    let what = || alloc::format!("{copies} copies of this invocation");
    let mut event = [0; EVENT_NAME_MAX];
    let event = ask_fork(copies.into(), &mut event).map_err(|errno| event_error(errno, &what()))?;
    let bytes = told(event)?;
    match Told::parse(&bytes) {
        Some(Told::Original(ids)) => {
            Ok(Forked::Original(ids.split('\n').filter(|id| !id.is_empty()).map(ToString::to_string).collect()))
        }
        Some(Told::Copy(number)) => Ok(Forked::Copy(number)),
        Some(Told::Refused(why)) => {
            Err(EventError { errno: Errno::TooMany, message: alloc::format!("{}: {why}", what()) })
        }
        None => Err(unreadable(&what())),
    }
}

/// Waits for what is told by this event.
fn told(event: &[u8]) -> Result<Vec<u8>, EventError> {
    let event = String::from_utf8_lossy(event);
    match take(&[&event], deadline(None))? {
        Some((_, bytes)) => Ok(bytes),
        None => Err(EventError { errno: Errno::TimedOut, message: event.into_owned() }),
    }
}

#[cold]
fn unreadable(what: &str) -> EventError {
    EventError { errno: Errno::Io, message: alloc::format!("{what}: what was told of it cannot be read") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::host::send;

    #[test]
    fn what_has_become_of_it_is_told_by_an_event() {
        send("checkpoint:a", &[0]);
        send("checkpoint:a", &[1]);
        assert_eq!(checkpoint("a"), Ok(Checkpointed::WentOn));
        assert_eq!(checkpoint("a"), Ok(Checkpointed::CameBack));
        send("checkpoint:b", b"?");
        let message = checkpoint("b").expect_err("it is none").message().to_string();
        assert_eq!(message, "checkpoint `b`: what was told of it cannot be read");
        send("fork:", b"original\none-1\none-2");
        send("fork:", b"copy\n2");
        send("fork:", b"refused\nthere is no room");
        assert_eq!(fork(2), Ok(Forked::Original(alloc::vec!["one-1".to_string(), "one-2".to_string()])));
        assert_eq!(fork(2), Ok(Forked::Copy(2)));
        let refused = fork(2).expect_err("it is refused");
        assert_eq!(
            (refused.errno(), refused.message()),
            (Errno::TooMany, "2 copies of this invocation: there is no room")
        );
        assert_eq!(fork(0).expect_err("it is none").errno(), Errno::Invalid);
    }
}
