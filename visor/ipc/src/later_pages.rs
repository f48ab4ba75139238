//! Pages of a checkpoint that a process is given when it touches them.
//!
//! ```text
//!   worker                                    process that has the checkpoint
//!   touches a page ─▶ pager ── Wanted ──▶     thread: reads them, compares each with its hash
//!            goes on ◀─ fills ◀── Given ──    or says what is wrong with the checkpoint
//! ```
//!
//! One that has the checkpoint answers to a process that may be in the wrong hands: that gets no other pages than those of the workflow which
//! it runs, whatever it asks for.

use crate::request::{self, Protocol, Responder};
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::fmt::Debug;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

/// Most pages of a request. Larger messages do not fit a socket with the kernel's usual settings.
pub const PAGES_MOST: u64 = 32;

/// Bytes of the stack of a thread that reads pages.
const STACK: usize = 128 * 1024;

/// Requests for pages, and the pages.
#[derive(Debug)]
pub enum LaterPages {}

/// Pages that a process asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wanted {
    /// The address of the first.
    pub address: u64,
    /// How many, at most [`PAGES_MOST`].
    pub count: u64,
}

/// What it is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Given {
    /// The contents of all of them.
    Pages(ByteBuf),
    /// What is wrong with the checkpoint: the run cannot go on.
    Damaged(String),
    /// Why the host does not give them now.
    Failed(String),
}

impl Protocol for LaterPages {
    type Request<'m> = Wanted;
    type Reply = Given;
    // Pages, or an error that names files.
    const MESSAGE_MAX: usize = (PAGES_MOST as usize + 4) * 4096;
}

/// Has pages that are asked for.
pub trait GivePages: Send + Sync + Debug {
    /// These; `None` if they cannot be asked for: a process that does is given nothing more.
    fn given(&self, wanted: Wanted) -> Option<Given>;
}

/// Gives pages to the process that gets this socket, as long as it is open there. That is done by a thread of its own.
pub fn give(pages: Arc<dyn GivePages>) -> io::Result<OwnedFd> {
    let (here, there) = request::pair()?;
    let serve = move || {
        let mut responder = Responder::<LaterPages>::new(here);
        while let Ok(Some(wanted)) = responder.receive() {
            let Some(given) = pages.given(wanted) else { return };
            if responder.reply(&given, None).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("checkpoint".to_owned()).stack_size(STACK).spawn(serve)?;
    Ok(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Requester;

    /// Pages of sevens, but for one that is damaged and one that is not there.
    #[derive(Debug)]
    struct Sevens;

    impl GivePages for Sevens {
        fn given(&self, Wanted { address, count }: Wanted) -> Option<Given> {
            match address {
                0 => Some(Given::Damaged("a page".to_owned())),
                1 => None,
                _ => Some(Given::Pages(ByteBuf::from(vec![7; count as usize * 4096]))),
            }
        }
    }

    #[test]
    fn as_many_pages_as_may_be_asked_for_are_given() {
        let requester = Requester::<LaterPages>::new(give(Arc::new(Sevens)).expect("a thread"));
        let ask = |address, count| requester.ask(&Wanted { address, count }).expect("an answer").0;
        for count in [1, PAGES_MOST] {
            assert_eq!(ask(0x1000, count), Given::Pages(ByteBuf::from(vec![7; count as usize * 4096])));
        }
        assert_eq!(ask(0, 1), Given::Damaged("a page".to_owned()));
        let wrong = Wanted { address: 1, count: 1 };
        assert_eq!(requester.ask(&wrong).expect_err("not these").kind(), io::ErrorKind::UnexpectedEof);
        requester.ask(&Wanted { address: 0x1000, count: 1 }).expect_err("nothing more");
    }
}
