//! Children: invocations that others have started.
//!
//! ```text
//!   commit of the parent ──▶ a row of the child, which is due      end of the child ──▶ an event in the mailbox of the parent
//!                        └─▶ it has ended: its children are cancelled
//! ```
//!
//! Each arrow is part of the transaction on its left. So a child is started once and its end is told once, whatever is killed. What the parent knows
//! of a child is a row of its own, which has how the child has ended: a parent that goes back to before that is told again.

use crate::{InvocationId, MetaError, Status};
use monohull_abi::child::Ending;
use monohull_abi::event::EVENT_BYTES_MAX;

/// The most bytes of what is told of all children of an invocation.
pub const OUTCOMES_MAX: u64 = 16 << 20;
/// The most bytes of a message.
const MESSAGE_MAX: usize = 4 << 10;

/// How an invocation has ended, for the one that has started it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Why it failed.
    pub message: String,
    /// What its output slots have, if that is not too much ([`Outcome::has_room`]).
    pub outputs: Vec<(String, Vec<u8>)>,
    /// The bytes of outputs that are too much.
    pub left_out: Option<u64>,
}

/// What is known of a child.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Child {
    /// What its parent calls it.
    pub name: String,
    /// The invocation.
    pub id: InvocationId,
    /// Its workflow.
    pub workflow: String,
    /// It goes on when its parent has ended, and its end is not told.
    pub detached: bool,
    /// What it is; `None` if it was removed.
    pub status: Option<Status>,
    /// Whether its parent had taken its end at its last checkpoint.
    pub joined: bool,
}

/// An event that could not be sent, a child that could not be started or cancelled, or a copy that could not be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// When (ns since 1970).
    pub at: u64,
    /// `event`, `start`, `cancel`, `checkpoint` or `fork`.
    pub what: &'static str,
    /// To which invocation, or which child.
    pub to: String,
    /// The event's name, or the child's workflow.
    pub name: String,
    /// Why.
    pub why: String,
}

/// The invocations around another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Family {
    /// What has started it, and its name there.
    pub started_by: Option<(InvocationId, String)>,
    /// What it has started.
    pub children: Vec<Child>,
    /// What it could not send, start or cancel.
    pub undelivered: Vec<Lost>,
}

/// What is known of the invocations around another one. It is changed by commits ([`Left::sent`](crate::Left::sent)), by ends, forks and rewinds, and by
/// [`Meta::purge`](crate::Meta::purge).
pub trait Children {
    /// What an invocation knows of its children, in the order in which it has started them.
    fn children(&self, id: &InvocationId) -> Result<Vec<Child>, MetaError>;

    /// The invocation that has started this one, and what it calls it.
    fn started_by(&self, id: &InvocationId) -> Result<Option<(InvocationId, String)>, MetaError>;

    /// The invocation that has started this one, and all that this one has started, and those, and so on: in no order.
    fn relatives(&self, id: &InvocationId) -> Result<Vec<InvocationId>, MetaError>;

    /// What an invocation could not send last, the oldest first.
    fn undelivered(&self, id: &InvocationId) -> Result<Vec<Lost>, MetaError>;

    /// All of that but the relatives.
    fn family(&self, id: &InvocationId) -> Result<Family, MetaError> {
        let (started_by, children) = (self.started_by(id)?, self.children(id)?);
        Ok(Family { started_by, children, undelivered: self.undelivered(id)? })
    }
}

impl Outcome {
    /// Whether outputs of so many bytes can be told.
    pub fn has_room(bytes: u64) -> bool {
        bytes <= EVENT_BYTES_MAX as u64
    }

    /// The content of the event that tells an end without outputs.
    pub fn without_outputs(ending: Ending, message: &str) -> Vec<u8> {
        end(ending, message)
    }

    /// The content of the event that tells it.
    pub fn encode(&self, ending: Ending) -> Vec<u8> {
        let bytes = encode(ending, &self.message, &self.outputs);
        let size = self.outputs.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        match self.left_out {
            None if bytes.len() <= EVENT_BYTES_MAX => bytes,
            left_out => too_large(left_out.unwrap_or(size)),
        }
    }
}

/// That a child has ended well, with more outputs than can be told.
pub(crate) fn too_large(bytes: u64) -> Vec<u8> {
    encode(Ending::TooLarge, &format!("its outputs have {bytes} bytes, more than can be told"), &[])
}

/// An end of a child without outputs.
pub(crate) fn end(ending: Ending, message: &str) -> Vec<u8> {
    encode(ending, message, &[])
}

fn encode(ending: Ending, message: &str, outputs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut to = vec![ending as u8];
    let mut part = |bytes: &[u8]| {
        to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        to.extend(bytes);
    };
    part(&message.as_bytes()[..message.floor_char_boundary(MESSAGE_MAX)]);
    for (slot, bytes) in outputs {
        part(slot.as_bytes());
        part(bytes);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use monohull_abi::child::Outcome as Told;

    #[test]
    fn what_is_written_is_read() {
        let outputs = vec![("a".to_owned(), b"17".to_vec()), ("b".to_owned(), Vec::new())];
        let outcome = Outcome { outputs: outputs.clone(), ..Outcome::default() };
        let bytes = outcome.encode(Ending::Completed);
        let told = Told::parse(&bytes).expect("it is one");
        assert_eq!(told.ending, Ending::Completed);
        assert_eq!(told.outputs().map(|(slot, bytes)| (slot.to_owned(), bytes.to_vec())).collect::<Vec<_>>(), outputs);
        let failed = end(Ending::Failed, &"ä".repeat(MESSAGE_MAX));
        let told = Told::parse(&failed).expect("it is one");
        assert_eq!((told.ending, told.message.len()), (Ending::Failed, MESSAGE_MAX));
        let large = Outcome { outputs: vec![("a".to_owned(), vec![0; EVENT_BYTES_MAX])], ..Outcome::default() };
        let bytes = large.encode(Ending::Completed);
        let told = Told::parse(&bytes).expect("it is one");
        assert_eq!(told.message, "its outputs have 1048576 bytes, more than can be told");
    }
}
