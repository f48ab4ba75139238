//! A worker's end of the socket over which it is given [pages of its checkpoint](monohull_ipc::later_pages).
//!
//! ```text
//!   a function touches a page ─▶ pager ─▶ asks ─▶ the page: it goes on
//!                                            └──▶ damage: its supervisor is told, and the process ends
//! ```
//!
//! A run that lacks a part of its memory does nothing more: it may be that what it would do next depends on that part.

use super::protocol::{FromWorker, SupervisorChannel};
use monohull_domain::checkpoint::PageSource;
use monohull_ipc::Requester;
use monohull_ipc::later_pages::{Given, LaterPages, PAGES_MOST, Wanted};
use monohull_sys::fork::exit_now;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

struct Asked {
    pages: Requester<LaterPages>,
    channel: Arc<SupervisorChannel>,
}

/// The pages that come over this socket.
pub(super) fn asked_over(socket: OwnedFd, channel: Arc<SupervisorChannel>) -> Arc<dyn PageSource> {
    Arc::new(Asked { pages: Requester::new(socket), channel })
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pages.fmt(f)
    }
}

impl PageSource for Asked {
    fn most(&self) -> u64 {
        PAGES_MOST
    }

    fn pages(&self, address: u64, count: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        match self.pages.ask(&Wanted { address, count }) {
            Ok((Given::Pages(bytes), _)) => {
                take(&bytes);
                Ok(())
            }
            Ok((Given::Damaged(why), _)) => Err(why),
            Err(error) => Err(format!("the process that has the checkpoint does not answer: {error}")),
        }
    }

    fn lost(&self, why: &str) {
        let _ = self.channel.send(&FromWorker::Unfit { why: why.to_owned() }, &[]);
        exit_now(1)
    }
}
