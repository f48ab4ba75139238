//! The pages of a checkpoint, on their way to memory that is sealed then: each is compared with its hash before it is there.
//!
//! ```text
//!   file ── parts of 256 KiB ─▶ thread: read, unpack, compare ─▶ memory, in the order of addresses ── record ─▶ sealed
//!                          ─▶ thread: …
//! ```
//!
//! To hash a page takes several times as long as to copy it, so that all cores do it. A small checkpoint is read by one.
//!
//! Of a large one that a single run goes on with, large parts [may be left](super::unread) until they are touched.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use monohull_abi::layout::{FILES_BASE, PAGE};
use monohull_checkpoint::{Chain, Content, Error, Piece, ReadAt, Run};
use monohull_ipc::sealed_pages::PagesFile;

use super::NotOurs;

/// Pages that are read, compared and written at once.
const PART: u64 = 64;
/// So many parts are worth a thread, which takes some 50 µs to start and to end.
const PARTS_EACH: usize = 4;
/// Most threads.
const THREADS_MOST: usize = 8;

/// A part of so many pages side by side may be left: to touch it costs as much as to copy a few pages.
const LEFT_PART: u64 = 16;
/// Pages that are worth it: to read fewer takes no longer than what is done to read none.
const LEFT_MIN: u64 = if cfg!(test) { 64 } else { 256 };

/// What of the pages is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reading {
    /// All.
    All,
    /// Those that are not in large parts, if there are large ones.
    SmallParts,
}

/// Pages that lie side by side in memory.
struct Part {
    /// Where in it.
    at: u64,
    pages: u64,
    pieces: Vec<Piece>,
}

/// The pages of a checkpoint, which may be so many bytes; and what of them has not been read.
pub(super) fn into_memory<S: ReadAt + Sync>(
    chain: &Chain<S>,
    most: u64,
    reading: Reading,
) -> Result<(PagesFile, Vec<Piece>), NotOurs> {
    let bytes = chain.pieces().iter().map(|piece| piece.run.count.saturating_mul(PAGE));
    if bytes.fold(0, u64::saturating_add) > most {
        return Err(format!("its pages have more than the {most} bytes that the workflow's limits allow").into());
    }
    let mut memory = PagesFile::new().map_err(no_memory)?;
    let mut parts: Vec<Part> = Vec::new();
    let left = match reading {
        Reading::All => Vec::new(),
        Reading::SmallParts => large_parts(chain),
    };
    let mut is_left = left.iter().peekable();
    for piece in chain.pieces() {
        if is_left.next_if_eq(&piece).is_some() {
            memory.leave(piece.run.address, piece.run.count * PAGE);
            continue;
        }
        match piece.run.content {
            // A fresh mapping of the image has them.
            Content::Base => {}
            Content::Parent => return Err("a page of it is in no checkpoint".to_owned().into()),
            Content::Zero => _ = memory.add(piece.run.address, piece.run.count * PAGE),
            Content::Here { stored } => {
                let at = memory.add(piece.run.address, piece.run.count * PAGE);
                divide(*piece, stored, at, &mut parts);
            }
        }
    }
    read_all(chain, &parts, &memory)?;
    Ok((memory, left))
}

/// The pieces with contents that lie side by side in large parts, and that the run has not touched before; none if they are few.
fn large_parts<S: ReadAt>(chain: &Chain<S>) -> Vec<Piece> {
    // Files in memory are not memory of functions, which the kernel would tell of.
    let has_contents = |piece: &Piece| {
        matches!(piece.run.content, Content::Here { .. }) && piece.run.address < FILES_BASE && !chain.is_active(piece)
    };
    let pages = |pieces: &[Piece]| pieces.iter().map(|piece| piece.run.count).sum::<u64>();
    let parts = chain
        .pieces()
        .chunk_by(|one, next| one.run.end() == next.run.address && has_contents(one) && has_contents(next));
    let large = parts.filter(|part| part.first().is_some_and(has_contents) && pages(part) >= LEFT_PART);
    let large: Vec<_> = large.flatten().copied().collect();
    if pages(&large) < LEFT_MIN { Vec::new() } else { large }
}

/// Divides a piece whose contents begin with this stored page, and lie there in memory, into parts.
fn divide(piece: Piece, stored: u64, at: u64, parts: &mut Vec<Part>) {
    let mut done = 0;
    while done < piece.run.count {
        let at = at + done * PAGE;
        if parts.last().is_none_or(|last| last.at + last.pages * PAGE != at || last.pages == PART) {
            parts.push(Part { at, pages: 0, pieces: Vec::new() });
        }
        let Some(part) = parts.last_mut() else { return };
        let count = (PART - part.pages).min(piece.run.count - done);
        let content = Content::Here { stored: stored + done };
        let run = Run { address: piece.run.address + done * PAGE, count, content };
        part.pieces.push(Piece { run, link: piece.link });
        part.pages += count;
        done += count;
    }
}

fn read_all<S: ReadAt + Sync>(chain: &Chain<S>, parts: &[Part], memory: &PagesFile) -> Result<(), NotOurs> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut room = vec![0; (PART * PAGE) as usize];
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let read = read(chain, part, memory, &mut room);
            // Nothing of the rest is used.
            read.inspect_err(|_| next.store(parts.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    let most = (parts.len() / PARTS_EACH).min(THREADS_MOST);
    // A dozen system calls, which take as long as to read twenty pages.
    let cores = || thread::available_parallelism().map_or(1, NonZero::get);
    let others = if most > 1 { cores().min(most) - 1 } else { 0 };
    thread::scope(|scope| {
        // One that cannot be started leaves its work to the others.
        let start = |_| thread::Builder::new().name("pages".to_owned()).spawn_scoped(scope, work).ok();
        let started: Vec<_> = (0..others).filter_map(start).collect();
        let own = work();
        let ended = started.into_iter().map(|other| other.join().expect("it does not panic"));
        ended.fold(own, Result::and)
    })
}

fn read<S: ReadAt>(chain: &Chain<S>, part: &Part, memory: &PagesFile, room: &mut [u8]) -> Result<(), NotOurs> {
    let mut end = 0;
    for piece in &part.pieces {
        let start = end;
        end += (piece.run.count * PAGE) as usize;
        chain.read_pages(*piece, &mut room[start..end]).map_err(NotOurs::Damaged)?;
    }
    memory.write(part.at, &room[..end]).map_err(no_memory)
}

pub(super) fn no_memory(source: std::io::Error) -> NotOurs {
    NotOurs::Damaged(Error::Io { doing: "keeping its pages in memory", source })
}
