//! A worker's end of the socket over which it is given [pages of its checkpoint](monohull_ipc::later_pages).
//!
//! ```text
//!   a function touches a page ─▶ pager ─▶ asks ─▶ the page: it goes on
//!                                            └──▶ damage, or a host that fails: its supervisor is told, and the process ends
//! ```
//!
//! A run that lacks a part of its memory does nothing more: it may be that what it would do next depends on that part.

use super::exit_status::status;
use super::protocol::{FromWorker, SupervisorChannel};
use monohull_domain::checkpoint::{PageError, PageSource};
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

    fn pages(&self, address: u64, count: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), PageError> {
        match self.pages.ask(&Wanted { address, count }) {
            Ok((Given::Pages(bytes), _)) => {
                take(&bytes);
                Ok(())
            }
            Ok((Given::Damaged(why), _)) => Err(PageError::Damaged(why)),
            Ok((Given::Failed(why), _)) => Err(PageError::Host(why)),
            Err(error) => Err(PageError::Host(format!("the process that has the checkpoint does not answer: {error}"))),
        }
    }

    fn lost(&self, error: &PageError) {
        match error {
            PageError::Damaged(why) => {
                let _ = self.channel.send(&FromWorker::Unfit { why: why.clone() }, &[]);
            }
            PageError::Host(why) => eprintln!("{why}"),
        }
        exit_now(status::UNREAD)
    }
}
