//! Pages of a checkpoint that are read when the run that goes on with it touches them.
//!
//! ```text
//!   worker                          this process
//!   touches a page ─▶ asks ───────▶ thread ─▶ file: read, unpacked, compared with its hash
//!   goes on        ◀─ the page ─────┘    └──▶ damaged: the worker says so and ends
//! ```
//!
//! The seal has been verified, and with it the hash of each page: nothing that the file has later, or had before, is taken for a page. It stays
//! open, so that it may be removed. A worker that asks for what the checkpoint does not have in such a part, or for more pages than two times those that
//! it has, is served no longer.

use super::Source;
use monohull_abi::layout::PAGE;
use monohull_checkpoint::{Chain, Content, Piece, Run};
use monohull_ipc::later_pages::{GivePages, Given, PAGES_MOST, Wanted};
use serde_bytes::ByteBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that have not been read.
#[derive(Debug)]
pub(super) struct UnreadPages {
    chain: Chain<Source>,
    /// By ascending address.
    pieces: Vec<Piece>,
    /// Pages that have been asked for, and how many may be.
    given: AtomicU64,
    most: u64,
}

impl UnreadPages {
    pub(super) fn new(chain: Chain<Source>, pieces: Vec<Piece>) -> UnreadPages {
        // Each once, and more than that for those of which it was not certain that they had come.
        let most = pieces.iter().map(|piece| piece.run.count).sum::<u64>().saturating_mul(2);
        UnreadPages { chain, pieces, given: AtomicU64::new(0), most }
    }
}

impl GivePages for UnreadPages {
    fn given(&self, Wanted { address, count }: Wanted) -> Option<Given> {
        if count == 0 || count > PAGES_MOST || !address.is_multiple_of(PAGE) {
            return None;
        }
        if self.given.fetch_add(count, Ordering::Relaxed) > self.most {
            return None;
        }
        let mut bytes = vec![0; (count * PAGE) as usize];
        let mut done = 0;
        while done < count {
            let at = address.checked_add(done * PAGE)?;
            let index = self.pieces.partition_point(|piece| piece.run.end() <= at);
            let piece = self.pieces.get(index).filter(|piece| piece.run.address <= at)?;
            let Content::Here { stored } = piece.run.content else { return None };
            let skipped = (at - piece.run.address) / PAGE;
            let pages = (piece.run.count - skipped).min(count - done);
            let run = Run { address: at, count: pages, content: Content::Here { stored: stored + skipped } };
            let room = &mut bytes[(done * PAGE) as usize..((done + pages) * PAGE) as usize];
            if let Err(error) = self.chain.read_pages(Piece { run, link: piece.link }, room) {
                return Some(match error.is_hosts() {
                    true => Given::Failed(error.to_string()),
                    false => Given::Damaged(error.to_string()),
                });
            }
            done += pages;
        }
        Some(Given::Pages(ByteBuf::from(bytes)))
    }
}

#[cfg(test)]
mod tests;
