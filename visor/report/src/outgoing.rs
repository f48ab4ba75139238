//! Events on their way out of a workflow, and the starts and ends of its children.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// What leaves a workflow with its next checkpoint or its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Outgoing {
    /// What it is.
    pub what: What,
    /// Of an event the receiver's id; of children the id that the function has given the child; else the event by which it is told.
    pub to: String,
    /// Of an event its name; of a start the name of the workflow; of a checkpoint its label.
    pub name: String,
    /// What the event says, or the input of the child.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// Which of the workflow's events it is: step, instance and number. The same if the instance is run again.
    pub origin: String,
}

/// What a workflow can do to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum What {
    /// It sends an event to another invocation.
    Event,
    /// It starts a child.
    Start {
        /// The child goes on when its parent has ended.
        detached: bool,
    },
    /// It cancels a child.
    Cancel,
    /// It gives its next checkpoint a label, and is told of that by an event of its own.
    Checkpoint,
    /// It makes copies of itself, and is told of them by an event of its own.
    Fork {
        /// How many.
        copies: u32,
    },
}

/// The end of the name of an event by which something is told that was asked for at this place: step, instance and number.
pub fn place_of(origin: &str) -> String {
    let mut place = String::new();
    for byte in &Sha256::digest(origin)[..8] {
        let _ = write!(place, "{byte:02x}");
    }
    place
}

/// Bytes of a child's own id that the id of its invocation begins with.
const READABLE: usize = 47;

/// The id of the invocation that a child is: the same for the same parent and the same id that the parent's function has given it.
pub fn child_invocation(parent: &str, child: &str) -> String {
    let mut hash = Sha256::new();
    for part in [parent, child] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut id = child[..child.floor_char_boundary(READABLE)].to_owned() + "-";
    for byte in &hash.finalize()[..8] {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_of_each_parent_is_an_invocation_of_its_own() {
        let ids = [("a", "b-c"), ("a-b", "c"), ("a", "b"), ("ab", ""), ("b", "a")].map(|(p, c)| child_invocation(p, c));
        for (place, id) in ids.iter().enumerate() {
            assert!(!ids[..place].contains(id), "{ids:?}");
        }
        assert_eq!(child_invocation("album", "one"), child_invocation("album", "one"));
        let long = child_invocation("p", &"x".repeat(64));
        assert!(long.len() == 64 && is_id(&long), "{long}");
    }

    fn is_id(id: &str) -> bool {
        id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    }
}
