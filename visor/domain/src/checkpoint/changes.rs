//! Which pages have changed since the last capture that was kept.
//!
//! ```text
//!   capture 1      pages of all                      ──▶ kept:      hashes 1 are what the next one compares with
//!   capture 2      pages that are not as in 1        ──▶ not kept:  as if there had been none
//!   capture 3      pages that are not as in 1        ──▶ kept:      hashes 3
//!   …              …                                 ──▶ kept, and the next one has to be whole: no hashes
//! ```
//!
//! Pages are compared by hashes of what a capture has, so it does not matter how a page came to be what it is: written, swapped out,
//! dropped, mapped anew, or given to another owner. A page that a capture does not have is in none of its two lists, so nothing of an
//! earlier one comes back in its place.
//!
//! Where the kernel can tell which pages have not been written to since the latest capture ([`Watch`], Linux 6.7), these take over their
//! hash from it, and are not read. All others are: what the kernel has lost sight of, and what no capture has looked at. It is taken over in
//! runs, so that a capture takes no time for each page that has not changed: see [`page_hashes`](super::page_hashes).
//!
//! ```text
//!   latest    at the time of the latest capture, kept or not     what an unwritten page takes over
//!   base      of the last one that was kept                      what both kinds are compared with
//! ```

use super::keeper::Base;
use super::page_hash::PageHasher;
use super::page_hashes::{Hashes, Unwritten};
use super::record::PageRun;
use monohull_abi::layout::PAGE;
use monohull_sys::written_pages::{Mappings, PageMap, Watch};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// Memory of at least so many bytes side by side is watched. Less is hashed in the time that it takes to ask the kernel, and a store to a
/// page that is watched takes longer, once.
const WATCHED_MIN: u64 = if cfg!(test) { 4 * PAGE } else { 1 << 20 };

/// A domain that stands still is compared with its last capture if that had so many bytes.
const WORTH_MIN: u64 = 1 << 20;

/// The hashes of the last captures of a domain that goes on after each.
#[derive(Default)]
pub(crate) struct Changes(Mutex<State>);

#[derive(Default)]
struct State {
    hasher: Option<Arc<PageHasher>>,
    /// Where the kernel tells what has been written to; `None` inside: it cannot.
    watch: Option<Option<Arc<Watch>>>,
    /// Of the capture that the next one is compared with, if there is one.
    base: Option<Arc<Seen>>,
    /// Of the latest capture. None while one is made: what is watched from then on is not what this was made of.
    latest: Option<Arc<Seen>>,
    /// The latest one has not been answered.
    unanswered: bool,
    /// Bytes of the pages that the latest one stands for.
    bytes: u64,
}

/// Of the pages that a capture has looked at. Few pages of the tests' have many nodes.
pub(super) type Seen = Hashes<{ if cfg!(test) { 4 } else { 64 } }, { if cfg!(test) { 3 } else { 64 } }>;

impl Changes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("changes")
    }

    /// Begins a capture after which the domain goes on.
    pub(super) fn begin(&self) -> io::Result<Found> {
        let mut state = self.lock();
        let hasher = match &state.hasher {
            Some(hasher) => hasher.clone(),
            None => state.hasher.insert(Arc::new(PageHasher::new()?)).clone(),
        };
        let watch =
            state.watch.get_or_insert_with(|| PageMap::of_process().and_then(Watch::on).ok().map(Arc::new)).clone();
        let (base, latest) = (state.base.clone().unwrap_or_default(), state.latest.take().unwrap_or_default());
        let compared = Compared { hasher, watch, base, latest, seen: Seen::default() };
        Ok(Found { compared: Some(compared), ..Found::default() })
    }

    /// Whether there is so much memory that it takes less time to look for what has changed than to copy all of it.
    pub(super) fn are_worth_it(&self) -> bool {
        self.lock().bytes >= WORTH_MIN
    }

    /// The capture is complete, and an answer follows; with the hashes of its pages if it was compared, and the bytes of all.
    pub(super) fn captured(&self, seen: Option<Seen>, bytes: u64) {
        let seen = seen.map(Arc::new);
        let mut state = self.lock();
        (state.unanswered, state.latest, state.bytes) = (seen.is_some(), seen, bytes);
    }

    /// There is an answer.
    pub(super) fn answered(&self, next: Base) {
        let mut state = self.lock();
        let is_answer = std::mem::take(&mut state.unanswered);
        match next {
            Base::This => state.base = state.latest.clone().filter(|_| is_answer),
            Base::Before => {}
            Base::None => state.base = None,
        }
    }
}

/// What a capture has found.
pub(super) struct Parts {
    /// The pages whose contents are in it.
    pub(super) pages: Vec<PageRun>,
    /// Those that are as in the capture before: addresses and bytes.
    pub(super) unchanged: Vec<(u64, u64)>,
    /// The hashes of both, if it was compared.
    pub(super) seen: Option<Seen>,
}

/// The pages of a capture that is being made.
#[derive(Default)]
pub(super) struct Found {
    /// See [`Parts`].
    pages: Vec<PageRun>,
    unchanged: Vec<(u64, u64)>,
    /// Without it all pages are in the capture.
    compared: Option<Compared>,
    /// Pages that have not been read since the domain went on, upwards: they are as in the checkpoint that it has gone on from.
    unread: Vec<Range<u64>>,
}

struct Compared {
    hasher: Arc<PageHasher>,
    watch: Option<Arc<Watch>>,
    base: Arc<Seen>,
    latest: Arc<Seen>,
    seen: Seen,
}

impl Compared {
    /// Whether a page is as it was.
    fn is_unchanged(&mut self, page: u64, bytes: &[u8]) -> bool {
        let hash = self.hasher.of(bytes);
        self.seen.set(page, Some(hash));
        self.base.hash(page) == Some(hash)
    }
}

impl Found {
    /// The same for a capture that leaves out these pages.
    pub(super) fn leaving(self, unread: Vec<Range<u64>>) -> Found {
        Found { unread, ..self }
    }

    /// Whether there are such.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Adds a page that has not been read, without reading it. False if it has been, or if that is not known.
    pub(super) fn add_unread(&mut self, page: u64) -> bool {
        let index = self.unread.partition_point(|range| range.end <= page);
        let is_unread = self.unread.get(index).is_some_and(|range| range.start <= page);
        if is_unread {
            self.add_unchanged(page..page + PAGE);
        }
        is_unread
    }

    /// Adds a page, to the last run if it follows it.
    pub(super) fn add(&mut self, page: u64, bytes: &[u8]) {
        if self.compared.as_mut().is_some_and(|compared| compared.is_unchanged(page, bytes)) {
            return self.add_unchanged(page..page + PAGE);
        }
        match self.pages.last_mut() {
            Some(last) if last.address + last.bytes.len() as u64 == page => last.bytes.extend_from_slice(bytes),
            _ => self.pages.push(PageRun { address: page, bytes: bytes.to_vec() }),
        }
    }

    fn add_unchanged(&mut self, pages: Range<u64>) {
        add_run(&mut self.unchanged, pages);
    }

    /// Where it is known what memory has been written to: a range of memory about which the kernel can be asked.
    fn watch(&self, range: &Range<u64>) -> Option<Arc<Watch>> {
        let watch = self.compared.as_ref()?.watch.clone();
        watch.filter(|_| range.end.saturating_sub(range.start) >= WATCHED_MIN)
    }

    /// The pages of a range that have not been written to since the latest capture, as far as that is known; they are in order.
    pub(super) fn unwritten(&self, range: &Range<u64>, mappings: Mappings) -> Vec<Range<u64>> {
        // If the kernel does not tell, all are read.
        self.watch(range).and_then(|watch| watch.unwritten(range.clone(), mappings).ok()).unwrap_or_default()
    }

    /// All of a range has been looked at: from now on the kernel notes what is written to.
    pub(super) fn looked_at(&self, range: Range<u64>) {
        if let Some(watch) = self.watch(&range) {
            // What cannot be watched is read the next time.
            let _ = watch.watch(range);
        }
    }

    /// A page has been looked at, and is not in the capture: it is as in a fresh mapping.
    pub(super) fn leave_out(&mut self, page: u64) {
        if let Some(compared) = self.compared.as_mut().filter(|compared| compared.watch.is_some()) {
            compared.seen.set(page, None);
        }
    }

    /// Adds pages that have not been written to since the latest capture, without reading them, and returns those that have to be read: that
    /// capture has not looked at them, or has what no capture has that was kept.
    pub(super) fn add_unwritten(&mut self, pages: Range<u64>) -> Vec<Range<u64>> {
        let Some(Compared { base, latest, seen, .. }) = &mut self.compared else { return vec![pages] };
        let (unchanged, mut unknown) = (&mut self.unchanged, Vec::new());
        seen.take_over(pages, latest, base, |run, what| match what {
            Unwritten::Unchanged => add_run(unchanged, run),
            Unwritten::Unknown => unknown.push(run),
        });
        unknown
    }

    /// The capture is complete. Pages are in the order of their addresses.
    pub(super) fn into_parts(mut self) -> Parts {
        self.pages.sort_unstable_by_key(|run| run.address);
        self.unchanged.sort_unstable();
        Parts { pages: self.pages, unchanged: self.unchanged, seen: self.compared.map(|compared| compared.seen) }
    }
}

/// Adds a run of pages, to the last one if it follows it.
fn add_run(runs: &mut Vec<(u64, u64)>, pages: Range<u64>) {
    let bytes = pages.end - pages.start;
    match runs.last_mut() {
        Some((start, len)) if *start + *len == pages.start => *len += bytes,
        _ => runs.push((pages.start, bytes)),
    }
}

#[cfg(test)]
mod tests;
